//! gRPC-Web in a browser, by the library that people use there: binary and text, single answers, streams and failures.

use std::path::PathBuf;
use std::process::Command;
use std::sync::PoisonError;

use bytes::Bytes;
use h2::server::Builder;
use http::{HeaderMap, Response};
use serde_json::json;

use crate::clients::programs::BROWSER;
use crate::page::browser::Browser;
use crate::stage::gateway::Gateway;
use crate::stage::http2::{Asked, converse};
use crate::stage::scratch;
use crate::stage::served::Served;

/// The library of npm, in the one file that it consists of.
fn library() -> Option<PathBuf> {
    let folder = scratch("clients-npm");
    let file = folder.join("node_modules/grpc-web/index.js");
    if !file.is_file() {
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(&folder).arg("grpc-web@2.1.1");
        npm.output().ok()?;
    }
    file.is_file().then_some(file)
}

fn message(text: &[u8]) -> Bytes {
    let length = u32::try_from(text.len()).unwrap().to_be_bytes();
    [&[0], &length[..], text].concat().into()
}

/// `echo` says what it was told and by whom, `three` says it three times, `fail` fails behind one message, `refuse` at once.
async fn answer((request, mut respond): Asked) -> Option<()> {
    let (head, mut body) = request.into_parts();
    let mut told = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.ok()?;
        body.flow_control().release_capacity(data.len()).ok()?;
        told.extend(data);
    }
    let text = told.get(5..).unwrap_or_default();
    let status = |code: &'static str, words: &'static str| {
        let mut fields = HeaderMap::new();
        fields.insert("grpc-status", code.parse().unwrap());
        fields.insert("grpc-message", words.parse().unwrap());
        fields.insert("x-last", "trailer".parse().unwrap());
        fields
    };
    let mut reply = Response::builder().header("content-type", "application/grpc").body(()).ok()?;
    let method = head.uri.path().rsplit('/').next().unwrap_or_default();
    if method == "refuse" {
        reply.headers_mut().extend(status("7", "not%20you"));
        return respond.send_response(reply, true).map(drop).ok();
    }
    let mut send = respond.send_response(reply, false).ok()?;
    let said = [text, b" for ", head.headers.get("x-user").map_or(&b"nobody"[..], |user| user.as_bytes())].concat();
    for _ in 0..if method == "three" { 3 } else { 1 } {
        send.send_data(message(&said), false).ok()?;
    }
    let last = if method == "fail" { status("9", "no%20more") } else { status("0", "") };
    send.send_trailers(last).ok()
}

/// Calls a method, and gathers what comes.
const PROGRAM: &str = r"
async (format, kind, method) => {
  const { GrpcWebClientBase, MethodDescriptor } = window.grpc;
  const encode = (text) => new TextEncoder().encode(text);
  const decode = (bytes) => new TextDecoder().decode(bytes);
  const path = `${location.origin}/s.S/${method}`;
  const descriptor = new MethodDescriptor(path, kind, String, String, encode, decode);
  const client = new GrpcWebClientBase({ format });
  const fields = { 'x-user': 'ada' };
  const told = { data: [] };
  await new Promise((done) => {
    if (kind === 'unary') {
      // The status may come before the message, in another turn of the page.
      const whole = () => { if (told.error || (told.data.length && told.status)) done(); };
      const call = client.rpcCall(path, 'hello', fields, descriptor, (error, data) => {
        if (error) told.error = [error.code, error.message]; else told.data.push(data);
        whole();
      });
      call.on('status', (status) => { told.status = [status.code, status.metadata['x-last']]; whole(); });
      return;
    }
    const call = client.serverStreaming(path, 'hello', fields, descriptor);
    call.on('data', (data) => told.data.push(data));
    call.on('status', (status) => { told.status = [status.code, status.metadata['x-last']]; });
    call.on('error', (error) => { told.error = [error.code, error.message]; done(); });
    call.on('end', () => done());
  });
  return told;
}";

#[test]
fn a_browser_calls_grpc_in_binary_and_in_text() {
    let Some(library) = library() else {
        println!("skipped: install npm to run this test");
        return;
    };
    let served = Served::begin(|stream| converse(stream, Builder::new(), answer));
    let config = format!(
        "listen: 127.0.0.1:0\nthreads: 1\ngrpc_web: on\nupstreams:\n  s: {{ url: 'http://{}', protocol: http2, forward: all }}\n\
         endpoints:\n  'POST /s.S/{{method}}': s /s.S/{{method}}\n  GET /page: {{ pipeline: [ respond: {{ body: '\"page\"' }} ] }}\n",
        served.address
    );
    let gateway = Gateway::of(config);
    let _turn = BROWSER.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let Some(mut browser) = Browser::start("grpc-web").await else { return };
        let base = format!("http://{}", gateway.address);
        browser.open(&format!("{base}/page")).await;
        browser.until(&format!("location.href.startsWith('{base}') && document.readyState === 'complete'")).await;
        let code = std::fs::read_to_string(library).unwrap();
        let code = format!(
            "(() => {{ const exports = {{}}, module = {{ exports }};\n{code}\nwindow.grpc = module.exports; }})(), true"
        );
        browser.value(&code).await;
        for format in ["binary", "text"] {
            for (kind, method, wanted) in [
                ("unary", "echo", json!({ "data": ["hello for ada"], "status": [0, "trailer"] })),
                ("unary", "refuse", json!({ "data": [], "error": [7, "not you"] })),
                (
                    "server_streaming",
                    "three",
                    json!({ "data": ["hello for ada", "hello for ada", "hello for ada"], "status": [0, "trailer"] }),
                ),
                ("server_streaming", "fail", json!({ "data": ["hello for ada"], "error": [9, "no more"] })),
                ("server_streaming", "refuse", json!({ "data": [], "error": [7, "not you"] })),
            ] {
                let mut told = browser.value(&format!("({PROGRAM})('{format}', '{kind}', '{method}')")).await;
                if wanted["error"].is_array() {
                    told.as_object_mut().unwrap().remove("status");
                }
                assert_eq!(told, wanted, "{format} {kind} {method}");
            }
        }
    });
}
