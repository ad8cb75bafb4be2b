//! Scripts that run in Redis. All that is known about purges is in one hash: where it is lost, to a flush or to eviction, another life
//! begins, and no entry of the old one is given.

/// Begins a life if there is none. Gives the life, the number of the last purge, and where the log ends.
///
/// Keys: the purges, the log. Arguments: a new life.
pub const HELLO: &str = "
redis.call('HSETNX', KEYS[1], 'life', ARGV[1])
local at = redis.call('HMGET', KEYS[1], 'life', 'number')
local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)
return {at[1], at[2] or '0', last[1] and last[1][1] or '0-0'}
";

/// Notes a purge and tells all gateways. Gives the life and its number.
///
/// Keys: the purges, the log. Arguments: a new life, who purges, what (JSON), the mode (`h` or `s`), the name or `*` for all; for
/// a prefix, that too.
pub const PURGE: &str = "
if redis.call('HLEN', KEYS[1]) > 200000 then
  local at = redis.call('HMGET', KEYS[1], 'life', 'number')
  redis.call('UNLINK', KEYS[1])
  redis.call('HSET', KEYS[1], 'life', at[1])
  redis.call('HSET', KEYS[1], 'number', at[2])
  redis.call('HSET', KEYS[1], 'h*', at[2])
end
redis.call('HSETNX', KEYS[1], 'life', ARGV[1])
local number = redis.call('HINCRBY', KEYS[1], 'number', 1)
if ARGV[6] then
  local prefixes = cjson.decode(redis.call('HGET', KEYS[1], 'prefixes') or '[]')
  table.insert(prefixes, {number, ARGV[4], ARGV[6]})
  if #prefixes > 32 then
    redis.call('HSET', KEYS[1], 'h*', prefixes[1][1])
    table.remove(prefixes, 1)
  end
  redis.call('HSET', KEYS[1], 'prefixes', cjson.encode(prefixes))
else
  redis.call('HSET', KEYS[1], ARGV[4] .. ARGV[5], number)
end
local life = redis.call('HGET', KEYS[1], 'life')
redis.call('XADD', KEYS[2], 'MAXLEN', '~', 1000, '*', 'life', life, 'number', number, 'by', ARGV[2], 'what', ARGV[3])
return {life, tostring(number)}
";

/// Keeps an entry, unless there is one whose fetch began later.
///
/// Keys: the entries of the key, the purges. Arguments: the life and the number of its stamp, the variant, its lifetime in
/// milliseconds, its URL, its names, itself.
pub const KEEP: &str = "
local known = redis.call('HGET', KEYS[1], ARGV[3])
if known then
  local life, number = string.match(known, '^(%d+) (%d+) ')
  if life == ARGV[1] and tonumber(number) > tonumber(ARGV[2]) then return 0 end
elseif redis.call('HLEN', KEYS[1]) >= 32 then
  redis.call('DEL', KEYS[1])
end
if redis.call('HGET', KEYS[2], 'life') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], ARGV[3], ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[5] .. ' ' .. ARGV[6] .. '\\n' .. ARGV[7])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[4]) then redis.call('PEXPIRE', KEYS[1], ARGV[4]) end
return 1
";

/// Gives the life and the number of the last purge, and of each entry of the key that is not purged: the number of its stamp, whether it
/// is stale, and itself.
///
/// Keys: the entries of the key, the purges.
pub const FIND: &str = "
local at = redis.call('HMGET', KEYS[2], 'life', 'number', 'prefixes')
if not at[1] then return {} end
local out = {at[1], at[2] or '0'}
local all = redis.call('HVALS', KEYS[1])
for _, value in ipairs(all) do
  local first, last, life, number, url, names = string.find(value, '^(%d+) (%d+) (%S*) (%S*)\\n')
  number = tonumber(number)
  if life == at[1] then
    local fields = {'h*', 's*'}
    for name in string.gmatch(names, '%x+') do
      fields[#fields + 1] = 'h' .. name
      fields[#fields + 1] = 's' .. name
    end
    local stale, gone = false, false
    for i, purged in ipairs(redis.call('HMGET', KEYS[2], unpack(fields))) do
      if purged and tonumber(purged) > number then
        if i % 2 == 1 then gone = true else stale = true end
      end
    end
    for _, prefix in ipairs(at[3] and cjson.decode(at[3]) or {}) do
      if prefix[1] > number then
        local text = prefix[3]
        local of = url
        if string.sub(text, 1, 1) == '/' then of = string.match(url, '^[^:]*://[^/?]*(.*)$') or url end
        if string.sub(of, 1, #text) == text then
          if prefix[2] == 'h' then gone = true else stale = true end
        end
      end
    end
    if not gone then
      out[#out + 1] = tostring(number)
      out[#out + 1] = stale and '1' or '0'
      out[#out + 1] = string.sub(value, last + 1)
    end
  end
end
return out
";
