//! Which trace a request belongs to, which of them are sent, and what becomes of them when nobody takes them.

use std::net::SocketAddr;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;

use crate::stage::PATIENCE;
use crate::stage::absent::nobody;
use crate::stage::client::exchange;
use crate::stage::found as wait;
use crate::stage::gateway::Gateway;
use crate::stage::logs::{Folder, metric};
use crate::stage::scene::Client;
use crate::stage::shop::Asked;
use crate::traces::collector::{attribute, decode, hex, server, spans};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

struct Scene {
    gateway: Gateway,
    upstream: Receiver<Asked>,
    _folder: Folder,
}

impl Scene {
    /// A gateway with these traces, in front of an upstream that answers with these statuses.
    fn new(name: &str, collector: SocketAddr, traces: &str, statuses: &'static [u16]) -> Self {
        let (address, upstream) = server(statuses);
        let folder = Folder::new(&format!("traces-{name}"));
        let config = format!(
            "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nthreads: 1\ntraces: {{ to: 'http://{collector}', {traces} }}\n\
             log: {{ access: {{ format: '{{$trace}} {{$calls}} {{$slowest.server}}', to: FOLDER/access.log }} }}\n\
             upstreams:\n  shop: {{ url: 'http://{address}', retry: {{ attempts: 2 }}, forward: [traceparent, tracestate] }}\n\
             endpoints:\n  GET /items: shop /items?key=secret&page={{$query.page}}\n"
        );
        let config = config.replace("FOLDER", folder.path("").to_str().unwrap().trim_end_matches('/'));
        std::fs::write(folder.path("gateway.yaml"), config).unwrap();
        let gateway = Gateway::run(folder.path("gateway.yaml"));
        Scene { gateway, upstream, _folder: folder }
    }

    /// Asks with these header fields; what the upstream was told.
    fn ask(&self, fields: &str) -> (Option<String>, Option<String>) {
        let request = format!("GET /items?page=2 HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{fields}\r\n");
        exchange(self.gateway.address, request);
        let asked = self.upstream.recv_timeout(PATIENCE).unwrap();
        (asked.find("traceparent").map(str::to_owned), asked.find("tracestate").map(str::to_owned))
    }
}

#[test]
fn a_trace_goes_on_through_the_gateway() {
    let (collector, asked) = server(&[200]);
    let scene = Scene::new("goes-on", collector, "sample: 0", &[200]);
    let fields = format!("traceparent: 00-{TRACE}-b7ad6b7169203331-01\r\ntracestate: a=1\r\ntracestate: b=2\r\n");
    let (parent, state) = scene.ask(&fields);
    let parent = parent.unwrap();
    assert!(parent.starts_with(&format!("00-{TRACE}-")) && parent.ends_with("-01"), "{parent}");
    assert_eq!(state.as_deref(), Some("a=1,b=2"));
    let spans = spans(&asked, 3);
    let call = spans.iter().find(|span| span.kind == SpanKind::Client as i32).unwrap();
    assert_eq!(hex(&call.span_id), parent[36..52]);
    let url = attribute(call, "url.full").unwrap();
    assert!(url.ends_with("/items?key=REDACTED&page=REDACTED"), "{url}");
    let root = spans.iter().find(|span| span.kind == SpanKind::Server as i32).unwrap();
    assert_eq!((hex(&root.trace_id).as_str(), hex(&root.parent_span_id).as_str()), (TRACE, "b7ad6b7169203331"));
    assert_eq!((root.trace_state.as_str(), root.flags & 0x301), ("a=1,b=2", 0x301));
    let line = scene._folder.lines("access.log", 1).remove(0);
    let server = attribute(call, "server.address").unwrap();
    assert!(line.starts_with(&format!("{TRACE} 1 {server}:")), "{line}");
}

#[test]
fn what_is_malformed_or_of_nobody_that_is_trusted_begins_anew() {
    let (collector, _asked) = server(&[200]);
    let all = Scene::new("malformed", collector, "accept: all, sample: 0", &[200]);
    let trusted = Scene::new("untrusted", collector, "accept: trusted, sample: 0", &[200]);
    let good = format!("traceparent: 00-{TRACE}-b7ad6b7169203331-01\r\n");
    let anew = |scene: &Scene, fields: &str| {
        let (parent, state) = scene.ask(&format!("{fields}tracestate: a=1\r\n"));
        let parent = parent.unwrap();
        assert!(parent.len() == 55 && !parent.contains(TRACE) && parent.ends_with("-02"), "{fields}: {parent}");
        assert_eq!(state, None, "{fields}");
    };
    anew(&trusted, &good);
    for wrong in [
        format!("traceparent: ff-{TRACE}-b7ad6b7169203331-01\r\n"),
        format!("traceparent: 00-{TRACE}-0000000000000000-01\r\n"),
        format!("traceparent: 00-{}-b7ad6b7169203331-01\r\n", TRACE.to_uppercase()),
        format!("traceparent: 00-{TRACE}-b7ad6b7169203331-01-more\r\n"),
        good.repeat(2),
        String::new(),
    ] {
        anew(&all, &wrong);
    }
    let (parent, state) = all.ask(&format!("{good}tracestate: =1\r\n"));
    assert!(parent.unwrap().contains(TRACE) && state.is_none());
    let (parent, _) = all.ask(&format!("traceparent: cc-{TRACE}-b7ad6b7169203331-01-more\r\n"));
    assert!(parent.unwrap().starts_with(&format!("00-{TRACE}-")));
}

#[test]
fn failures_and_slow_requests_are_sent_in_any_case() {
    let (collector, asked) = server(&[200]);
    let scene = Scene::new("failures", collector, "sample: 0, slow: never", &[200, 503, 200, 500, 500]);
    let mut client = Client::connect(scene.gateway.address);
    let request = "GET /items HTTP/1.1\r\nhost: h\r\n\r\n";
    // The second is answered at the second attempt, and so is the third, with 500.
    assert_eq!([request; 3].map(|request| client.send(request).status), [200, 200, 500]);
    let spans = decode(&asked.recv_timeout(PATIENCE).unwrap());
    let root = spans.iter().find(|span| span.kind == SpanKind::Server as i32).unwrap();
    assert_eq!(attribute(root, "error.type").as_deref(), Some("500"));
    assert_eq!(root.status.as_ref().unwrap().code, 2);
    assert!(spans.iter().all(|span| span.trace_id == root.trace_id), "one request failed");
    let calls: Vec<_> = spans.iter().filter(|span| span.kind == SpanKind::Client as i32).collect();
    assert!(calls.iter().all(|call| attribute(call, "error.type").as_deref() == Some("500")), "{calls:#?}");

    let scene = Scene::new("slow", collector, "sample: 0, slow: 1ms", &[200]);
    // On a busy machine each is slow; on any, one of some is.
    wait(
        || {
            scene.ask("");
            asked.try_recv().ok()
        },
        || "no slow request".to_owned(),
    );
}

#[test]
fn a_collector_that_is_down_or_hangs_delays_nobody() {
    let (_held, nobody) = nobody().unwrap();
    let (hangs, _asked) = server(&[]);
    for (name, collector) in [("down", nobody), ("hangs", hangs)] {
        let scene = Scene::new(name, collector, "sample: 100%", &[200]);
        let mut client = Client::connect(scene.gateway.address);
        let begun = Instant::now();
        for _ in 0..2000 {
            assert_eq!(client.get("/items").status, 200);
        }
        // One that waited for the collector would take 10 s each.
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
        assert_eq!(metric(&scene.gateway, "crocodile_pear_trace_spans_sent_total"), 0.0);
    }
}

#[test]
fn a_batch_is_sent_again_and_one_that_is_refused_is_counted() {
    let (collector, asked) = server(&[503, 200, 400]);
    let scene = Scene::new("again", collector, "sample: 100%", &[200]);
    let _ = scene.ask("");
    let batches = [(); 2].map(|()| asked.recv_timeout(PATIENCE).unwrap().body);
    assert_eq!(batches[0], batches[1]);
    let count = |name: &str| metric(&scene.gateway, &format!("crocodile_pear_trace_spans_{name}_total"));
    wait(|| (count("sent") == 3.0).then_some(()), || scene.gateway.said());
    let _ = scene.ask("");
    wait(|| (count("dropped") == 3.0).then_some(()), || scene.gateway.said());
    scene.gateway.logged("*the collector does not take traces*400*").unwrap();
}

#[test]
fn the_end_sends_what_is_left() {
    let (collector, asked) = server(&[200]);
    let mut scene = Scene::new("end", collector, "sample: 100%, service: shop", &[200]);
    let _ = scene.ask("");
    scene.gateway.signal("TERM").unwrap();
    assert!(scene.gateway.ended().unwrap().success());
    let spans = spans(&asked, 3);
    assert_eq!(spans.len(), 3);
}
