//! Inputs and what is written of them.

use std::path::Path;

use super::{json, make, read::Read};
use crate::cli::import::outcome::{Imported, Unreadable};
use crate::cli::import::report::Fate;
use crate::cli::import::write;
use crate::config::{Source, Sources};

fn import(text: &str) -> Result<Imported, Unreadable> {
    let source = || Source { path: "krakend.json".into(), text: text.to_owned() };
    let tree = json::read(text).map_err(|fault| Unreadable::new(source(), fault.span, fault.message, fault.remedy))?;
    make(Read {
        root: tree.root,
        repeated: tree.repeated,
        sources: Sources { files: vec![source()], ..Sources::default() },
    })
}

/// A file with these endpoints.
fn file(endpoints: &str) -> String {
    format!(
        r#"{{"version": 3, "host": ["http://up:80"], "extra_config": {{"router": {{"disable_health": true, "disable_access_log": true}}}}, "endpoints": [{endpoints}]}}"#
    )
}

/// The `endpoints` of what is written, which `check` calls good; and what is reported.
fn written(endpoints: &str) -> (String, Vec<String>) {
    let imported = import(&file(endpoints)).ok().expect("it is a configuration");
    let text = imported.configuration.document();
    let checked = write::check(Path::new("out.yaml"), &text);
    assert_eq!(checked.lines(), Vec::<String>::new(), "{text}");
    let told = imported
        .report
        .settings()
        .iter()
        .filter(|setting| setting.fate == Fate::Reported)
        .map(|setting| setting.key.clone())
        .collect();
    (text.split_once("endpoints:\n").map(|(_, text)| text.to_owned()).unwrap_or_default(), told)
}

#[test]
fn each_feature_of_an_endpoint_is_written_as_a_person_would() {
    for (endpoint, wanted) in [
        (r#"{"endpoint": "/a/{id}", "backend": [{"url_pattern": "/b/{id}"}]}"#, "  GET /a/{id}: up /b/{id}\n"),
        (
            r#"{"endpoint": "/a", "input_query_strings": ["q"], "backend": [{"url_pattern": "/b?x=1"}]}"#,
            "  GET /a: up /b?x=1&q={$query.q}\n",
        ),
        (
            r#"{"endpoint": "/a", "backend": [{"url_pattern": "/b", "allow": ["id", "name"], "mapping": {"id": "key"}, "group": "g"}]}"#,
            "  GET /a:\n    pipeline:\n      - request: up /b\n      - transform: 'with_entries(select(.key | IN(\"id\", \"name\"))) | if has(\"id\") then .key = .id | del(.id) else . end | {g: .}'\n",
        ),
        (
            r#"{"endpoint": "/a", "output_encoding": "json-collection", "backend": [{"url_pattern": "/b", "is_collection": true}]}"#,
            "  GET /a: up /b\n",
        ),
        (
            r#"{"endpoint": "/a", "backend": [{"url_pattern": "/b", "is_collection": true, "mapping": {"collection": "items"}}]}"#,
            "  GET /a:\n    pipeline:\n      - request: up /b\n      - transform: '{items: .}'\n",
        ),
        (
            r#"{"endpoint": "/a", "method": "POST", "timeout": "5s", "backend": [{"url_pattern": "/b", "method": "PUT"}]}"#,
            "  POST /a:\n    pipeline:\n      - request: { to: up, path: /b, method: PUT, body: client }\n",
        ),
        (
            r#"{"endpoint": "/a", "extra_config": {"proxy": {"sequential": true}}, "backend": [{"url_pattern": "/one"}, {"url_pattern": "/two/{resp0_a.b}"}]}"#,
            "  GET /a:\n    timeout: 2s\n    pipeline:\n      - requests:\n          one: { to: up, path: /one, otherwise: null }\n          two: { to: up, path: '/two/{$one.a.b}', otherwise: null, when: '$one != null' }\n      - merge: '[$one, $two] | map(objects) | add // error({status: 502, detail: \"no upstream answered\"})'\n",
        ),
    ] {
        assert_eq!(written(endpoint), (wanted.to_owned(), Vec::new()), "{endpoint}");
    }
}

#[test]
fn what_has_no_counterpart_is_reported_with_its_place() {
    let (_, told) = written(
        r#"{"endpoint": "/a", "backend": [{"url_pattern": "/b", "extra_config": {"modifier/lua-backend": {"pre": "x"}}}]}"#,
    );
    assert_eq!(told, ["endpoints[0].backend[0].extra_config.modifier/lua-backend"]);
}

#[test]
fn no_key_vanishes() {
    let text = file(
        r#"{"endpoint": "/a", "@comment": {"x": 1}, "whitelist": [], "backend": [{"url_pattern": "/b", "zzz": {"deep": [1]}, "extra_config": {"unknown": {"a": 1}, "qos/circuit-breaker": {"max_errors": 1, "other": 2}}}]}"#,
    );
    let imported = import(&text).ok().expect("it is a configuration");
    let fate = |key: &str| {
        let settings = imported.report.settings();
        settings.iter().find(|setting| setting.key == key).map(|setting| setting.fate)
    };
    assert_eq!(fate("endpoints[0].@comment"), Some(Fate::Ignored));
    assert_eq!(fate("endpoints[0].whitelist"), Some(Fate::Ignored));
    assert_eq!(fate("endpoints[0].backend[0].zzz"), Some(Fate::Ignored));
    assert_eq!(fate("endpoints[0].backend[0].extra_config.unknown"), Some(Fate::Reported));
    assert_eq!(fate("endpoints[0].backend[0].extra_config.qos/circuit-breaker.other"), Some(Fate::Ignored));
    assert_eq!(fate("endpoints[0].backend[0].extra_config.qos/circuit-breaker.max_errors"), Some(Fate::Imported));
}

#[test]
fn bad_input_is_refused_or_reported_with_its_place() {
    for (text, message) in [
        ("[]", "wanted a configuration"),
        ("{}", "no `version`"),
        (r#"{"version": 1}"#, "versions 2 and 3"),
        ("{", "a key in double quotes"),
    ] {
        let problems = import(text).err().map(|unreadable| unreadable.problems).unwrap_or_default();
        assert!(problems[0].message.contains(message), "{text}: {}", problems[0].message);
        assert_eq!(problems[0].span.line, 1);
    }
    let (_, told) = written(r#"{"endpoint": "/a", "backend": [{"host": ["my host"], "url_pattern": "/b"}]}"#);
    assert_eq!(told, ["endpoints[0].backend[0].host"]);
    let imported = import(r#"{"version": 3, "extra_config": 7, "endpoints": []}"#).ok().expect("it is a configuration");
    assert_eq!(imported.report.problems()[0].message, "found `7`, wanted a map");
}
