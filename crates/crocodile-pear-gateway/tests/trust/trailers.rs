//! Names of fields: what has two readings does not pass, and trailers pass as fields do.

use std::io::{BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;

use super::stage::PATIENCE;
use super::stage::client::Client;
use super::stage::gateway::Gateway;
use super::stage::shop::{self, Asked};

/// A gateway before an upstream that hands on each body as it came, with the trailers behind it.
fn scene(upstream: &str) -> (Gateway, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (notes, came) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut bytes = Vec::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while !bytes.ends_with(b"\r\n\r\n") || !bytes.windows(5).any(|window| window == b"\r\n0\r\n") {
                let mut byte = [0];
                if reader.read(&mut byte).unwrap() == 0 {
                    break;
                }
                bytes.push(byte[0]);
            }
            notes.send(String::from_utf8(bytes).unwrap()).unwrap();
            stream.write_all(&shop::answer(200, "connection: close\r\n", "fine")).unwrap();
        }
    });
    let config = format!(
        "listen: 127.0.0.1:0\nthreads: 1\n\
         upstreams: {{ shop: {{ url: 'http://{address}'{upstream} }} }}\n\
         endpoints: {{ POST /: shop / }}\n"
    );
    (Gateway::of(config), came)
}

const TRAILERS: [&str; 9] = [
    "x-sum: 9",
    "x-role: admin",
    "x_role: admin",
    "authorization: Bearer x",
    "cookie: session=x",
    "x-forwarded-for: 127.0.0.1",
    "x-ended: 1",
    "content-type: text/plain",
    "host: evil.test",
];

/// The names of the trailers that reach the upstream.
fn passed(upstream: &str) -> String {
    let (gateway, came) = scene(upstream);
    let mut client = Client::connect(gateway.address).unwrap();
    let trailers = TRAILERS.join("\r\n");
    let request = format!(
        "POST / HTTP/1.1\r\nhost: h\r\nconnection: x-ended\r\ntransfer-encoding: chunked\r\n\r\n\
         3\r\none\r\n0\r\n{trailers}\r\n\r\n"
    );
    // The body is still to come when the call begins: a body that is there whole has no trailers any more.
    let (head, body) = request.split_at(request.find("3\r\none").unwrap());
    client.ask("POST", head.as_bytes()).unwrap();
    client.send(body.as_bytes()).unwrap();
    assert_eq!(client.head().unwrap().status, 200);
    let came = came.recv_timeout(PATIENCE).unwrap();
    let (_, end) = came.split_once("\r\n0\r\n").unwrap();
    end.trim_end()
        .split("\r\n")
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name)
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn trailers_pass_by_the_rule_of_fields() {
    for (upstream, wanted) in [
        ("", ""),
        (", forward: all", "x-sum x-role"),
        (", forward: all, headers: { x-role: guest }", "x-sum"),
        (", forward: [x-sum]", "x-sum"),
        (", forward: [x_role, x-ended, cookie]", "x_role"),
    ] {
        assert_eq!(passed(upstream), wanted, "{upstream}");
    }
}

#[test]
fn a_name_with_two_readings_is_no_field_that_the_configuration_sets() {
    let (shop, arrived) = super::noting();
    let config = "upstreams: { shop: { url: 'http://${SHOP}', forward: all, headers: { x-role: guest } } }\n\
                  endpoints: { /: shop / }\n";
    let scene = super::Scene::new(config, &shop);
    let fields = "x_role: admin\r\nX_Forwarded_For: 127.0.0.1\r\nx.role: admin\r\nX-Real_IP: 127.0.0.1\r\n\
                  forwarded_: for=127.0.0.1\r\n_x-role: admin\r\nx-kept: 1\r\n";
    assert_eq!(super::get(&scene, "/", fields).head.status, 200);
    let head = arrived.lock().unwrap().concat();
    let asked = Asked::read(&mut head.as_bytes()).unwrap().unwrap();
    let names: Vec<&str> =
        asked.fields.iter().map(|(name, _)| name.as_str()).filter(|name| name.contains(['_', '.'])).collect();
    assert_eq!(names, [""; 0], "{head}");
    assert_eq!((asked.field("x-role"), asked.field("x-kept")), ("guest", "1"));
}
