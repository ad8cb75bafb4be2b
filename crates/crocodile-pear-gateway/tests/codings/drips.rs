//! Bytes that arrived are delivered: each part is sent when the client has read the one before, so a part that is held back
//! anywhere stops the test.

use crate::codings::reader::{CODINGS, read};
use crate::codings::scene::{Scene, answer, begin, chunk};
use crate::stage::client::Piece;
use crate::stage::gates::Gates;

const PARTS: usize = 10;

const CONFIG: &str = "
compress: on
upstreams: { up: '${UP}' }
endpoints:
  GET /drip/{coding}: up /drip/{coding}
  GET /json/{coding}:
    pipeline: [{ request: { to: up, path: '/part/{coding}/{.}', for_each: 'range(1; 11)' } }, { concatenate: { as: json, body_only: true } }]
  GET /ndjson/{coding}:
    pipeline: [{ request: { to: up, path: '/part/{coding}/{.}', for_each: 'range(1; 11)' } }, { concatenate: { as: ndjson, body_only: true } }]
  GET /sse/{coding}:
    pipeline: [{ request: { to: up, path: '/part/{coding}/{.}', for_each: 'range(1; 11)' } }, { concatenate: { as: sse, body_only: true } }]
";

fn part(number: usize) -> String {
    format!(r#"{{"part":{number},"text":"as it arrives"}}"#)
}

/// Asks for every coding of a path; `wanted` is what must be readable once so many parts were sent.
fn drip(path: &str, wanted: impl Fn(usize) -> String) {
    let gates = Gates::default();
    let opened = gates.clone();
    let mut scene = Scene::new(CONFIG, move |head, stream| {
        let shut = |_| std::io::ErrorKind::TimedOut;
        let path: Vec<&str> = head.split([' ', '/']).collect();
        if let ["GET", "", "part", coding, number, ..] = path[..] {
            opened.pass(&format!("{coding} {number}")).map_err(shut)?;
            return answer(stream, "content-type: application/json\r\n", part(number.parse().unwrap()).as_bytes());
        }
        begin(stream, "content-type: application/x-ndjson\r\n")?;
        for number in 1..=PARTS {
            opened.pass(&format!("{} {number}", path[3])).map_err(shut)?;
            chunk(stream, format!("{}\n", part(number)).as_bytes())?;
        }
        chunk(stream, b"")
    });
    for coding in CODINGS {
        let open = |number| gates.open(&format!("{coding} {number}"));
        let client = scene.ask(&format!("GET /{path}/{coding}"), &format!("accept-encoding: {coding}\r\n"));
        open(1);
        let head = client.head().unwrap();
        assert!(head.fields.contains(&("content-encoding".to_owned(), coding.to_owned())), "{path} {coding}: {head:?}");
        let mut came = Vec::new();
        for number in 1..=PARTS {
            open(number);
            while read(coding, &came).0 != wanted(number).as_bytes() {
                match client.piece() {
                    Ok(Piece::Data(data)) => came.extend(data),
                    other => panic!("{path} {coding}, part {number}: {other:?} after {:?}", read(coding, &came)),
                }
            }
            assert!(number == PARTS || !read(coding, &came).1, "{path} {coding} has ended before its last part");
        }
        while let Piece::Data(data) = client.piece().unwrap() {
            came.extend(data);
        }
        assert!(read(coding, &came).1, "{path} {coding} does not end");
    }
}

fn parts(count: usize, one: impl Fn(String) -> String) -> String {
    (1..=count).map(|number| one(part(number))).collect()
}

#[test]
fn the_chunks_of_an_upstream_are_delivered_as_they_come() {
    drip("drip", |sent| parts(sent, |part| part + "\n"));
}

#[test]
fn the_items_of_a_list_are_delivered_as_they_come() {
    drip("json", |sent| {
        let end = if sent == PARTS { "]" } else { "" };
        format!("[{}{end}", (1..=sent).map(part).collect::<Vec<_>>().join(","))
    });
}

#[test]
fn lines_are_delivered_as_they_come() {
    drip("ndjson", |sent| parts(sent, |part| part + "\n"));
}

#[test]
fn events_are_delivered_as_they_come() {
    drip("sse", |sent| parts(sent, |part| format!("data: {part}\n\n")));
}
