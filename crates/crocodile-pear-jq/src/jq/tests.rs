//! Tests the outputs of expressions, and that no expression can block or crash the gateway.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::value::budget::Budget;
use super::*;
use crate::error::{Error, Kind};
use crate::json::{self, value};
use crate::meter;

fn compiled(source: &str) -> Filter {
    match Filter::compile(source, &["query", "path", "x"]) {
        Ok(filter) => filter,
        Err(faults) => panic!("{source}: {faults:?}"),
    }
}

fn read(text: &str) -> Value {
    json::read(&Bytes::copy_from_slice(text.as_bytes())).expect("valid JSON")
}

fn outputs(source: &str, input: &str) -> Result<Vec<String>, Error> {
    outputs_within(Budget::WHOLE, source, input)
}

/// The outputs where an evaluation may have an eighth of the usual memory.
fn outputs_of_an_eighth(source: &str, input: &str) -> Result<Vec<String>, Error> {
    outputs_within(Budget { growth: Budget::WHOLE.growth / 8, ..Budget::WHOLE }, source, input)
}

fn outputs_within(budget: Budget, source: &str, input: &str) -> Result<Vec<String>, Error> {
    let filter = compiled(source);
    let evaluate = || filter.evaluate(read(input), &mut |_| read(r#"{"q":"Lund,SE|Oslo,NO"}"#), budget);
    let outputs = meter::alone(evaluate)?;
    let text = |value| {
        let mut out = Vec::new();
        json::write(value, &mut out).map(|()| String::from_utf8(out).expect("UTF-8"))
    };
    outputs.iter().map(text).collect()
}

fn faults(source: &str) -> Vec<Fault> {
    Filter::compile(source, &["query", "path", "headers"]).err().unwrap_or_default()
}

#[test]
fn expressions_give_what_jq_gives() {
    let input = r#"{"id":7,"text":"a","general":{"dueOn":"2026-01-02T03:04:05","n":null},"cases":[{"a":1.0},{"a":1e2}],"k":[3,1,2]}"#;
    let cases = [
        (
            "{id, text, due: .general.dueOn[:10], note: .general.note}",
            r#"{"id":7,"text":"a","due":"2026-01-02","note":null}"#,
        ),
        ("{(.text): .id}", r#"{"a":7}"#),
        ("[.cases[].a]", "[1.0,1e2]"),
        ("$query.q / \"|\"", r#"["Lund,SE","Oslo,NO"]"#),
        (".k | sort | map(. * 2) | add", "12"),
        (".k | sort_by(-.) | first", "3"),
        ("[.cases[] | select(.a == 1)] | length", "1"),
        ("(.general.id as $p | .cases[]? | select(.a == $p).text) // \"none\"", "\"none\""),
        (".id |= . + 1 | .id", "8"),
        ("null | .a.b[1] = 2", r#"{"a":{"b":[null,2]}}"#),
        ("del(.cases, .general, .k)", r#"{"id":7,"text":"a"}"#),
        (".k | .[1:] = [9]", "[3,9]"),
        ("[paths] | length", "14"),
        ("with_entries(select(.key == \"id\"))", r#"{"id":7}"#),
        ("[.. | numbers] | length", "6"),
        (".general | keys", r#"["dueOn","n"]"#),
        ("\"x\\(.id)y\"", "\"x7y\""),
        (".text | @base64, @uri", "\"YQ==\"\n\"a\""),
        ("\"a1b22\" | [match(\"[0-9]+\"; \"g\").string]", r#"["1","22"]"#),
        ("\"abc\" | sub(\"b\"; \"x\")", "\"axc\""),
        ("\"abcb\" | [gsub(\"(?<x>b)\"; \"1\", \"<\\(.x)>\")]", "[\"a1c1\",\"a<b>c<b>\"]"),
        ("\"abc\" | [sub(\"b\"; empty)], [sub(\"x\"; \"y\")], [gsub(\"\"; null)]", "[\"abc\"]\n[\"abc\"]\n[\"abc\"]"),
        ("[limit(3; repeat(1))]", "[1,1,1]"),
        ("[.[]?] | length", "5"),
        ("try error(\"x\") catch .", "\"x\""),
        ("reduce .k[] as $n (0; . + $n)", "6"),
        ("[foreach .k[] as $n (0; . + $n)]", "[3,4,6]"),
        ("\"[1,{\\\"a\\\":2.50}]\" | fromjson | tojson", r#""[1,{\"a\":2.50}]""#),
        ("[1,[2,[3]]] | flatten, flatten(1)", "[1,2,3]\n[1,2,[3]]"),
        ("\"12\" | tonumber + 1", "13"),
        ("{a:{b:1}} * {a:{c:2}}", r#"{"a":{"b":1,"c":2}}"#),
        ("[1,2,3,1] - [1]", "[2,3]"),
        ("label $out | 1, break $out, 2", "1"),
        ("[1,2] | (.[0], .[1]) |= . + 1", "[2,3]"),
        ("[[1,2],[3]] | walk(if isarray then . else . + 1 end)", "[[2,3],[4]]"),
        ("def f($a; g): $a + g; f(1; .id)", "8"),
        ("[.k[] as $n | $n] | tostring", "\"[3,1,2]\""),
        ("[splits(\"x\")]?", ""),
        ("\"a,b\" | split(\",\")", r#"["a","b"]"#),
        ("[1,2,3] | contains([2]), (index(2)), any(. > 2), (map(tostring) | join(\"-\"))", "true\n1\ntrue\n\"1-2-3\""),
        ("to_entries[0].key", "\"id\""),
        ("[[1,2],[3,4]] | ([combinations] | length), transpose", "4\n[[1,3],[2,4]]"),
        ("\"été\" | indices(\"é\"), length, (. / \"\")", "[0,2]\n3\n[\"é\",\"t\",\"é\"]"),
        ("1700000000 | todate", "\"2023-11-14T22:13:20Z\""),
        ("[{a:1},{a:2},{a:1}] | group_by(.a) | map(length)", "[2,1]"),
        ("pick(.id)", r#"{"id":7}"#),
        ("-.id, -(1.5)", "-7\n-1.5"),
        (".missing.deeper[0]", "null"),
    ];
    for (source, expected) in cases {
        match outputs(source, input) {
            Ok(given) => assert_eq!(given.join("\n"), expected, "{source}"),
            Err(error) => assert_eq!("", expected, "{source}: {error}"),
        }
    }
}

#[test]
fn only_the_variables_used_are_asked_for() {
    let filter = compiled("$query.q / \"|\" | .[] | . as $y | $y + $path");
    assert_eq!(filter.uses(), ["query", "path"]);
    assert!(!filter.reads_item());
}

#[test]
fn whether_the_item_is_read_is_known() {
    for source in [
        ".",
        ".a",
        "$x | .",
        "[.]",
        "$x[.a]",
        "{a}",
        "map(1)",
        "$x as $y | .",
        "if . then 1 else 2 end",
        "..",
        ".a = 1",
    ] {
        assert_eq!(compiled(source).reads_item(), !source.starts_with("$x |"), "{source}");
    }
    for source in [
        "$x",
        "$x.a",
        "{$x}",
        "{a: $x}",
        "\"t\\($x)\"",
        "[$x.y[] | .a]",
        "1, 2",
        "$x | map(.a)",
        "reduce $x[] as $y (0; . + $y)",
    ] {
        assert!(!compiled(source).reads_item(), "{source}");
    }
}

#[test]
fn faults_name_place_and_remedy() {
    let one = |source: &str| {
        let fault = faults(source).into_iter().next().unwrap_or_else(|| panic!("{source} compiles"));
        (fault.offset, fault.length, format!("{} — {}", fault.message, fault.remedy))
    };
    let expect = |source, offset, length, text: &str| {
        let (at, long, message) = one(source);
        assert_eq!((at, long), (offset, length), "{source}: {message}");
        assert!(message.contains(text), "{source}: {message}");
    };
    expect(".a + $quer.x", 5, 5, "did you mean `$query`? There are $query, $path, $headers");
    expect(".a | lenght", 5, 6, "did you mean `length`?");
    expect(".a | map", 5, 3, "does not take 0 arguments");
    expect(".a | [.b", 5, 1, "never closed");
    expect("{a: }", 4, 1, "is not allowed here");
    expect(".a | ", 5, 0, "is incomplete");
    expect("if . then 1", 11, 0, "is incomplete");
    expect(".a & .b", 3, 1, "no such character");
    expect("\"abc", 0, 1, "never closed");
    expect("def f: f; f", 7, 1, "calls itself");
    expect("$ENV.HOME", 0, 4, "environment");
    expect("env.HOME", 0, 3, "environment");
    expect("include \"x\"; .", 0, 7, "not allowed");
    expect("break $x", 6, 2, "no label");
    expect("_match(1; 2)", 0, 6, "reserved");
    expect("@cvs", 0, 4, "there are `@text`");
    expect("{(1): 2}", 1, 1, "cannot be the key");
    expect("1 == 1 == 1", 7, 2, "is not allowed here");
    expect(". foo", 2, 3, "is not allowed here");
    expect("", 0, 0, "is incomplete");
    assert_eq!(faults("$a + $b + foo").len(), 3);
}

#[test]
fn what_has_no_bound_is_refused() {
    for source in [
        "def f: f; f",
        "def f: 1 + f; f",
        "def f: def g: f; g; f",
        "def f(g): f(g); f(.)",
        "def f($n): if $n > 0 then f($n - 1) else . end; f(3)",
        "def a: def b: def c: a; c; b; a",
        "env",
        "$ENV",
        "input",
        "inputs",
        "debug",
        "debug(\"x\")",
        "stderr",
        "halt",
        "halt_error",
        "halt(1)",
        "localtime",
        "strflocaltime(\"%H\")",
        "modulemeta",
        "input_filename",
        "input_line_number",
        "import \"a\" as a; .",
        "jn(2; 3)",
        "$__prog_args",
    ] {
        assert!(!faults(source).is_empty(), "{source}");
    }
    // Two definitions with one name: the second calls the first.
    assert!(faults("def f: 1; def f: f; f").len() == 1 || outputs("def f: 1; def f: f; f", "1").is_ok());
}

#[test]
fn deep_sources_are_refused() {
    for source in [
        "(".repeat(10_000),
        "[".repeat(8_000) + &"]".repeat(8_000),
        "-".repeat(16_000) + "1",
        "try ".repeat(4_000) + ".",
        ". | ".repeat(4_000) + ".",
        "1 + ".repeat(4_000) + "1",
        "if . then ".repeat(1_000),
        ".a".repeat(8_000),
        "\"\\(".repeat(4_000),
        "x".repeat(20_000),
        "label $x | ".repeat(1_400) + ".",
        "def f: ".repeat(2_000),
        ". as [".repeat(2_000),
        "{a:".repeat(4_000),
        "1,".repeat(8_000) + "1",
    ] {
        assert!(!faults(&source).is_empty(), "{}", &source[..20]);
    }
    // Nested calls of definitions are stopped before the stack ends.
    let mut source = "def d0(f): [f];".to_owned();
    for level in 1..30 {
        source += &format!("def d{level}(f): d{}(d{}(f));", level - 1, level - 1);
    }
    let error = outputs(&(source + "d29(.)"), "1").expect_err("too deep");
    assert!(error.detail().contains("too deep"), "{error}");
}

#[test]
fn replacing_costs_as_much_as_the_text_is_long() {
    for (source, wanted) in [
        ("\"lorem ipsum dolor a\" * 6000 | gsub(\"o\"; \"00\") | length", "132000"),
        ("\"ab\" * 5000 | gsub(\"(?<x>a)\"; \"\\(.x)\\(.x)\") | length", "15000"),
        ("\"a\" * 5000 | gsub(\"\"; \"y\") | length", "10001"),
    ] {
        assert_eq!(outputs(source, "1").expect("within the budget"), [wanted], "{source}");
    }
}

/// Each of these must end, with or without an error.
fn hostile() -> Vec<String> {
    let mut doubling = "def d0: .;".to_owned();
    let mut swallowing = "def d0: try (.,.) catch .;".to_owned();
    for level in 1..60 {
        doubling += &format!("def d{level}: d{} | d{};", level - 1, level - 1);
        swallowing += &format!("def d{level}: try d{} catch . | try d{} catch .;", level - 1, level - 1);
    }
    let mut sources: Vec<String> = [
        "[range(1e9)]",
        "last(range(1e9))",
        "[limit(1e9; repeat(1))]",
        "until(false; .)",
        "repeat(.)",
        "last(repeat(.))",
        "\"x\" * 1e12",
        "\"x\" * 1000000000000",
        "reduce range(100) as $i (\"x\"; . + .)",
        "reduce range(100) as $i ([1]; . + .)",
        "reduce range(1000000) as $i (0; [.])",
        "reduce range(1000000) as $i (0; {a: .})",
        "[recurse(. + 1)]",
        "[0 | recurse(. + 1)]",
        "last(0 | recurse(.))",
        "last(recurse(1; true))",
        "def x: .; last(0 | while(true; . + 1))",
        "0 | while(true; .)",
        "[.[1e9] = 1]",
        "[] | .[1000000000] = 1",
        "null | .[9000000000000000000] = 1",
        "[range(1e9) | try error catch .]",
        "last(repeat(try error(\"x\") catch .))",
        "last(range(0; 1; 0))",
        "[range(0; 1; 0)]",
        "reduce range(1000000) as $i (3; . * .)",
        "reduce range(100) as $i (0; [., .]) | tojson",
        "reduce range(100) as $i (0; [., .])",
        "reduce range(100) as $i (0; [., .]) as $x | $x == ($x | map(.))",
        "reduce range(100) as $i (0; [., .]) | [..]",
        "reduce range(100) as $i (0; [., .]) | tostring | length",
        "reduce range(100) as $i (0; [., .]) | flatten | length",
        "reduce range(100) as $i (0; [., .]) | [paths] | length",
        "reduce range(100) as $i (0; [., .]) | walk(.)",
        "reduce range(100) as $i (0; [., .]) | contains([1])",
        "reduce range(100) as $i (0; {a: ., b: .}) | . * .",
        "reduce range(100) as $i (0; [., .]) | [., .] | sort",
        "reduce range(100) as $i (0; [., .]) | error",
        "reduce range(100) as $i (0; [., .]) | try error catch .",
        "reduce range(100) as $i (0; [., .]) | .[\"a\"]",
        "reduce range(100) as $i (0; [., .]) | implode",
        "(\"[\" * 100000) | fromjson",
        "(\"[\" * 100000) + (\"]\" * 100000) | fromjson",
        "(\"9\" * 1000000) | fromjson",
        "(\"9\" * 1000000) | tonumber",
        "\"x\" * 16000000 | [splits(\"\")]",
        "\"x\" * 16000000 / \"\"",
        "\"x\" * 1000000 | gsub(\"\"; \"yy\")",
        "\"x\" * 1000000 | [match(\"()()()()()()()()\"; \"g\")]",
        "\"x\" * 1000 | test(\"(x+x+)+y\")",
        "\"x\" | test(\"((x{1000}){1000}){1000}\")",
        "\"x\" | test(\"x{1000000000}\")",
        "\"x\" | test(\"(\" * 100000)",
        "\"x\" * 30 | test(\"(x+)+(?=y)\")",
        "[range(1000)] | map(\"xxxxxxxxxxxxxxxxxxxxxxxx\" | test(\"(?:(x+)\\\\1)+y\")?)",
        "\"x\" | test(\"(?<=\\\\w{400}x)\")",
        "\"a\" * 100000 | [splits(\"(?<!b)a\")] | length",
        "[range(100000)] | map(tostring) | @csv, @tsv, @sh | length",
        "\"<\" * 3000000 | @html",
        "[tostream] | fromstream(repeat(.[]))",
        "[range(100000)] | [tostream] | length",
        "reduce range(100000) as $i ({}; .[\"a\"] |= . + [$i]) | .a | length",
        "[range(3000)] | del(.[range(3000)]) | length",
        "[limit(100000; repeat([[[1]]]))] | (.. | numbers) |= . + 1 | length",
        ". as [$a] ?// $a ?// {a: $a} | repeat($a)",
        "[range(100000)] | INDEX(. % 10) | length",
        "builtins | [.[] | repeat(.)]",
        "[range(1e5)] | combinations(3)",
        "(\"9\" * 100000 | fromjson) | . / 3, floor, tojson, -.",
        "strptime(\"%Y\" * 100000)?",
        "[limit(100000; repeat(\"a\"))] | join(\",\") | @base32 | @base32d | length",
        "path(repeat(.))",
        "[paths(repeat(true))] | length",
        "\"x\" * 1000000 | test(\"x*x*x*x*x*x*x*x*y\")",
        "[range(1000000)] as $a | [range(1000) | $a + [.]] | length",
        "[range(100000)] | combinations(10)",
        "[range(1000)] | [combinations(5)]",
        "[[range(1000)], [range(1000)], [range(1000)]] | [combinations]",
        "setpath([range(100000) | \"a\"]; 1)",
        "reduce range(100000) as $i (.; .) |= 1",
        "getpath([range(100000) | \"a\"])",
        "path(getpath([range(100000) | \"a\"]))",
        "last(path(repeat(.a)))",
        "first(path(last(limit(1000000; repeat(.a)))))",
        "path(last(limit(100000; null | repeat(.a))))",
        "repeat(.) |= 1",
        "recurse(.) |= 1",
        "[range(100000)] | .[] |= [., .] | .[] |= [., .]",
        ".[(range(100000))]?[(range(100000))]?[(range(100000))]?",
        "[.[(range(100000), range(100000))]?]",
        "{(range(100000) | tostring): range(100000)}",
        "[range(1000000) | tostring] | join(\"\") | explode | implode",
        "[range(1000000)] | sort_by(-.) | group_by(. % 2) | unique",
        "[range(300000)] - [range(300000)]",
        "\"x\" * 10000000 | [range(1000) as $i | ascii_upcase] | length",
        "\"<\" * 16000000 | @html | @html",
        "\"x\" * 16000000 | @base64 | @base64d",
        "\"x\" * 16000000 | @uri | tojson | tojson",
        "[limit(1000000000000000000; 1, 2)]",
        "[skip(1000000000000; repeat(1))]",
        "isempty(repeat(empty))",
        "repeat(empty)",
        "label $out | repeat(if . == 1 then break $out else . end)",
        "[range(100000) | {a: ., b: ., c: ., d: .}]",
        "[range(1000000) | {}]",
        "reduce range(1000000) as $i ([]; . + [$i])",
        "reduce range(1000000) as $i ([]; .[$i] = $i)",
        "reduce range(1000000) as $i ({}; .[\"\\($i)\"] = 1)",
        "reduce range(1000000) as $i ({}; . + {\"\\($i)\": 1})",
        "[foreach range(1000000) as $i ([]; . + [$i])]",
        "foreach repeat(1) as $x (0; . + 1)",
        "reduce repeat(1) as $x (0; .)",
        "any(repeat(false); .)",
        "all(repeat(true); .)",
        "nth(1000000000; repeat(1))",
        "first(repeat(empty))",
        "[repeat(try error catch .)]",
        "[.[]?, repeat(1)?]",
        "repeat(1)? // 2",
        "[range(1000000) as $x | [$x, $x]] | transpose",
        "input_line_numbers?",
        "ltrimstr(\"x\" * 16000000)",
        "\"\\(\"x\" * 16000000)\\(\"x\" * 16000000)\"",
        "[\"x\" * 16000000, \"x\" * 16000000] | add | . + . | . + .",
        "strftime(\"%Y\" * 1000000)",
        "1e1000 | todate",
        "1e18 | todate",
        "9223372036854775807 | todate",
        "-9223372036854775808 % -1",
        "9223372036854775807 + 1",
        "0 / 0 | tojson",
        "[nan] | sort | tojson",
        "1e1000 * 1e1000 | floor",
        "1e308 | floor | . * . | . * .",
        "\"a\" | .[9223372036854775807:]",
        "[1,2] | .[-9223372036854775808:]",
        "[1,2] | .[-9223372036854775808]",
        "ldexp(1; 1000000000)",
        "[., 1] | pow(.[0]; 1e300)?",
        "\"\\u0000\" * 100 | @sh",
        "significand",
        "[1e18] | implode",
        "gamma, lgamma, exp10",
        "tojson | fromjson",
    ]
    .map(str::to_owned)
    .into();
    sources.push(format!("{doubling} d59"));
    sources.push(format!("{swallowing} d59"));
    sources.push(vec!["(.,.)"; 100].join(" | "));
    sources.push(format!("{} | empty", vec!["(.,.)"; 100].join(" | ")));
    sources.push(vec!["(try (.,.) catch (.,.))"; 80].join(" | "));
    sources.push(vec!["(try error catch .)"; 80].join(" | "));
    sources.push(format!("[.{}]", "[(0,0)]?".repeat(60)));
    sources.push(format!("{{{}}}", (0..60).map(|i| format!("(\"a{i}\",\"b{i}\"): 1")).collect::<Vec<_>>().join(",")));
    sources.push(format!("def t(f): f | f; {}.{}", "t(".repeat(60), ")".repeat(60)));
    sources
}

#[test]
fn no_expression_hangs_or_aborts() {
    let hostile = hostile();
    assert!(hostile.len() >= 60);
    // A debug build is about twenty times slower, so it gets less work.
    let share = if cfg!(debug_assertions) { 200 } else { 1 };
    let mut highest = 0;
    let mut slowest = (Duration::ZERO, String::new());
    let begun = Instant::now();
    for source in hostile {
        let Ok(filter) = Filter::compile(&source, &[]) else { continue };
        let input = value::list(vec![1isize.into()]);
        // CPU time, because other tests and programs take turns with this thread.
        let (done, took) = meter::alone(|| {
            let before = worked(begun);
            let done = filter.evaluate(input, &mut |_| value::null(), Budget::of_work(Budget::WHOLE.work / share));
            (done, worked(begun) - before)
        });
        if let Err(error) = done {
            assert_eq!(error.kind(), Kind::Expression, "{source}");
        }
        let peak = peak();
        if peak > highest + 32_000 {
            show(&format!("{peak} KiB {source}"), took);
            highest = peak;
        }
        assert!(took < Duration::from_secs(4), "{source} took {took:?}");
        if took > Duration::from_millis(300) {
            show(&source, took);
        }
        slowest = slowest.max((took, source));
    }
    show(&slowest.1, slowest.0);
}

/// The CPU time of this thread, or the time since `begun` where the system does not report it.
fn worked(begun: Instant) -> Duration {
    let report = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = report.split(' ').next().and_then(|first| first.parse().ok());
    nanoseconds.map_or_else(|| begun.elapsed(), Duration::from_nanos)
}

/// Peak memory of the process so far, in KiB; 0 if the system does not report it.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Shown by `cargo test -- --nocapture`.
fn show(source: &str, took: Duration) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{took:>9.1?} {}", &source[..source.len().min(80)]);
}

#[test]
fn what_is_over_its_budget_cannot_be_caught() {
    for source in [
        "[range(1e9)]? // 1",
        "try last(range(1e9)) catch 1",
        "first(try [repeat(1)] catch 1)",
        "[.[]?, (try [repeat(1)] catch 2)]",
    ] {
        let filter = compiled(source);
        let done = meter::alone(|| filter.evaluate(read("[]"), &mut |_| value::null(), Budget::of_work(100_000)));
        let error = done.expect_err(source);
        assert!(error.detail().contains("budget"), "{source}: {error}");
    }
}

/// A number is kept as it was written, and is parsed each time it is compared.
#[test]
fn long_numbers_are_paid_for_when_they_are_compared() {
    let number = |last: usize| format!("{}.{last}", "1".repeat(900));
    let text = format!("[{}]", (0..500).map(number).collect::<Vec<_>>().join(","));
    for source in [
        ". - .",
        "map(. as $x | [9] | index($x))",
        "sort",
        "group_by(.)",
        ". as $all | map(. as $x | $all | index($x))",
    ] {
        let filter = compiled(source);
        let work =
            |units| meter::alone(|| filter.evaluate(read(&text), &mut |_| value::null(), Budget::of_work(units)));
        let error = work(20_000).err().unwrap_or_else(|| panic!("{source} is too cheap"));
        assert!(error.detail().contains("budget"), "{source}");
        assert!(work(usize::MAX as u64).is_ok(), "{source}");
    }
}

/// A look-ahead may read the rest of the text, and a search may make a look-ahead at each place.
#[test]
fn a_search_pays_while_it_goes_on() {
    let texts = ["a".repeat(1 << 16), ["a".repeat(1 << 16), "x".to_owned()].concat()];
    let patterns = ["(?=.*[0-9])[a-z]+!", "^(?:(?=.*a).)*y$", "(?<!b)(?=.*c)a", "(a+)(?=.*\\\\1b)"];
    for (pattern, text) in patterns.iter().flat_map(|pattern| texts.iter().map(move |text| (pattern, text))) {
        let (filter, text) = (compiled(&format!("test(\"{pattern}\")")), read(&format!("\"{text}\"")));
        let search = || filter.evaluate(text.clone(), &mut |_| value::null(), Budget::of_work(200_000));
        let error = meter::alone(search).expect_err(pattern);
        assert!(error.detail().contains("budget"), "{pattern}: {error}");
        assert!(meter::gives_up(|| filter.run(text.clone(), &mut |_| value::null())), "{pattern}");
    }
}

#[test]
fn a_long_text_is_searched_to_its_end() {
    for (source, piece, wanted) in [
        ("[scan(\"(?<=a)b\")] | length", "ab", "262144"),
        ("test(\"^(?:(?!x).)*$\")", "ab", "true"),
        ("[match(\"b(?!a)\"; \"g\").offset]", "ab", "[524287]"),
        ("sub(\"(?<=b)a(?=b$)\"; \"\") | length", "ab", "524287"),
        ("[splits(\"(?=a)b?\")] | length", "ab", "262145"),
    ] {
        let text = read(&format!("\"{}\"", piece.repeat(1 << 18)));
        // A large budget: the machine may be busy.
        let search = || compiled(source).evaluate(text.clone(), &mut |_| value::null(), Budget::of_work(1 << 40));
        let found: Vec<String> = meter::alone(search).expect(source).iter().map(ToString::to_string).collect();
        assert_eq!(found, [wanted], "{source}");
    }
}

/// A list that grows is moved: for a moment it is there twice, with room for more.
#[test]
fn a_list_has_at_most_the_memory_that_is_promised() {
    let most = |source: &str| outputs_of_an_eighth(source, "[]").is_ok();
    for (list, items) in [("range(N)", 500_000), ("range(N) | [.]", 125_000), ("[range(N)] | .. | numbers", 250_000)] {
        let of = |items: u64| format!("[{}] | length", list.replace('N', &items.to_string()));
        assert!(most(&of(items / 4)) && !most(&of(items * 3 / 2)), "{list}");
    }
}

/// A copy of a text shares its letters, but takes 32 bytes of its own. So 800 copies of a list of 1,000 texts take 37 MB, and so
/// do 100 copies of an object with as many fields. This number of copies is refused, and an eighth of it is allowed.
fn copies_are_bounded(input: &str, sources: &[(&str, u32)]) {
    for (source, copies) in sources {
        let of = |copies: u32| {
            outputs_of_an_eighth(&format!(". as $all | [range({copies}) | $all | {source}] | length"), input)
        };
        assert!(of(*copies).is_err(), "{source}");
        assert!(of(copies / 8).is_ok(), "{source}");
    }
}

fn texts() -> String {
    (0..1_000).map(|at| format!("\"s{at}\"")).collect::<Vec<_>>().join(",")
}

#[test]
fn copies_of_lists_have_at_most_the_memory_that_is_promised() {
    let sources = [(".[1:]", 800), ("reverse", 800), (".[0] = 1", 800), (". + [1]", 800), (". - [1]", 800)];
    copies_are_bounded(&format!("[{}]", texts()), &sources);
}

#[test]
fn copies_of_fields_have_at_most_the_memory_that_is_promised() {
    copies_are_bounded(&format!("[{}]", texts()), &[("to_entries", 100)]);
    let fields = format!("{{{}}}", texts().replace("\",", "\":\"v\",") + ":\"v\"");
    copies_are_bounded(&fields, &[("keys", 800), (".s1 = 2", 350), ("map_values(.)", 350)]);
}

#[test]
fn large_but_honest_work_is_done() {
    let list =
        format!("[{}]", vec![r#"{"id":1,"text":"abc","general":{"dueOn":"2026-01-02T03:04"}}"#; 50_000].join(","));
    let given = outputs("[.[] | {id, text, due: .general.dueOn[:10]}] | length", &list);
    assert_eq!(given.expect("done"), ["50000"]);
    assert_eq!(outputs("reduce .[] as $x ([]; . + [$x.id]) | length", &list).expect("done"), ["50000"]);
    assert_eq!(outputs("map(.id) | add", &list).expect("done"), ["50000"]);
}

#[test]
fn errors_say_what_and_where_without_the_data() {
    let detail = |source, input| outputs(source, input).expect_err(source).detail().to_owned();
    assert_eq!(detail(".a.b", r#"{"a":"secret"}"#), "Cannot index string with \"b\"");
    assert_eq!(detail(".a + 1", r#"{"a":"secret"}"#), "string and number cannot be added");
    assert_eq!(detail(".[]", "5"), "Cannot iterate over number");
    assert_eq!(detail("error(\"no such case\")", "5"), "no such case");
    assert_eq!(detail("{(.a): 1}", r#"{"a":1}"#), "Cannot use number as object key");
}

/// `cargo test --release -p crocodile-pear-jq --lib jq::tests::speed -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn speed() {
    use std::io::Write as _;
    let text = Bytes::from_static(br#"{"id":4711,"text":"Assessment of an application for a building permit","created":"2026-01-02T03:04:05Z","general":{"dueOn":"2026-03-04T05:06:07","priority":{"id":3,"href":"/priorities/3"},"note":null},"resources":[{"rel":"general","href":"/cases/4711/general"},{"rel":"files","href":"/cases/4711/files"}]}"#);
    let filter = compiled("{id, text, due: .general.dueOn[:10]}");
    let mut out = Vec::new();
    let mut stderr = std::io::stderr();
    let rounds = 200_000;
    let mut measure = |name: &str, run: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..rounds).for_each(|_| run());
        let _ = writeln!(stderr, "{name:>22}: {:>6} ns", start.elapsed().as_nanos() / rounds);
    };
    let value = json::read(&text).expect("valid");
    measure("check", &mut || json::check(&text).expect("valid"));
    let page = [b"[", &[&text[..]; 1000].join(&b',')[..], b"]"].concat();
    let start = Instant::now();
    (0..100).for_each(|_| json::check(&page).expect("valid"));
    let speed = page.len() as f64 * 100.0 / start.elapsed().as_secs_f64() / 1e9;
    measure("read", &mut || drop(json::read(&text).expect("valid")));
    measure("run", &mut || drop(filter.run(value.clone(), &mut |_| value::null()).expect("runs")));
    measure("read + run + write", &mut || {
        out.clear();
        let value = json::read(&text).expect("valid");
        let outputs = filter.run(value, &mut |_| value::null()).expect("runs");
        json::write(&outputs[0], &mut out).expect("writes");
    });
    let _ = writeln!(std::io::stderr(), "check: {speed:.2} GB/s");
}

/// The results of both ways on the same parsed values: on the bytes alone, and by the engine.
type Given = Result<Vec<Value>, String>;

fn both(filter: &Filter, input: &str, variable: &str) -> (bool, Given, Given) {
    let raw = |text: &str| json::Raw::check(&Bytes::copy_from_slice(text.as_bytes())).expect("valid JSON");
    let native = filter.native.as_ref().and_then(|it| it.run(&raw(input).into(), &mut |_| raw(variable).into()));
    let ran = native.is_some();
    let applied = filter.apply(raw(input).into(), &mut |_| raw(variable).into());
    let applied = applied.map(|outputs| outputs.into_iter().map(Data::into_value).collect());
    let engine = filter.run(read(input), &mut |_| read(variable));
    (ran, applied.map_err(|error| error.to_string()), engine.map_err(|error| error.to_string()))
}

#[test]
fn parts_taken_of_bytes_are_what_the_engine_takes() {
    let sources = [
        ".",
        ".a",
        ".a.b",
        ".[\"a\"]",
        ".\"a b\"",
        ".a[0]",
        ".a[-1]",
        ".a[1].b",
        ".[0]",
        ".[-2]",
        "$x",
        "$x.a",
        ".a[:2]",
        ".a[1:]",
        ".a[-1:]",
        ".a[:-1]",
        ".a[1:-1]",
        ".a[5:2]",
        ".a[-9:9]",
        "{a}",
        "{a, b}",
        "{\"a b\"}",
        "{a: .b, b: .a}",
        "{(.b): 1}",
        "{(.b): 1, a: 2}",
        "{(.a): .b, (.b): .a}",
        "{$x}",
        "{a: $x, b: $x.a}",
        "[.a, .b]",
        "[.a]",
        "[]",
        "{}",
        "[.a[] | {b}]",
        "[.a[].b]",
        "[.a[] | .b]",
        ".a | map({b, x: $x})",
        "[.a[] | [.b[]? | .c]]",
        "[.a[] | [.b[] | {c}]]",
        "[.[] | {a, l: [.b[] | .c]}]",
        "1",
        "1.50",
        "-3",
        "\"é\\n\"",
        "null",
        "true",
        ".a | .b",
        ".a | {b}",
        "{a: {b: .a.b, c: [.b]}}",
        "{due: .a[:10], n: 12345678901234567890, e: 1e400}",
        "{a: .a, c: .a.b}",
        "[.a[], .b]",
        ".a.b | 1",
        ".a.b | $x.a",
        "{a: (.a | $x)}",
        ".a?",
        "{a: .a?}",
        ".a // 1",
        "[.a[]]",
        "{a: [.a[] | {x: .b[:2]}]}",
        "[.a[] | $x[:1]]",
    ];
    let inputs = [
        "null",
        "1",
        "true",
        "\"ab\"",
        "[]",
        "{}",
        r#"{"a":{"b":1.0}}"#,
        r#" { "a" : { "b" : [1 , 2] } , "b" : "k" } "#,
        r#"{"a":[{"b":1},{"b":[{"c":2},{"c":[]}]},{}],"b":null}"#,
        r#"{"a":1,"a":{"b":2},"b":"x","b":"a"}"#,
        r#"{"a":{"b":2},"a":null}"#,
        r#"{"a":{"b":2},"a":{"c":1}}"#,
        r#"{"\u0061":"2026-01-02T03","b":"\u00e9\"z"}"#,
        r#"{"a":"åäö🐊x","b":"","a b":-0}"#,
        r#"[[1,2],{"a":[[]],"b":[{"c":1}]},"x"]"#,
        r#"[{"a":1,"b":[]},{"b":[{"c":{}}]}]"#,
        r#"{"a":"\ud83d\udc0a\ud800","b":12345678901234567890}"#,
        r#"{"a":[1.10,2e5,-0.0],"b":"a"}"#,
        r#"{"a":{"b":{"c":1},"d":[]}}"#,
        r#"{"a":[{"b":"xyz"},{"b":null}]}"#,
        r#"{"a":{"x":{"b":1},"x":{"b":2}}}"#,
    ];
    let mut taken = 0;
    for source in sources {
        let filter = compiled(source);
        for input in inputs {
            for variable in ["null", r#"{"a":[1,"2"]}"#, "\"text\"", "[[1],[2]]"] {
                let (ran, native, engine) = both(&filter, input, variable);
                assert_eq!(native, engine, "{source} on {input}, {variable}");
                taken += usize::from(ran);
            }
        }
    }
    assert!(taken > 2000, "{taken}");
}

#[test]
fn simple_expressions_need_no_parsed_values() {
    for source in [
        "{id, text, due: .general.dueOn[:10], (.name): .main.temp}",
        "{a: $x, b: $path, c: $query.q}",
        "{news: [$x.rss.channel.item[] | {title, link}]}",
        "[.cases[] | {id: .id, labels: [.labels[].text]}]",
        ".cases | map({id})",
        "{id} + .details + {count: (.items | length)}",
    ] {
        assert!(compiled(source).native.is_some(), "{source}");
    }
    for source in [
        ".a + 1",
        "map(. + $x)",
        "{a: (.a, .b)}",
        ".a[]",
        ".. | .a",
        "{a, a: 1}",
        "[.a[] | [$x[] | .b]]",
        "[.a[] | $x[:1]]",
    ] {
        assert!(compiled(source).native.is_none(), "{source}");
    }
}

#[test]
fn what_is_taken_stays_as_it_was_written() {
    let raw = json::Raw::check(&Bytes::from_static(b" {\"z\": [1.0, 1e2 ],\"a\":\"\\u0041\"} ")).expect("valid");
    let made = compiled("{a, z, all: .}").apply(raw.into(), &mut |_| null().into()).expect("made");
    let mut out = Vec::new();
    made[0].write(&mut out).expect("written");
    let expected = r#"{"a":"\u0041","z":[1.0, 1e2 ],"all":{"z": [1.0, 1e2 ],"a":"\u0041"}}"#;
    assert_eq!(String::from_utf8(out).expect("UTF-8"), expected);
}

#[test]
fn copies_of_copies_end_at_the_bound_of_a_document() {
    let source = format!("[{}]", vec!["."; 200].join(","));
    let large = json::Raw::check(&Bytes::from(format!("\"{}\"", "x".repeat(1 << 20)))).expect("valid");
    let outputs = compiled(&source).apply(large.into(), &mut |_| null().into()).expect("shared");
    assert!(outputs[0].write(&mut Vec::new()).is_err());
}

#[test]
fn dates_have_offsets_and_fractions() {
    for (date, seconds) in [
        ("2024-05-01T10:00:00Z", Some("1714557600")),
        ("2024-05-01t10:00:00z", Some("1714557600")),
        ("2024-05-01 12:00:00+02:00", Some("1714557600")),
        ("2024-05-01T04:30:00.250-05:30", Some("1714557600.25")),
        ("2024-02-29T00:00:00.000Z", Some("1709164800")),
        ("2015-03-05T23:51:47Z", Some("1425599507")),
        ("2024-05-01T10:00:00+0200", None),
        ("2024-05-01T10:00:00", None),
        ("2023-02-29T00:00:00+00:00", None),
        ("2024-05-01T10:00:00.Z", None),
        ("2024-05-01T10:00:00+02:00x", None),
    ] {
        let found = outputs("fromdate", &format!("{date:?}")).ok();
        assert_eq!(found, seconds.map(|seconds| vec![seconds.to_owned()]), "{date}");
    }
    let format = r#"fromdate("%a, %d %b %Y %H:%M:%S %z")"#;
    assert_eq!(outputs(format, r#""Wed, 01 May 2024 12:00:00 +0200""#).ok(), Some(vec!["1714557600".to_owned()]));
    assert_eq!(outputs(format, r#""Wed, 01 May 2024 10:00:00 Z""#).ok(), Some(vec!["1714557600".to_owned()]));
    assert!(outputs(format, r#""Wed, 01 May 2024""#).is_err());
    // As jq: the offset is read and ignored.
    let ignored = r#"strptime("%Y-%m-%dT%H:%M:%S%z") | mktime"#;
    assert_eq!(outputs(ignored, r#""2024-05-01T10:00:00+02:00""#).ok(), Some(vec!["1714557600".to_owned()]));
}

#[test]
fn lists_with_many_nans_are_sorted() {
    for source in [
        "sort",
        "sort_by(.)",
        "group_by(.)",
        "unique",
        "map([.]) | sort",
        "map({a: .}) | sort",
        "min, max",
        ". - [nan, 1]",
    ] {
        let source = format!("[range(300) | (nan, (. * 7 % 5), nan, -nan)] | {source} | length");
        let length = outputs(&source, "null");
        assert!(length.is_ok(), "{source}: {length:?}");
    }
}
