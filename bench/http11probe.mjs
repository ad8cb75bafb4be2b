// Runs the probes of Http11Probe (github.com/MDA2AV/Http11Probe) against a server, without .NET.
//
//     node bench/http11probe.mjs CHECKOUT [HOST:PORT] [-v]
//
// CHECKOUT is a clone of that repository: its suites are read as they are, and none of them is kept here. The probes and
// what they expect are C# that is nearly JavaScript; what is not is translated below. `bench/README.md` says what the server
// must answer.

import { readFileSync } from "node:fs";
import net from "node:net";
import vm from "node:vm";

const [checkout, address = "127.0.0.1:8080", ...flags] = process.argv.slice(2);
if (!checkout) {
  console.error("node bench/http11probe.mjs CHECKOUT [HOST:PORT] [-v]");
  process.exit(2);
}
const [host, port] = [address.slice(0, address.lastIndexOf(":")), Number(address.slice(address.lastIndexOf(":") + 1))];
const SUITES = ["Compliance", "Smuggling", "MalformedInput", "Normalization"];
const TIMEOUT = 5000;

/** Splits C# into strings and what stands between them; strings are handed to `text`, the rest to `code`. */
function translate(source, code) {
  let out = "", rest = "";
  const flush = () => { out += code(rest); rest = ""; };
  for (let at = 0; at < source.length; at++) {
    const two = source.slice(at, at + 2);
    if (two === "//") {
      while (at < source.length && source[at] !== "\n") at++;
      rest += "\n";
    } else if (two === '$"') {
      flush();
      const [text, end] = interpolated(source, at + 2);
      out += text;
      at = end;
    } else if (source[at] === '"' || source[at] === "'") {
      flush();
      const quote = source[at], from = at;
      for (at++; source[at] !== quote; at++) if (source[at] === "\\") at++;
      out += source.slice(from, at + 1).replace(/\\0/g, "\\x00");
    } else {
      rest += source[at];
    }
  }
  flush();
  return out;
}

function interpolated(source, at) {
  let out = "`";
  for (; source[at] !== '"'; at++) {
    const two = source.slice(at, at + 2);
    if (source[at] === "\\") { out += two === "\\0" ? "\\x00" : two; at++; }
    else if (two === "{{" || two === "}}") { out += two[0]; at++; }
    else if (source[at] === "{") out += "${";
    else if (source[at] === "`") out += "\\`";
    else out += source[at];
  }
  return [out + "`", at];
}

/** `is` and its patterns. */
function patterns(code) {
  const atom = String.raw`(?:[<>]=? ?\d+|\d+|null|ConnectionState\.\w+|'[^']*')`;
  const pattern = String.raw`(?:not )?(?:\(${atom}(?: (?:and|or) ${atom})*\)|${atom})(?: (?:and|or) (?:\(${atom}(?: (?:and|or) ${atom})*\)|${atom}))*`;
  const test = (subject, text) => text
    .replace(new RegExp(atom, "g"), (one) => (/^[<>]/.test(one) ? `${subject} ${one}` : `${subject} == ${one}`))
    .replace(/ and /g, " && ").replace(/ or /g, " || ").replace(/^not (.*)$/s, "!($1)");
  return code.replace(new RegExp(String.raw`([\w.?\[\]]+) is (${pattern})`, "g"), (_, subject, text) => `(${test(subject, text)})`);
}

const FIELDS = "Id|Description|Category|RfcLevel|RfcReference|PayloadFactory|Expected|Scored|BehavioralAnalyzer|ExpectedStatus|" +
  "ExpectedConnectionState|AllowConnectionClose|CustomValidator|Steps|Label|Validator|SendPartsFactory|DynamicPayloadFactory|DelayAfter";

function javascript(code) {
  return patterns(code)
    .replace(/yield return new (?:Sequence)?TestCase/g, "yield ")
    .replace(/new (?:ExpectedBehavior|SequenceStep|SequenceSendPart)\b/g, "")
    .replace(new RegExp(String.raw`\b(${FIELDS}) =(?=\s)`, "g"), "$1:")
    .replace(/\bbyte\[\] (\w+) = (\[[^\]]*\])/g, "let $1 = block($2)").replace(/\bnew byte\[([^\]]*)\]/g, "block($1)")
    .replace(/\bconst (?:string|int) /g, "const ").replace(/\b(?:string|int|bool|byte\[\]) (\w+) =/g, "let $1 =")
    .replace(/new string\(/g, "repeat(")
    .replace(/\.Length\b/g, ".length").replace(/\.StartsWith\(/g, ".startsWith(").replace(/\.Contains\(/g, ".includes(")
    .replace(/, StringComparison\.\w+/g, "").replace(/\.TrimEnd\([^)]*\)/g, ".trimEnd()").replace(/\.Trim\(\)/g, ".trim()")
    .replace(/\.TryGetValue\(/g, ".get(").replace(/, out var (\w+)\)/g, ")")
    .replace(/\bnew\[\]\s*\{([^}]*)\}/g, "[$1]");
}

/** The cases of a suite; those that cannot be translated are told. */
function* suite(name) {
  const source = readFileSync(`${checkout}/src/Http11Probe/TestCases/Suites/${name}Suite.cs`, "utf8");
  const cases = source.split(/(?=yield return new (?:Sequence)?TestCase)/).slice(1);
  for (const text of cases) {
    const body = strip(text.slice(text.indexOf("{")), "BehavioralAnalyzer");
    const id = /Id = "([^"]*)"/.exec(text)[1];
    try {
      yield vm.runInContext(`(${translate(literal(body), javascript)})`, world);
    } catch (error) {
      yield { Id: id, Scored: !/Scored = false/.test(text), untold: String(error) };
    }
  }
}

/** The first braces and what is in them. */
function literal(text) {
  let depth = 0, quoted = false;
  for (let at = 0; at < text.length; at++) {
    if (quoted) { if (text[at] === "\\") at++; else if (text[at] === '"') quoted = false; continue; }
    if (text[at] === '"') quoted = true;
    else if (text.slice(at, at + 2) === "//") while (text[at] !== "\n") at++;
    else if (text[at] === "'") at += text[at + 1] === "\\" ? text.indexOf("'", at + 2) - at : 2;
    else if (text[at] === "{") depth++;
    else if (text[at] === "}" && --depth === 0) return text.slice(0, at + 1);
  }
  return text;
}

/** Leaves out a field, which is the last but for `Expected`. */
function strip(text, field) {
  const at = text.search(new RegExp(String.raw`\b${field} =\s`));
  if (at < 0) return text;
  const rest = text.slice(at);
  const plain = /^\w+ = [\w.]+(?:\("[^"]*"\))?(,|\s*\})/.exec(rest);
  if (plain) return text.slice(0, at) + rest.slice(plain[0].length - (plain[1] === "," ? 0 : plain[1].length));
  const lambda = literal(rest.slice(rest.indexOf("{")));
  return text.slice(0, at) + rest.slice(rest.indexOf("{") + lambda.length).replace(/^,/, "");
}

Buffer.prototype.CopyTo = function (target, at) { this.copy(target, at); };
const enumeration = (...names) => Object.fromEntries(names.map((name) => [name, name]));
const range = (from, to) => ({ includes: (status) => status >= from && status <= to });
const bytes = (text) => Buffer.from(text, "latin1");
const world = vm.createContext({
  TestVerdict: enumeration("Pass", "Fail", "Warn"),
  TestCategory: enumeration("Compliance", "Smuggling", "MalformedInput", "Normalization"),
  RfcLevel: enumeration("Must", "Should", "May", "OughtTo", "NotApplicable"),
  ConnectionState: enumeration("Open", "ClosedByServer", "TimedOut", "Error"),
  StatusCodeRange: { Exact: (one) => range(one, one), Range: range, Range2xx: range(200, 299), Range4xx: range(400, 499), Range4xxOr5xx: range(400, 599) },
  MakeRequest: bytes,
  Encoding: { ASCII: { GetBytes: bytes, GetByteCount: (text) => text.length }, UTF8: { GetBytes: (text) => Buffer.from(text) }, Latin1: { GetBytes: bytes } },
  block: (content) => (typeof content === "number" ? Buffer.alloc(content) : Buffer.from([...content])),
  string: { IsNullOrEmpty: (text) => !text, Join: (between, parts) => parts.join(between) },
  StringBuilder: class {
    text = "";
    Append(more) { this.text += more; return this; }
    ToString() { return this.text; }
  },
  // Garbage, and the same each time.
  Random: class {
    NextBytes(block) { for (let at = 0, last = 42; at < block.length; at++) block[at] = last = (last * 75 + 74) % 65537 & 255; }
  },
  repeat: (letter, times) => letter.repeat(times),
  CountHttpStatusLines: (raw) => (raw.match(/HTTP\/\d\.\d \d\d\d/g) ?? []).length,
  IsStaticResponse: (body) => body === "OK",
  EchoValidator: (wanted) => (response, state) => {
    if (response == null) return "Fail";
    if (response.StatusCode < 200 || response.StatusCode > 299) return "Fail";
    return effective(response) === wanted || response.Body === "OK" ? "Pass" : "Fail";
  },
  // Names that imitate others: one that is refused has passed.
  MakeValidator: () => (response) => (response == null || response.StatusCode === 400 ? "Pass" : "Warn"),
  MakeAnalyzer: () => null,
  MakeCaseAnalyzer: () => null,
  MakeCaseValidator: () => (response) => (response?.StatusCode < 300 ? "Pass" : "Warn"),
  TimeSpan: { FromMilliseconds: (time) => time, FromSeconds: (time) => time * 1000, Zero: 0 },
  Math,
  GetEffectiveBody: (response) => effective(response),
});

vm.runInContext('Number.prototype.ToString = function (form) { return this.toString(/x/i.test(form) ? 16 : 10); };', world);

function effective(response) {
  const body = (response.Body ?? "").trimEnd();
  const chunk = /^([0-9a-f]+)\r\n/i.exec(body);
  return chunk && /chunked/.test(response.Headers.get("transfer-encoding") ?? "") ? body.substr(chunk[0].length, parseInt(chunk[1], 16)) : body;
}

const sleep = (time) => new Promise((done) => setTimeout(done, time));

/** A connection that reads answers as the suite's own client does. */
class Link {
  read = Buffer.alloc(0);
  closed = false;

  static async open() {
    const link = new Link();
    link.socket = net.connect(port, host);
    link.socket.setNoDelay(true);
    const close = () => { link.closed = true; };
    link.socket.on("data", (data) => { link.read = Buffer.concat([link.read, data]); }).on("end", close).on("close", close).on("error", close);
    await new Promise((done) => link.socket.once("connect", done).once("error", done));
    return link;
  }

  async send(payload) {
    await new Promise((done) => this.socket.write(Buffer.from([...payload]), done));
  }

  /** An answer, and what became of the connection. */
  async answer() {
    const whole = () => this.read.includes("\r\n\r\n");
    for (let waited = 0; !whole() && !this.closed && waited < TIMEOUT; waited += 5) await sleep(5);
    const state = () => (this.closed ? "ClosedByServer" : "Open");
    const came = whole();
    // A short time for the body, and for the connection to be closed behind it.
    if (came) await sleep(150);
    const response = parse(this.read.toString("latin1"));
    this.read = Buffer.alloc(0);
    return { response, state: came || this.closed ? state() : "TimedOut" };
  }
}

async function ask(probe) {
  const link = await Link.open();
  await link.send(probe.PayloadFactory(context));
  const { response, state } = await link.answer();
  link.socket.destroy();
  return [judge(probe.Expected, response, state), `${response?.StatusCode ?? "nothing"}, ${state}`];
}

/** Several requests on one connection. */
async function converse(probe) {
  const link = await Link.open(), steps = [];
  let state = "Open";
  for (const step of probe.Steps) {
    if (state !== "Open") {
      steps.push({ Executed: false, ConnectionState: state });
      continue;
    }
    const factory = step.PayloadFactory ?? ((context) => step.DynamicPayloadFactory(context, steps));
    for (const part of step.SendPartsFactory?.(context) ?? [{ PayloadFactory: factory }]) {
      await link.send(part.PayloadFactory(context));
      await sleep(part.DelayAfter ?? 0);
    }
    const came = await link.answer();
    state = came.state;
    steps.push({ Executed: true, Response: came.response, ConnectionState: state });
  }
  link.socket.destroy();
  return [probe.Validator(steps), steps.map((step) => step.Response?.StatusCode ?? "nothing").join(" ")];
}

function parse(text) {
  const line = /^(\S+) (\d+)/.exec(text);
  if (!line) return null;
  const end = text.indexOf("\r\n\r\n"), head = end < 0 ? text : text.slice(0, end);
  const headers = new Map();
  for (const field of head.split("\n").slice(1)) {
    const colon = field.indexOf(":");
    if (colon > 0) headers.set(field.slice(0, colon).trim().toLowerCase(), field.slice(colon + 1).trim());
  }
  const lookup = { get: (name) => headers.get(name.toLowerCase()), ContainsKey: (name) => headers.has(name.toLowerCase()) };
  const fields = new Proxy(lookup, { get: (known, name) => known[name] ?? headers.get(String(name).toLowerCase()) });
  return { StatusCode: Number(line[2]), HttpVersion: line[1], Headers: fields, Body: end < 0 ? null : text.slice(end + 4), RawResponse: text };
}

function judge({ CustomValidator, ExpectedConnectionState, AllowConnectionClose, ExpectedStatus }, response, state) {
  if (CustomValidator) return CustomValidator(response, state);
  if (ExpectedConnectionState && state === ExpectedConnectionState) return "Pass";
  if (response == null) return AllowConnectionClose ? "Pass" : "Fail";
  return ExpectedStatus?.includes(response.StatusCode) ? "Pass" : "Fail";
}

const context = { Host: host, Port: port, HostHeader: port === 80 ? host : `${host}:${port}` };
const count = { Pass: 0, Warn: 0, Fail: 0, Untold: 0 }, must = { Pass: 0, Warn: 0, Fail: 0 }, failed = [];
for (const name of SUITES) {
  for (const probe of suite(name)) {
    if (probe.Scored === false) continue;
    if (probe.untold) {
      count.Untold++;
      if (flags.includes("-v")) console.log(`not run  ${probe.Id}: ${probe.untold}`);
      continue;
    }
    let verdict, told = "";
    try {
      [verdict, told] = await (probe.Steps ? converse(probe) : ask(probe));
    } catch (error) {
      [verdict, told] = ["Untold", String(error)];
    }
    count[verdict]++;
    if ((probe.RfcLevel ?? "Must") === "Must") {
      must[verdict]++;
    }
    if (verdict === "Fail") failed.push(probe.Id);
    if (verdict !== "Pass" || flags.includes("-v")) console.log(`${verdict.padEnd(8)} ${probe.Id}: ${told}; wanted ${probe.Expected.Description ?? ""}`);
  }
}
console.log(`${count.Pass} passed, ${count.Warn} warned, ${count.Fail} failed, ${count.Untold} not run; of them MUST: ${must.Pass} passed, ${must.Warn} warned, ${must.Fail} failed`);
process.exit(failed.length > 0 ? 1 : 0);
