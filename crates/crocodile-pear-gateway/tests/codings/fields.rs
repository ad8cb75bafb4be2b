//! Which answer is coded, and what its fields say: RFC 9110, sections 8.8, 12.5.3 and 15.4.5.

use std::io::Write;

use crate::codings::reader::{CODINGS, write};
use crate::codings::scene::{Answer, Scene, answer, begin, chunk};
use crate::stage::client::Head;

const CONFIG: &str = "
compress: on
upstreams: { up: { url: '${UP}', forward: [accept-encoding, if-none-match, range] } }
endpoints:
  GET /{kind}: up /{kind}
  GET /first/{kind}: { pipeline: [{ request: 'up /{kind}' }, { transform: '.rows[0]' }] }
  GET /rows/{kind}: { pipeline: [{ request: 'up /{kind}' }, { transform: .rows }] }
";

fn text() -> Vec<u8> {
    let rows: Vec<String> = (0..200).map(|row| format!(r#"{{"row":{row},"name":"Ada"}}"#)).collect();
    format!(r#"{{"rows":[{}]}}"#, rows.join(",")).into()
}

fn scene() -> Scene {
    Scene::new(CONFIG, |head, stream| {
        const JSON: &str = "content-type: application/json\r\n";
        let asked = head.to_ascii_lowercase();
        let bodiless = head.starts_with("HEAD ");
        let mut send = |fields: &str, body: &[u8]| match bodiless {
            true => write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n{fields}\r\n", body.len()),
            false => answer(stream, fields, body),
        };
        match head.split([' ', '/']).nth(2).unwrap() {
            "whole" => send(JSON, &text()),
            "png" => send("content-type: image/png\r\n", &text()),
            "untyped" => send("", &text()),
            "short" => send(JSON, b"{}"),
            "empty" => send(JSON, b""),
            "fixed" => send(&format!("{JSON}cache-control: public, no-transform\r\n"), &text()),
            "varied" => send(&format!("{JSON}vary: Origin\r\nvary: Accept-Language\r\n"), &text()),
            "varies" => send(&format!("{JSON}vary: origin, Accept-Encoding\r\n"), &text()),
            "star" => send(&format!("{JSON}vary: *\r\n"), &text()),
            "described" => send(
                &format!(
                    "{JSON}accept-ranges: bytes\r\ncontent-md5: AAAA\r\ndigest: md5=AAAA\r\nlast-modified: Sat, 01 Jan 2022 00:00:00 GMT\r\n"
                ),
                &text(),
            ),
            "weak" => send(&format!("{JSON}etag: W/\"v1\"\r\n"), &text()),
            "tagged" if asked.contains("if-none-match: w/\"v1\"") || asked.contains("if-none-match: \"v1\"") => {
                stream.write_all(b"HTTP/1.1 304 Not Modified\r\netag: \"v1\"\r\n\r\n")
            }
            "tagged" if asked.contains("range: bytes=0-9") => write!(
                stream,
                "HTTP/1.1 206 Partial Content\r\n{JSON}etag: \"v1\"\r\ncontent-range: bytes 0-9/{}\r\ncontent-length: 10\r\n\r\n{}",
                text().len(),
                String::from_utf8_lossy(&text()[..10]),
            ),
            "tagged" => send(&format!("{JSON}etag: \"v1\"\r\n"), &text()),
            "nothing" => stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n"),
            "hinted" => {
                stream.write_all(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n")?;
                answer(stream, JSON, &text())
            }
            "missing" => write!(
                stream,
                "HTTP/1.1 404 Not Found\r\n{JSON}content-length: {}\r\n\r\n{}",
                text().len(),
                String::from_utf8_lossy(&text()),
            ),
            "stream" => {
                begin(stream, JSON)?;
                if bodiless {
                    return Ok(());
                }
                text().chunks(500).try_for_each(|piece| chunk(stream, piece))?;
                chunk(stream, b"")
            }
            coding => send(&format!("{JSON}content-encoding: {coding}\r\n"), &write_as(coding)),
        }
    })
}

fn write_as(coding: &str) -> Vec<u8> {
    write(if coding == "x-gzip" { "gzip" } else { coding }, &text())
}

/// The length is told and right, or there are chunks.
fn sound(answer: &Answer) {
    let told = answer.field("content-length").map(|told| told.parse().unwrap());
    assert_eq!(answer.broken, None);
    assert!(told.is_none_or(|told: usize| told == answer.body.len()), "{told:?} of {}", answer.body.len());
}

#[test]
fn a_client_gets_the_coding_that_it_likes_best() {
    let mut scene = scene();
    for (accept, wanted) in [
        ("gzip", "gzip"),
        ("GZip", "gzip"),
        ("x-gzip", "gzip"),
        ("deflate", "deflate"),
        ("br", "br"),
        ("zstd", "zstd"),
        ("gzip, deflate", "gzip"),
        ("gzip;q=0.4, br;q=0.5", "br"),
        ("gzip;q=0.5,deflate;q=0.500", "gzip"),
        ("gzip ;q=1 , br ;q=0.001", "gzip"),
        ("br;q=0, zstd;q=0, deflate", "deflate"),
        ("*;q=0.1, gzip;q=0", "zstd"),
        ("*", "zstd"),
        ("gzip;q=0", "identity"),
        ("gzip;q=0.0, *;q=0", "identity"),
        ("", "identity"),
        (",", "identity"),
        ("identity", "identity"),
        ("identity;q=1, gzip;q=0.5", "identity"),
        ("compress", "identity"),
        ("pack200-gzip, exi, aes128gcm", "identity"),
        ("gzip;q=nan", "identity"),
        ("gzip;q=-1", "identity"),
        ("gzip;q=1e0", "identity"),
        ("gzip; level=1", "identity"),
        ("\"gzip\"", "identity"),
        ("gzipped", "identity"),
        (";q=1, gzip", "gzip"),
        ("deflate, gzip;q=1.0, *;q=0.5", "gzip"),
        // Nothing that is offered would do: the answer as it is, for want of a better (12.5.3).
        ("identity;q=0", "identity"),
        ("compress, *;q=0", "identity"),
        ("gzip, identity;q=0", "gzip"),
    ] {
        for path in ["/whole", "/stream"] {
            let answer = scene.get(path, accept);
            sound(&answer);
            assert_eq!(answer.coding(), wanted, "{path} {accept:?}");
            assert_eq!(answer.field("vary").as_deref(), Some("accept-encoding"), "{path} {accept:?}");
            assert_eq!(answer.text(), text(), "{path} {accept:?}");
        }
    }
    let answer = scene.whole("GET /whole", "");
    assert_eq!((answer.coding(), answer.field("vary")), ("identity".to_owned(), Some("accept-encoding".to_owned())));
    let answer = scene.whole("GET /whole", "accept-encoding: gzip;q=0.5\r\naccept-encoding: br\r\n");
    assert_eq!(answer.coding(), "br");
}

#[test]
fn what_is_not_worth_it_or_forbids_it_is_handed_on() {
    let mut scene = scene();
    // The next second may begin between the two answers, so `date` is not compared.
    let undated = |head: &Head| head.fields.iter().filter(|(name, _)| name != "date").cloned().collect::<Vec<_>>();
    for path in ["/png", "/untyped", "/short", "/empty", "/fixed", "/nothing"] {
        let (coded, plain) = (scene.get(path, "gzip"), scene.whole(&format!("GET {path}"), ""));
        sound(&coded);
        assert_eq!((undated(&coded.head), &coded.body), (undated(&plain.head), &plain.body), "{path}");
        assert_eq!((coded.field("content-encoding"), coded.field("vary")), (None, None), "{path}");
    }
    // A client that takes no plain answer gets each of them coded.
    for (coding, path) in CODINGS.into_iter().flat_map(|coding| [(coding, "/png"), (coding, "/short")]) {
        let answer = scene.get(path, &format!("{coding}, identity;q=0"));
        let wanted = if path == "/short" { b"{}".to_vec() } else { text() };
        assert_eq!((answer.coding().as_str(), answer.text()), (coding, wanted), "{path}");
    }
}

#[test]
fn vary_is_merged_and_said_once() {
    let mut scene = scene();
    for (path, wanted) in [
        ("/varied", "Origin, Accept-Language, accept-encoding"),
        ("/varies", "origin, Accept-Encoding"),
        ("/star", "*"),
    ] {
        for accept in ["gzip", "identity"] {
            assert_eq!(scene.get(path, accept).field("vary").as_deref(), Some(wanted), "{path} {accept}");
        }
    }
}

#[test]
fn what_describes_the_plain_bytes_is_not_said_of_others() {
    let mut scene = scene();
    let answer = scene.get("/described", "gzip");
    for name in ["accept-ranges", "content-md5", "digest"] {
        assert_eq!(answer.field(name), None, "{name}");
    }
    assert!(answer.field("last-modified").is_some());
    assert_eq!(scene.get("/described", "identity").field("content-md5").as_deref(), Some("AAAA"));
}

#[test]
fn a_tag_is_weak_on_other_bytes_and_asks_again_as_it_was_given() {
    let mut scene = scene();
    assert_eq!(scene.get("/weak", "gzip").field("etag").as_deref(), Some("W/\"v1\""));
    assert_eq!(scene.get("/tagged", "identity").field("etag").as_deref(), Some("\"v1\""));
    for accept in ["gzip", "identity"] {
        let tag = scene.get("/tagged", accept).field("etag").unwrap();
        let again = scene.whole("GET /tagged", &format!("accept-encoding: {accept}\r\nif-none-match: {tag}\r\n"));
        assert_eq!((again.head.status, again.body.len()), (304, 0), "{accept}");
        // What 200 would have said (15.4.5), so that a cache finds what it holds.
        assert_eq!(again.field("etag"), Some(tag), "{accept}");
        assert_eq!(again.field("vary").as_deref(), Some("accept-encoding"), "{accept}");
        assert_eq!(again.field("content-encoding"), None, "{accept}");
    }
}

#[test]
fn a_part_is_a_part_of_the_plain_bytes() {
    let mut scene = scene();
    let part = scene.whole("GET /tagged", "accept-encoding: gzip\r\nrange: bytes=0-9\r\n");
    sound(&part);
    assert_eq!((part.head.status, part.body.as_slice()), (206, &text()[..10]));
    assert_eq!((part.field("content-encoding"), part.field("etag").as_deref()), (None, Some("\"v1\"")));
}

#[test]
fn head_says_what_get_says() {
    let mut scene = scene();
    for path in
        ["/whole", "/stream", "/png", "/short", "/tagged", "/varied", "/fixed", "/described", "/rows/whole", "/gzip"]
    {
        for accept in ["gzip", "br", "identity", "gzip, identity;q=0"] {
            let fields = format!("accept-encoding: {accept}\r\n");
            let (get, head) =
                (scene.whole(&format!("GET {path}"), &fields), scene.whole(&format!("HEAD {path}"), &fields));
            assert!(head.body.is_empty());
            // A length may be left out, for it would have to be found out first (8.6).
            let told = |answer: &Answer| {
                let length = |name: &String| name != "content-length" && name != "transfer-encoding" && name != "date";
                answer.head.fields.iter().filter(|(name, _)| length(name)).cloned().collect::<Vec<_>>()
            };
            assert_eq!(told(&head), told(&get), "{path} {accept}");
            let length = head.field("content-length");
            assert!(length.is_none() || length == get.field("content-length"), "{path} {accept}: {length:?}");
        }
    }
}

#[test]
fn an_answer_keeps_its_status_and_hints_do_not_disturb_it() {
    let mut scene = scene();
    let missing = scene.get("/missing", "gzip");
    assert_eq!((missing.head.status, missing.coding(), missing.text()), (404, "gzip".to_owned(), text()));
    let hinted = scene.get("/hinted", "gzip");
    assert_eq!((hinted.head.status, hinted.coding(), hinted.text()), (200, "gzip".to_owned(), text()));
}

#[test]
fn what_is_coded_already_is_handed_on_as_it_is() {
    let mut scene = scene();
    for coding in ["gzip", "br", "zstd", "deflate", "x-gzip"] {
        for accept in ["gzip", "br", "identity"] {
            let answer = scene.get(&format!("/{coding}"), accept);
            sound(&answer);
            assert_eq!(
                (answer.coding().as_str(), answer.body == write_as(coding)),
                (coding, true),
                "{coding} {accept}"
            );
        }
    }
}

#[test]
fn what_a_step_reads_leaves_in_the_clients_coding() {
    let mut scene = scene();
    let rows: serde_json::Value = serde_json::from_slice(&text()).unwrap();
    for coding in ["gzip", "br", "zstd", "deflate", "x-gzip"] {
        for accept in CODINGS.into_iter().chain(["identity"]) {
            let answer = scene.get(&format!("/rows/{coding}"), accept);
            sound(&answer);
            assert_eq!((answer.coding().as_str(), answer.field("vary").as_deref()), (accept, Some("accept-encoding")));
            let read: serde_json::Value = serde_json::from_slice(&answer.text()).unwrap();
            assert_eq!(read, rows["rows"], "{coding} {accept}");
            // One row is too short to be coded again, and is not said to be coded.
            let first = scene.get(&format!("/first/{coding}"), accept);
            assert_eq!((first.coding().as_str(), first.text().len()), ("identity", 22), "{coding} {accept}");
        }
    }
}
