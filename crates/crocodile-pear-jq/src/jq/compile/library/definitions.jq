def map(f): [.[] | f];
def map_values(f): .[] |= f;
def add(f): reduce f as $x (null; . + $x);
def add: add(.[]);
def abs: if . < 0 then -. end;
def toarray: if type == "array" then . else [.] end;
def range($to): range(0; $to);
def range($from; $to; $by):
  if $by > 0 then $from | while(. < $to; . + $by)
  elif $by < 0 then $from | while(. > $to; . + $by)
  else empty end;
def recurse(f; cond): recurse(f | select(cond));
def del(f): delpaths([path(f)]);
def paths: path(..) | select(. != []);
def paths(f): path(.. | select(f)) | select(. != []);
def leaf_paths: paths(scalars);
def pick(f): . as $whole | reduce path(f) as $at (null; setpath($at; $whole | getpath($at)));
def from_entries:
  reduce .[] as $entry ({}; . + {
    ($entry | .key // .Key // .name // .Name): ($entry | if has("value") then .value else .Value end)
  });
def with_entries(f): to_entries | map(f) | from_entries;
def isfinite: type == "number" and (isinfinite | not);
def arrays: select(type == "array");
def objects: select(type == "object");
def iterables: select(type == ("array", "object"));
def booleans: select(type == "boolean");
def numbers: select(type == "number");
def normals: select(isnormal);
def finites: select(isfinite);
def strings: select(type == "string");
def nulls: select(. == null);
def values: select(. != null);
def scalars: select(type | . != "array" and . != "object");
def isboolean: type == "boolean";
def isnumber: type == "number";
def isstring: type == "string";
def isarray: type == "array";
def isobject: type == "object";
def first: .[0];
def last: .[-1];
def nth($n): .[$n];
def nth($n; f): if $n < 0 then error("nth doesn't support negative indices") else first(skip($n; f)) end;
def isempty(f): first((f | false), true);
def all(f; cond): isempty(f | cond and empty);
def any(f; cond): isempty(f | cond or empty) | not;
def all(cond): all(.[]; cond);
def any(cond): any(.[]; cond);
def all: all(.);
def any: any(.);
def in(x): . as $key | x | has($key);
def inside(x): . as $part | x | contains($part);
def index($x): indices($x) | .[0];
def rindex($x): indices($x) | .[-1:][0];
def combinations:
  if length == 0 then [] else
    .[0][] as $first | (.[1:] | combinations) as $rest | [$first] + $rest
  end;
def combinations(n): . as $list | [range(n) | $list] | combinations;
def transpose: [range(map(length) | max // 0) as $i | [.[][$i]]];
def trimstr($x): ltrimstr($x) | rtrimstr($x);
def ascii: [.] | implode;
def match(re; flags): _match(re; flags) | .[];
def match($x): ($x | _pattern) as [$re, $flags] | match($re; $flags);
def test($x): ($x | _pattern) as [$re, $flags] | test($re; $flags);
def capture(re; flags): match(re; flags) | _captures;
def capture($x): ($x | _pattern) as [$re, $flags] | capture($re; $flags);
def scan($re; $flags):
  match($re; "g" + $flags) | if .captures == [] then .string else [.captures[].string] end;
def scan($re): scan($re; null);
def splits($re; $flags): split($re; $flags) | .[];
def splits($re): splits($re; null);
def sub($re; f; $flags):
  _edits($re; $flags) as [$edits, $tail] |
  [$edits[] as [$before, $found] | [$before, [$found | f]]] as $edited | _edited($edited; $tail)[];
def sub($re; f): sub($re; f; "");
def gsub($re; f; $flags): sub($re; f; $flags + "g");
def gsub($re; f): sub($re; f; "g");
def truncate_stream(f):
  . as $depth | null | f | . as $event |
  if (.[0] | length) > $depth then setpath([0]; $event[0][$depth:]) else empty end;
def fromstream(f):
  foreach f as $event ({};
    (if .done then {} end) |
    if ($event | length) == 2 then
      setpath(["made"] + $event[0]; $event[1]) | .done = ($event[0] == [])
    else
      .done = (($event[0] | length) == 1)
    end;
    if .done then .made else empty end);
def INDEX(f; key): reduce f as $row ({}; .[$row | key | tostring] = $row);
def INDEX(key): INDEX(.[]; key);
def JOIN($index; key): [.[] | [., $index[key]]];
def JOIN($index; f; key): f | [., $index[key]];
def JOIN($index; f; key; join): f | [., $index[key]] | join;
def IN(f): any(f == .; .);
def IN(f; g): any(f == g; .);
def todateiso8601: strftime("%Y-%m-%dT%H:%M:%SZ");
def todate: todateiso8601;
def fromdate: fromdateiso8601;
def date: todate;
def dateadd(unit; n): . + n;
def datesub(unit; n): . - n;
