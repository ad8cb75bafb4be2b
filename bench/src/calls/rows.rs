//! The rows: requests, their bounds, and the upstream.

use std::net::SocketAddr;

use serde_json::Value;

use crate::Result;
use crate::expected::Expected;
use crate::upstream;

/// Items of the list, each with a link of its own.
pub const ITEMS: usize = 100;

/// Bytes of a detail, as of what is proxied.
const SIZE: usize = upstream::SIZE;

/// A row of the table.
pub struct Row {
    pub name: &'static str,
    pub target: &'static str,
    /// The bound, in proxied requests of nginx.
    pub bound: Option<f64>,
    pub expected: fn() -> Expected,
}

pub const ROWS: [Row; 12] = [
    row("proxied, 282 B", "/proxy", None, || Expected::Exactly(upstream::item(0))),
    row("one call, fields of 1 KB picked", "/pick", Some(1.15), || Expected::Exactly(PICKED.to_vec())),
    row("merge of 3", "/merge", Some(2.0), merged),
    row("list of 10", "/ten", Some(6.5), || Expected::any_order((1..=10).map(detail).collect())),
    row("list of 100, handed on", "/rows", None, || Expected::Exactly(list())),
    row("each + concatenate", "/each", Some(6.0), || Expected::any_order((1..=ITEMS).map(listed).collect())),
    row("each + transform", "/transformed", Some(9.0), || Expected::any_order((1..=ITEMS).map(transformed).collect())),
    row("100 bare calls", "/bare", Some(62.0), || Expected::any_order((1..=ITEMS).map(detail).collect())),
    row("each + a request per item", "/called", Some(70.0), || Expected::any_order((1..=ITEMS).map(detail).collect())),
    row("each + follow, embedded", "/embedded", Some(75.0), || {
        Expected::any_order((1..=ITEMS).map(embedded).collect())
    }),
    row("... and fields of both", "/flat", None, || Expected::any_order((1..=ITEMS).map(flat).collect())),
    row("... and nested fields of both", "/nested", Some(85.0), || {
        Expected::any_order((1..=ITEMS).map(nested).collect())
    }),
];

const fn row(name: &'static str, target: &'static str, bound: Option<f64>, expected: fn() -> Expected) -> Row {
    Row { name, target, bound, expected }
}

pub fn serve() -> Result<SocketAddr> {
    let details = (1..=ITEMS).map(|number| upstream::written(&detail(number)));
    let others = [upstream::written(&list()), upstream::answer(0), upstream::written(&user())];
    upstream::serving(others.into_iter().chain(details).collect(), asked)
}

/// The list, what is proxied, what is picked from, and then the details.
fn asked(head: &[u8]) -> Option<usize> {
    let target = std::str::from_utf8(head.strip_prefix(b"GET /")?).ok()?.split(' ').next()?;
    match target.strip_prefix("d/") {
        Some(number) => number.parse::<usize>().ok().map(|number| number + OTHERS.len() - 1),
        None => OTHERS.iter().position(|known| *known == target),
    }
}

const OTHERS: [&str; 3] = ["list", "item", "user"];

/// 1 KB, of which three fields are picked.
fn user() -> Vec<u8> {
    let bare = r#"{"id":17,"name":"Marta Silva","email":"marta.silva@example.com","phone":"+351 210 000 017","address":{"street":"Rua das Flores 17","city":"Porto","zip":"4050-262"},"active":true,"notes":"","links":[{"rel":"self","href":"/users/17"},{"rel":"posts","href":"/users/17/posts"}]}"#;
    let notes = "call back on Monday, ".chars().cycle().take(1_000 - bare.len()).collect::<String>();
    bare.replace(r#""notes":"""#, &format!(r#""notes":"{notes}""#)).into_bytes()
}

const PICKED: &[u8] = br#"{"id":17,"name":"Marta Silva","city":"Porto"}"#;

fn list() -> Vec<u8> {
    let items: Vec<Vec<u8>> = (1..=ITEMS).map(listed).collect();
    [&b"{\"items\":["[..], &items.join(&b','), b"]}"].concat()
}

/// An item of the list, 290 bytes.
fn listed(number: usize) -> Vec<u8> {
    let bare = format!(r#"{{"id":{number},"href":"/d/{number}","name":"item {number}","pad":"","n":1.5}}"#);
    bare.replace(r#""pad":"""#, &format!(r#""pad":"{}""#, "y".repeat(290 - bare.len()))).into_bytes()
}

fn detail(number: usize) -> Vec<u8> {
    let text = text(number);
    format!(r#"{{"id":{number},"text":"{text}","links":[{{"rel":"self","href":"/a"}}],"value":12.5}}"#).into_bytes()
}

pub fn text(number: usize) -> String {
    let bare = format!(r#"{{"id":{number},"text":"","links":[{{"rel":"self","href":"/a"}}],"value":12.5}}"#);
    ('a'..='z').cycle().skip(number).take(SIZE - bare.len()).collect()
}

fn transformed(number: usize) -> Vec<u8> {
    format!(r#"{{"id":{number},"name":"item {number}"}}"#).into_bytes()
}

fn embedded(number: usize) -> Vec<u8> {
    let listed = listed(number);
    [&listed[..listed.len() - 1], br#","d":"#, &detail(number), b"}"].concat()
}

fn flat(number: usize) -> Vec<u8> {
    format!(r#"{{"id":{number},"name":"item {number}","text":"{}"}}"#, text(number)).into_bytes()
}

fn nested(number: usize) -> Vec<u8> {
    format!(r#"{{"id":{number},"name":"item {number}","d":{{"text":"{}","value":12.5}}}}"#, text(number)).into_bytes()
}

/// A detail, for those who write JSON anew.
pub fn parsed(number: usize) -> Value {
    value(&detail(number))
}

/// An item with nested fields of both, likewise.
pub fn joined(number: usize) -> Value {
    value(&nested(number))
}

fn value(json: &[u8]) -> Value {
    serde_json::from_slice(json).expect("JSON of this file")
}

fn merged() -> Expected {
    let third = String::from_utf8_lossy(&detail(3)).into_owned();
    Expected::Exactly(format!(r#"{{"a":1,"b":"{}","c":{third}}}"#, text(2)).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_and_details_have_their_size() {
        assert!((1..=ITEMS).all(|number| listed(number).len() == 290 && detail(number).len() == SIZE));
        assert_eq!(user().len(), 1_000);
        assert_eq!((asked(b"GET /list HTTP/1.1"), asked(b"GET /d/7 HTTP/1.1")), (Some(0), Some(9)));
        assert_eq!((asked(b"GET /item HTTP/1.1"), asked(b"GET /other HTTP/1.1")), (Some(1), None));
    }
}
