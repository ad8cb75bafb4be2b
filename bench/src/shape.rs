//! The cost of checking a body, taking its fields and merging bodies: on the bytes, and by the expression engine.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use crocodile_pear::unstable::jq::{self, Data, Filter};
use crocodile_pear::unstable::json::{self, Raw};

use crate::Result;
use crate::report::{Sheet, Style, median, say};

#[derive(Args)]
pub struct Options {
    /// How often each figure is taken; the median and the best are shown
    #[arg(long, default_value_t = 40)]
    rounds: usize,
    /// Print the table for a page
    #[arg(long)]
    markdown: bool,
}

/// How long one figure is taken.
const ROUND: Duration = Duration::from_millis(25);

const SELECT: &str = "{id, name: .owner.name, due: .general.dueOn[:10]}";
const TRANSFORM: &str = "{id, open: [.events[] | select(.open) | {id, who: .author.name, weight}], \
    last: (.events | max_by(.at).text), total: ([.events[].weight] | add)}";
const MERGE: &str = "{profile: $profile, orders: $orders, news: $news}";

pub fn run(options: &Options) -> Result<()> {
    let body = body();
    let select = compile(SELECT, &[])?;
    let merge = compile(MERGE, &["profile", "orders", "news"])?;
    let mut sheet = Sheet::new(1, ["what", "bytes", "µs", "best µs", "GB/s at best"]);
    let length = body.len();
    let mut show = |what: &str, length: usize, figures: Vec<f64>| {
        let best = figures.iter().copied().fold(f64::INFINITY, f64::min);
        let speed = length as f64 / best / 1e9;
        sheet.add([
            what.to_owned(),
            length.to_string(),
            format!("{:.2}", median(figures) * 1e6),
            format!("{:.2}", best * 1e6),
            format!("{speed:.2}"),
        ]);
    };
    let raw = Raw::check(&body)?;
    let rounds = options.rounds;
    show("check", length, time(rounds, || Raw::check(&body).is_ok()));
    show("select, checked before", length, time(rounds, || applied(&select, &raw)));
    show("parse and select by the engine", length, time(rounds, || parsed(&select, &body)));
    show("merge of 3", 3 * length, time(rounds, || merged(&merge, &body, true)));
    show("merge of 3 by the engine", 3 * length, time(rounds, || merged(&merge, &body, false)));
    for (name, body) in bodies() {
        let select = compile(SELECT, &[])?;
        let call = || Raw::check(&body).is_ok_and(|raw| applied(&select, &raw));
        show(&format!("check and select: {name}"), body.len(), time(rounds, call));
    }
    let transform = compile(TRANSFORM, &[])?;
    show("transform", length, time(rounds, || parsed(&transform, &body)));
    sheet.print(Style::choose(options.markdown))?;
    say(&format!("select: {SELECT}\nmerge: {MERGE}\ntransform: {TRANSFORM}"))?;
    Ok(())
}

fn compile(source: &str, known: &[&str]) -> Result<Filter> {
    Filter::compile(source, known).map_err(|faults| format!("{source}: {faults:?}").into())
}

fn applied(filter: &Filter, raw: &Raw) -> bool {
    filter.apply(raw.clone().into(), &mut |_| jq::null().into()).is_ok()
}

fn parsed(filter: &Filter, body: &Bytes) -> bool {
    let run = |value| filter.run(value, &mut |_| jq::null());
    let outputs = json::read(body).and_then(run);
    outputs.is_ok_and(|outputs| outputs.first().is_some_and(|output| json::to_bytes(output).is_ok()))
}

/// Three bodies as they come in, to one as it leaves.
fn merged(filter: &Filter, body: &Bytes, on_bytes: bool) -> bool {
    if on_bytes {
        let mut read = |_: &str| Raw::check(body).map_or_else(|_| jq::null().into(), Data::Json);
        return filter.apply(jq::null().into(), &mut read).is_ok();
    }
    let mut read = |_: &str| json::read(body).unwrap_or_else(|_| jq::null());
    let outputs = filter.run(jq::null(), &mut read);
    outputs.is_ok_and(|outputs| outputs.first().is_some_and(|output| json::to_bytes(output).is_ok()))
}

/// Seconds for one call, so many times.
fn time(rounds: usize, mut call: impl FnMut() -> bool) -> Vec<f64> {
    let mut figures = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let (start, mut calls) = (Instant::now(), 0u32);
        while start.elapsed() < ROUND {
            for _ in 0..8 {
                assert!(black_box(call()), "it is done");
            }
            calls += 8;
        }
        figures.push(start.elapsed().as_secs_f64() / f64::from(calls));
    }
    figures
}

/// A resource of some 15 KB, as case handling systems answer with.
fn body() -> Bytes {
    let event = |number: usize| {
        format!(
            r#"{{"id":{number},"type":"note","author":{{"id":"u{number}","name":"Karin Öberg"}},"at":"2026-03-{:02}T10:15:00Z","text":"The applicant called and asked about case {number}.","open":{},"weight":{number}.5}}"#,
            number % 28 + 1,
            number.is_multiple_of(2)
        )
    };
    let events: Vec<String> = (0..72).map(event).collect();
    let body = format!(
        r#"{{"id":4711,"links":[{{"rel":"self","href":"/cases/4711"}}],"general":{{"dueOn":"2026-04-01T00:00:00Z","priority":{{"id":2}}}},"events":[{}],"owner":{{"id":"u1","name":"Åsa Lind"}},"text":"Building permit"}}"#,
        events.join(",")
    );
    body.into()
}

/// Bodies of some 15 KB in several styles; each has what is selected.
fn bodies() -> Vec<(&'static str, Bytes)> {
    let join = |count: usize, item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(",");
    let within = |inner: String| {
        format!(
            r#"{{"id":4711,"general":{{"dueOn":"2026-04-01T00:00:00Z"}},"inner":{inner},"owner":{{"id":"u1","name":"Åsa Lind"}}}}"#
        )
    };
    let short = within(format!("{{{}}}", join(900, &|n| format!(r#""k{n}":"v{}""#, n * 7))));
    let prose = "The quick brown fox jumps over the lazy dog. ".repeat(27);
    let long = within(format!("[{}]", join(12, &|n| format!(r#"{{"id":{n},"text":"{prose}"}}"#))));
    let cyrillic = "Быстрая лиса прыгает ".repeat(31);
    let foreign = within(format!("[{}]", join(12, &|n| format!(r#"{{"id":{n},"text":"{cyrillic}"}}"#))));
    let line = r#"a line\nand \"quoted\" words, a tab\t and \u00e5 path C:\\dir "#.repeat(4);
    let escaped = within(format!("[{}]", join(60, &|n| format!(r#"{{"id":{n},"text":"{line}"}}"#))));
    let whole = within(format!("[{}]", join(2500, &|n| (n * 7919 % 100_000).to_string())));
    let pair = |n: usize| format!("[{}.{},-{}.{:06}]", n % 180, n * 7919 % 1_000_000, n % 90, n * 104_729 % 1_000_000);
    let places = within(format!("[{}]", join(700, &pair)));
    let nested = within(format!("[{}]", join(500, &|n| format!(r#"{{"a":{{"b":[{n},{{"c":[]}}]}}}}"#))));
    let resource = body();
    let indented = indent(&resource);
    vec![
        ("a resource", resource),
        ("the same, indented", indented),
        ("short strings", short.into()),
        ("long strings", long.into()),
        ("long strings, Cyrillic", foreign.into()),
        ("strings with escapes", escaped.into()),
        ("whole numbers", whole.into()),
        ("coordinates", places.into()),
        ("nested", nested.into()),
    ]
}

/// The document with a line for each value.
fn indent(document: &[u8]) -> Bytes {
    let (mut out, mut depth, mut quoted) = (Vec::new(), 0usize, false);
    let line = |depth: usize, out: &mut Vec<u8>| {
        out.push(b'\n');
        out.resize(out.len() + 2 * depth, b' ');
    };
    for byte in document {
        // The resource has no escapes.
        quoted ^= *byte == b'"';
        match byte {
            b'}' | b']' if !quoted => {
                depth -= 1;
                line(depth, &mut out);
                out.push(*byte);
            }
            b'{' | b'[' | b',' if !quoted => {
                depth += usize::from(*byte != b',');
                out.push(*byte);
                line(depth, &mut out);
            }
            b':' if !quoted => out.extend_from_slice(b": "),
            _ => out.push(*byte),
        }
    }
    out.into()
}
