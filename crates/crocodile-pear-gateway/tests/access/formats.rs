//! The formats of lines.

use crate::stage::client::exchange;
use crate::stage::logs::Folder;
use crate::stage::script::like;

/// Two requests that are told apart by everything, one that cannot be read, and one that nobody serves.
const REQUESTS: [&str; 4] = [
    "GET /hello/%22you%22?key=secret HTTP/1.1\r\nhost: h\r\nuser-agent: curl/8\r\nreferer: http://a/b\r\nconnection: close\r\n\r\n",
    "PUT /teapot HTTP/1.0\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}",
    "GET / HTTP/1.1\r\nhost: h\r\nhost: h\r\n\r\n",
    "GET /nowhere HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n",
];

/// The lines of those requests, in a file.
fn lines(name: &str, access: &str) -> Vec<String> {
    let folder = Folder::new(name);
    let gateway = folder.start(access);
    for (at, request) in REQUESTS.iter().enumerate() {
        exchange(gateway.address, request);
        // Cores write side by side: the next one asks when this line is there.
        folder.lines("access.log", at + 1);
    }
    folder.lines("access.log", REQUESTS.len())
}

/// `*` stands for a time or an id.
fn check(name: &str, access: &str, wanted: [&str; 4]) {
    let lines = lines(name, access);
    assert_eq!(lines.len(), wanted.len(), "{lines:#?}");
    for (line, wanted) in lines.iter().zip(wanted) {
        assert!(like(line, wanted), "\n{line}\n{wanted}");
    }
}

#[test]
fn common_is_as_the_ncsa_has_it() {
    let lines = [
        r#"127.0.0.1 - - [*:* +0000] "GET /hello/%22you%22 HTTP/1.1" 200 7"#,
        r#"127.0.0.1 - - [*:* +0000] "PUT /teapot HTTP/1.0" 418 5"#,
        r#"127.0.0.1 - - [*:* +0000] "-" 400 *"#,
        r#"127.0.0.1 - - [*:* +0000] "GET /nowhere HTTP/1.1" 404 *"#,
    ];
    check("common", "{ format: common, to: FOLDER/access.log }", lines);
}

#[test]
fn combined_has_referer_and_user_agent_and_the_query_if_it_is_wanted() {
    let lines = [
        r#"127.0.0.1 - - [*:* +0000] "GET /hello/%22you%22?key=secret HTTP/1.1" 200 7 "http://a/b" "curl/8""#,
        r#"127.0.0.1 - - [*:* +0000] "PUT /teapot HTTP/1.0" 418 5 "-" "-""#,
        r#"127.0.0.1 - - [*:* +0000] "-" 400 * "-" "-""#,
        r#"127.0.0.1 - - [*:* +0000] "GET /nowhere HTTP/1.1" 404 * "-" "-""#,
    ];
    check("combined", "{ format: combined, query: true, to: FOLDER/access.log }", lines);
}

#[test]
fn json_has_the_names_of_opentelemetry() {
    let head = r#"{"timestamp":"*Z","request.id":"*","client.address":"127.0.0.1","network.protocol.version":"#;
    let lines = [
        r#""1.1","url.scheme":"http","http.request.method":"GET","url.path":"/hello/%22you%22","http.route":"GET /hello/{name}","user_agent.original":"curl/8","http.response.status_code":200,"http.response.body.size":7,"duration":0.*,"first_byte":0.*,"upstream.calls":0,"ended":"whole"}"#,
        r#""1.0","url.scheme":"http","http.request.method":"PUT","url.path":"/teapot","http.route":"/teapot","http.response.status_code":418,"http.response.body.size":5,"duration":0.*,"first_byte":0.*,"upstream.calls":0,"ended":"whole"}"#,
        r#""1.1","url.scheme":"http","http.response.status_code":400,"http.response.body.size":*,"duration":0.*,"first_byte":0.*,"upstream.calls":0,"ended":"whole"}"#,
        r#""1.1","url.scheme":"http","http.request.method":"GET","url.path":"/nowhere","http.response.status_code":404,"http.response.body.size":*,"duration":0.*,"first_byte":0.*,"upstream.calls":0,"ended":"whole"}"#,
    ];
    let lines = lines.map(|line| format!("{head}{line}"));
    check("json", "{ format: json, to: FOLDER/access.log }", [&lines[0], &lines[1], &lines[2], &lines[3]]);
}

#[test]
fn text_is_as_the_log_has_it() {
    let head = r#"*Z  INFO crocodile_pear::access: id="*" protocol="HTTP/1."#;
    let lines = [
        r#"1" client=127.0.0.1 method="GET" path="/hello/%22you%22" route="GET /hello/{name}" status=200 bytes=7 head_ms=* total_ms=* calls=0 ended="whole""#,
        r#"0" client=127.0.0.1 method="PUT" path="/teapot" route="/teapot" status=418 bytes=5 head_ms=* total_ms=* calls=0 ended="whole""#,
        r#"1" client=127.0.0.1 status=400 bytes=* head_ms=* total_ms=* calls=0 ended="whole""#,
        r#"1" client=127.0.0.1 method="GET" path="/nowhere" status=404 bytes=* head_ms=* total_ms=* calls=0 ended="whole""#,
    ];
    let lines = lines.map(|line| format!("{head}{line}"));
    check("text", "{ to: FOLDER/access.log }", [&lines[0], &lines[1], &lines[2], &lines[3]]);
}

#[test]
fn a_template_has_what_its_expressions_give() {
    let template = "{$status} {$method} {$target} {$headers[\"user-agent\"]} {$client.address} {$user} {$bytes * 2} \
        {$duration < 1} {{r: $route, e: $ended}}";
    let lines = [
        r#"200 GET /hello/%22you%22 curl/8 127.0.0.1 - 14 true {"r":"GET /hello/{name}","e":"whole"}"#,
        r#"418 PUT /teapot - 127.0.0.1 - 10 true {"r":"/teapot","e":"whole"}"#,
        r#"400 - - - 127.0.0.1 - * true {"r":null,"e":"whole"}"#,
        r#"404 GET /nowhere - 127.0.0.1 - * true {"r":null,"e":"whole"}"#,
    ];
    check("template", &format!("{{ format: '{template}', to: FOLDER/access.log }}"), lines);
}

#[test]
fn a_condition_chooses_and_chance_takes_of_the_others() {
    let folder = Folder::new("when");
    let gateway = folder
        .start("{ format: '{$status}', to: FOLDER/access.log, when: '$status >= 400 or $duration > 1', sample: 0 }");
    REQUESTS.iter().for_each(|request| drop(exchange(gateway.address, request)));
    let mut lines = folder.lines("access.log", 3);
    lines.sort();
    assert_eq!(lines, ["400", "404", "418"]);
}

#[test]
fn no_client_can_forge_a_line() {
    let agent: Vec<u8> = (1..=u8::MAX).filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    let evil = |name: &str| [name.as_bytes(), b": x\" 200 1 \"-\" \"forged\\\" ", &agent, b"\r\n"].concat();
    let clean = |name: &str| [name.as_bytes(), b": x\" \\\" {}[]\xff\xfe\xc3\xa4\xe2\x80\xa8 \x80\t\r\n"].concat();
    let request = |path: &[u8], fields: Vec<u8>| {
        [b"GET ", path, b" HTTP/1.1\r\nhost: h\r\nconnection: close\r\n", &fields, b"\r\n"].concat()
    };
    let paths: [&[u8]; 7] =
        [b"/a%0a%0d%22", b"/\"\\", b"/a\x01b", b"/\xff\xfe", "/ä\u{2028}".as_bytes(), b"/[x]", b"/{$status}"];
    let mut requests: Vec<Vec<u8>> = paths.iter().map(|path| request(path, Vec::new())).collect();
    for name in ["user-agent", "referer", "authorization", "x-request-id"] {
        requests.extend([request(b"/", evil(name)), request(b"/", clean(name))]);
    }
    for format in ["common", "combined", "json", "text", "'{$target} \"{$headers[\"user-agent\"]}\" {$headers}'"] {
        let folder = Folder::new(&format!("forge-{}", format.len()));
        let gateway = folder.start(&format!("{{ format: {}, to: FOLDER/access.log }}", format.replace("\\", "")));
        requests.iter().for_each(|request| drop(exchange(gateway.address, request)));
        let lines = folder.lines("access.log", requests.len());
        assert_eq!(lines.len(), requests.len(), "{format}: {lines:#?}");
        for line in lines {
            assert!(!line.contains(|c: char| c.is_control()), "{format}: {line:?}");
            match format {
                "json" => drop(serde_json::from_str::<serde_json::Value>(&line).unwrap()),
                "common" => assert_eq!(line.matches('"').count(), 2, "{line}"),
                "combined" => assert_eq!(line.matches('"').count(), 6, "{line}"),
                _ => {}
            }
        }
    }
}
