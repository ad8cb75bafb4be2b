//! Inputs and what is written of them.

use std::cell::Cell;

use crocodile_pear_spec::problem::Problems;
use crocodile_pear_spec::yaml;

use super::{json, make, read::KrakendFile};
use crate::outcome::{Imported, Unreadable};
use crate::report::Fate;
use crocodile_pear_spec::document::{Source, Sources};

fn import(text: &str) -> Result<Imported, Unreadable> {
    let source = || Source { path: "krakend.json".into(), text: text.to_owned() };
    let tree = json::read(text).map_err(|fault| Unreadable::new(source(), fault.span, fault.message, fault.remedy))?;
    make(KrakendFile {
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

#[test]
fn concurrent_calls_are_attempts_of_one_call() {
    let endpoint = r#"{"endpoint": "/a", "concurrent_calls": 3, "backend": [{"host": ["http://a", "http://b"], "url_pattern": "/b"}]}"#;
    let imported = import(&file(endpoint)).ok().expect("it is a configuration");
    let text = imported.configuration.document();
    assert!(text.contains("retry: { attempts: 3 }"), "{text}");
    let remarked = imported.report.settings().into_iter().find(|setting| setting.fate == Fate::Remarked);
    assert_eq!(remarked.map(|setting| setting.key.as_str()), Some("endpoints[0].concurrent_calls"));
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
    let imported = import(r#"{"version": 3, "extra_config": 7, "endpoints": []}"#).ok().expect("it is a configuration");
    assert_eq!(imported.report.problems()[0].message, "found `7`, wanted a map");
}

/// Texts that would be more than a text: in YAML, in jq, in templates, in URLs, in the environment.
const HOSTILE: [&str; 26] = [
    "x\nadmin: 0.0.0.0:9\n",
    "x\r\nadmin: 0.0.0.0:9",
    "x\radmin: 0.0.0.0:9",
    "x\u{85}admin: 0.0.0.0:9",
    "x\u{2028}admin: 0.0.0.0:9",
    "x'\nadmin: 0.0.0.0:9 #",
    "x\"\n  GET /more: up /x\n",
    "x: y",
    "- x",
    "x, y: z}",
    "x }, admin: '0.0.0.0:9'",
    "x # y",
    "*x",
    "&x",
    "!!str x",
    "%YAML 1.1",
    "---\nadmin: 0.0.0.0:9",
    "${PATH}",
    "$${PATH}",
    "a\" | env | \"",
    "a\\\" | error(\"x\") | \"",
    "\\(env)",
    "{$headers.authorization}",
    "{env}",
    "}}{{.Env}}",
    "../../admin?x=\0\u{1b}[2J",
];

/// The first two levels of what is written, without what is said below them.
fn outline(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let level = |line: &str| line.len() - line.trim_start().len();
    let keys = lines.filter(|line| level(line) <= 2 && !line.trim().is_empty());
    let key = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
    keys.map(|line| if level(line) == 0 { key(line) } else { "  a key".to_owned() }).collect()
}

#[test]
fn no_text_of_an_imported_file_becomes_more_than_a_text() {
    let places = [
        r#"{"endpoint": "/a", "backend": [{"url_pattern": "/b", "group": TEXT}]}"#,
        r#"{"endpoint": "/a", "backend": [{"url_pattern": "/b", "target": TEXT}]}"#,
        r#"{"endpoint": "/a", "backend": [{"url_pattern": "/b", "allow": [TEXT]}]}"#,
        r#"{"endpoint": "/a", "backend": [{"url_pattern": "/b", "deny": ["x", TEXT]}]}"#,
        r#"{"endpoint": "/a", "backend": [{"url_pattern": "/b", "mapping": {TEXT: "b"}}]}"#,
        r#"{"endpoint": "/a", "backend": [{"url_pattern": "/b", "mapping": {"a": TEXT}}]}"#,
        r#"{"endpoint": "/a", "backend": [{"url_pattern": TEXT}]}"#,
        r#"{"endpoint": "/a", "backend": [{"url_pattern": "/b", "method": TEXT}]}"#,
        r#"{"endpoint": "/a", "backend": [{"url_pattern": "/b", "encoding": TEXT}]}"#,
        r#"{"endpoint": "/a", "backend": [{"url_pattern": "/b", "host": [TEXT]}]}"#,
        r#"{"endpoint": "/a", "backend": [{"url_pattern": "/b", "input_headers": [TEXT]}]}"#,
        r#"{"endpoint": "/a", "timeout": TEXT, "backend": [{"url_pattern": "/b"}]}"#,
        r#"{"endpoint": "/a", "input_headers": [TEXT], "backend": [{"url_pattern": "/b"}]}"#,
        r#"{"endpoint": "/a", "input_query_strings": [TEXT], "backend": [{"url_pattern": "/b"}]}"#,
        r#"{"endpoint": TEXT, "backend": [{"url_pattern": "/b"}]}"#,
        r#"{"endpoint": "/a", "method": TEXT, "backend": [{"url_pattern": "/b"}]}"#,
        r#"{"endpoint": "/a", "extra_config": {"proxy": {"static": {"strategy": "always", "data": {TEXT: TEXT}}}}, "backend": [{"url_pattern": "/b"}]}"#,
        r#"{"endpoint": "/a", "extra_config": {"proxy": {"flatmap_filter": [{"type": "move", "args": [TEXT, TEXT]}]}}, "backend": [{"url_pattern": "/b"}]}"#,
        r#"{"endpoint": "/a", "extra_config": {"auth/validator": {"alg": "RS256", "audience": [TEXT], "issuer": TEXT, "jwk_url": "https://id.test/keys", "roles_key": TEXT, "roles": [TEXT]}}, "backend": [{"url_pattern": "/b"}]}"#,
        r#"{"endpoint": "/a", "extra_config": {"qos/ratelimit/router": {"max_rate": 10, "client_max_rate": 5, "strategy": "header", "key": TEXT, "every": TEXT}}, "backend": [{"url_pattern": "/b"}]}"#,
        r#"{"endpoint": "/a", "extra_config": {"validation/cel": [{"check_expr": TEXT}]}, "backend": [{"url_pattern": "/b"}]}"#,
        r#"{"endpoint": "/a", "backend": [{"url_pattern": "/b", "extra_config": {"modifier/martian": {"header.Modifier": {"scope": ["request"], "name": TEXT, "value": TEXT}}}}]}"#,
        r#"{"endpoint": "/a", "backend": [{"url_pattern": "/b", "extra_config": {"auth/client-credentials": {"client_id": TEXT, "client_secret": TEXT, "token_url": TEXT, "scopes": TEXT}}}]}"#,
        r#"{"endpoint": "/a", TEXT: TEXT, "extra_config": {TEXT: {TEXT: TEXT}}, "backend": [{"url_pattern": "/b", TEXT: TEXT}]}"#,
    ];
    let (mut made, mut refused, mut failed) = (0, 0, Vec::new());
    for place in places {
        let text = |value: &str| place.replace("TEXT", &serde_json::Value::from(value).to_string());
        let known: Vec<Vec<String>> = ["x", "/x", "http://x.test"]
            .iter()
            .filter_map(|value| Some(outline(&import(&file(&text(value))).ok()?.configuration.document())))
            .collect();
        // An endpoint that is left out is reported.
        let empty = outline(&import(&file("")).ok().expect("it is a configuration").configuration.document());
        for value in HOSTILE {
            let Ok(imported) = import(&file(&text(value))) else {
                refused += 1;
                continue;
            };
            made += 1;
            let document = imported.configuration.document();
            let outline = outline(&document);
            let fits = known.iter().chain([&empty]).any(|known| {
                let mut tops = outline.iter().filter(|key| !key.starts_with(' '));
                outline.len() <= known.len() && tops.all(|key| known.contains(key))
            });
            // It is read as it was meant, and asks for no variable of the environment.
            let (mut problems, asked) = (Problems::default(), Cell::new(false));
            let variable = |_: &str| {
                asked.set(true);
                None::<String>
            };
            let read = yaml::read(0, &document, &variable, &mut problems).is_some_and(|_| !problems.fatal());
            if !fits || !read || asked.get() || document.contains(['\r', '\0', '\u{1b}', '\u{85}', '\u{2028}']) {
                failed.push(format!("{place} with {value:?}: {fits} {read} {asked:?}\n{document}"));
            }
        }
    }
    assert!(made > 600, "{made} imported, {refused} refused");
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), made + refused, failed.join("\n"));
}
