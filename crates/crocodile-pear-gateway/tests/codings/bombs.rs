//! Bodies that grow beyond reason when they are decoded are refused, and cost no memory to speak of.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::codings::reader::{CODINGS, read, write};
use crate::codings::scene::{Scene, answer};

const CONFIG: &str = "
upstreams: { up: '${UP}' }
endpoints:
  GET /read/{coding}: { pipeline: [{ request: 'up /{coding}' }, { transform: length }] }
  GET /each/{coding}: { pipeline: [{ request: 'up /{coding}' }, { each: { in: '.[]' } }, { concatenate: { as: json } }] }
  GET /pass/{coding}: up /{coding}
";

/// 64 MiB of spaces within a list: JSON that never comes to its second byte of sense.
static BOMBS: LazyLock<HashMap<&str, Vec<u8>>> = LazyLock::new(|| {
    let body = ["[".as_bytes(), &vec![b' '; 64 << 20], b"]"].concat();
    let mut bombs: HashMap<&str, Vec<u8>> = CODINGS.into_iter().map(|coding| (coding, write(coding, &body))).collect();
    bombs.insert("gzip,br", write("br", &bombs["gzip"]));
    bombs
});

fn scene() -> Scene {
    LazyLock::force(&BOMBS);
    Scene::new(CONFIG, |head, stream| {
        let coding = head.split([' ', '/']).nth(2).unwrap().replace("%2C", ",");
        let fields = format!("content-type: application/json\r\ncontent-encoding: {coding}\r\n");
        answer(stream, &fields, &BOMBS[&*coding])
    })
}

#[test]
fn a_body_that_grows_beyond_reason_is_refused_and_not_held() {
    let mut scene = scene();
    let before = scene.gateway.peak();
    for path in ["read", "each"] {
        for coding in ["gzip", "br", "zstd", "deflate", "gzip,br"] {
            let answer = scene.get(&format!("/{path}/{coding}"), "identity");
            let text = String::from_utf8(answer.text()).unwrap();
            assert_eq!(answer.head.status, 502, "{path} {coding}: {text}");
            assert!(text.contains(r#""kind":"oversized""#), "{path} {coding}: {text}");
        }
    }
    let grown = scene.gateway.peak() - before;
    assert!(grown < 40 << 20, "{grown} bytes were needed to refuse them");
}

#[test]
fn what_no_step_reads_is_the_clients_to_judge() {
    let mut scene = scene();
    let answer = scene.get("/pass/br", "br");
    assert_eq!((answer.coding().as_str(), answer.body.as_slice()), ("br", &BOMBS["br"][..]));
    assert_eq!(read("br", &answer.body).0.len(), (64 << 20) + 2);
}
