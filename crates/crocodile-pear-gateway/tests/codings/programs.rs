//! The programs that people have read what the gateway compressed. One that is not installed is not asked.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::codings::reader::CODINGS;
use crate::codings::scene::{Scene, answer, begin, chunk};

const CONFIG: &str = "
compress: on
upstreams: { up: '${UP}' }
endpoints:
  GET /whole: up /whole
  GET /stream: up /stream
  GET /list:
    pipeline: [{ request: { to: up, path: '/item/{.}', for_each: 'range(1; 11)' } }, { concatenate: { as: json, body_only: true, order: request } }]
";

/// Python's own decoder of gzip and zlib, which takes nothing behind the end.
const PYTHON: &str = "import sys, zlib
stream = zlib.decompressobj(47)
sys.stdout.buffer.write(stream.decompress(sys.stdin.buffer.read()) + stream.flush())
sys.exit(0 if stream.eof and not stream.unused_data else 1)";

fn rows() -> Vec<u8> {
    (0..5_000)
        .map(|row| format!("{{\"id\":{row},\"name\":\"Ada\",\"key\":{}}}\n", row * 7_919 % 10_007))
        .collect::<String>()
        .into()
}

/// Long enough for ten of them to be worth it.
fn item(number: &str) -> String {
    format!(r#"{{"id":{number},"text":"{}"}}"#, "as it arrives ".repeat(20))
}

fn scene() -> Scene {
    Scene::new(CONFIG, |head, stream| {
        let fields = "content-type: application/json\r\n";
        if let Some((_, number)) = head.split_once("/item/") {
            let number = number.split(' ').next().unwrap();
            return answer(stream, fields, item(number).as_bytes());
        }
        if head.contains("/whole") {
            return answer(stream, fields, &rows());
        }
        begin(stream, fields)?;
        rows().chunks(1_000).try_for_each(|piece| chunk(stream, piece))?;
        chunk(stream, b"")
    })
}

/// The output of a program for its input; `None` if it is not there.
fn run(program: &str, arguments: &[&str], input: Vec<u8>) -> Option<(Vec<u8>, bool)> {
    let mut command = Command::new(program);
    let child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = child else {
        eprintln!("{program} is not installed, and not asked");
        return None;
    };
    let mut stdin = child.stdin.take().unwrap();
    let feed = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    feed.join().unwrap();
    Some((output.stdout, output.status.success()))
}

#[test]
fn the_command_line_programs_read_every_coding() {
    let mut scene = scene();
    let list = format!("[{}]", (1..=10).map(|id| item(&id.to_string())).collect::<Vec<_>>().join(",")).into_bytes();
    for (path, body) in [("/whole", rows()), ("/stream", rows()), ("/list", list)] {
        for (coding, program, arguments) in [
            ("gzip", "gzip", &["-t"][..]),
            ("gzip", "gzip", &["-dc"]),
            ("gzip", "python3", &["-c", PYTHON]),
            ("deflate", "python3", &["-c", PYTHON]),
            ("br", "brotli", &["-t"]),
            ("br", "brotli", &["-dc"]),
            ("zstd", "zstd", &["-tq"]),
            ("zstd", "zstd", &["-dcq"]),
        ] {
            let answer = scene.get(path, coding);
            assert_eq!(answer.coding(), coding, "{path}");
            let Some((text, well)) = run(program, arguments, answer.body.clone()) else { continue };
            assert!(well, "{path}: {program} {arguments:?} refuses {coding}");
            assert!(arguments[0].contains('t') || text == body, "{path}: {program} reads something else");
            let cut = answer.body[..answer.body.len() - 1].to_vec();
            let (_, well) = run(program, arguments, cut).unwrap();
            assert!(!well, "{path}: {program} {arguments:?} does not see that {coding} is cut");
        }
    }
}

#[test]
fn curl_reads_every_coding_that_it_knows() {
    let scene = scene();
    for coding in CODINGS {
        let url = format!("http://{}/stream", scene.gateway.address);
        let field = format!("accept-encoding: {coding}");
        let Some((text, well)) = run("curl", &["-sS", "--compressed", "-H", &field, &url], Vec::new()) else { return };
        // A curl without this coding says so, and reads nothing.
        assert!(text == rows() || (text.is_empty() && !well && matches!(coding, "br" | "zstd")), "{coding}");
    }
}
