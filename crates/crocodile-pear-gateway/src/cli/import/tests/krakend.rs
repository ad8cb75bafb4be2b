//! Configurations of KrakenD.

/// The `endpoints` of what is written for these; and what is reported.
fn written(endpoints: &str) -> (String, Vec<String>) {
    let text = format!(
        r#"{{"version": 3, "host": ["http://up:80"], "extra_config": {{"router": {{"disable_health": true, "disable_access_log": true}}}}, "endpoints": [{endpoints}]}}"#
    );
    let name = format!("{:?}.json", std::thread::current().id());
    let (document, told) = super::written(&name, &text, |path, _| crocodile_pear_import::krakend::import(path));
    (document.split_once("endpoints:\n").map(|(_, text)| text.to_owned()).unwrap_or_default(), told)
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
fn extra_config_of_the_wrong_type_is_reported_with_its_place() {
    for (endpoint, key) in [
        (r#"{"endpoint": "/a", "extra_config": [1], "backend": [{"url_pattern": "/b"}]}"#, "endpoints[0].extra_config"),
        (
            r#"{"endpoint": "/a", "backend": [{"url_pattern": "/b", "extra_config": "x"}]}"#,
            "endpoints[0].backend[0].extra_config",
        ),
        (
            r#"{"endpoint": "/a", "extra_config": {"proxy": 1}, "backend": [{"url_pattern": "/b"}]}"#,
            "endpoints[0].extra_config.proxy",
        ),
    ] {
        assert_eq!(written(endpoint).1, [key], "{endpoint}");
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
fn a_host_that_is_no_host_is_reported_with_its_place() {
    let (_, told) = written(r#"{"endpoint": "/a", "backend": [{"host": ["my host"], "url_pattern": "/b"}]}"#);
    assert_eq!(told, ["endpoints[0].backend[0].host"]);
}
