//! The official suite, and bodies that were made to cost more than they weigh.

use std::collections::HashMap;
use std::path::Path;

use crocodile_pear_jq::Kind;
use jsonschema::{Draft, Retrieve, Uri};
use serde_json::Value as Json;
use serde_json::json;

use crate::compile::{SchemaError, compile, options};
use crate::rules::SchemaRules;

/// The files of the suite, at the address of its own server of schemas.
#[derive(Clone, Default)]
struct Remotes(HashMap<String, Json>);

impl Retrieve for Remotes {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Json, Box<dyn std::error::Error + Send + Sync>> {
        let known = uri.as_str().strip_prefix("http://localhost:1234/").and_then(|path| self.0.get(path));
        known.cloned().ok_or_else(|| format!("no {uri}").into())
    }
}

fn vectors(name: &str) -> Json {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/json-schema").join(name);
    serde_json::from_slice(&std::fs::read(path).expect("the suite")).expect("JSON")
}

fn rules(schema: &Json) -> SchemaRules {
    compile(schema, "file:///inline", Remotes::default()).expect("a schema")
}

/// Each case: the library's judgement stands wherever it is right.
#[test]
fn the_official_suite_passes_as_far_as_the_library_passes_it() {
    let remotes: HashMap<String, Json> = serde_json::from_value(vectors("remotes.json")).expect("a map");
    let remotes = Remotes(remotes);
    let (mut right, mut library, mut wrong) = (0, 0, Vec::new());
    let suite: serde_json::Map<String, Json> = serde_json::from_value(vectors("draft2020-12.json")).expect("a map");
    for (file, groups) in suite {
        for group in groups.as_array().expect("groups") {
            let schema = &group["schema"];
            let known = options(Draft::Draft202012)
                .with_retriever(remotes.clone())
                .with_base_uri("file:///inline")
                .build(schema);
            let own = compile(schema, "file:///inline", remotes.clone());
            for test in group["tests"].as_array().expect("tests") {
                let (data, wanted) = (&test["data"], test["valid"] == true);
                let known = known.as_ref().is_ok_and(|known| known.is_valid(data) == wanted);
                let own = own.as_ref().is_ok_and(|own| own.is_valid(data) == wanted);
                right += usize::from(own);
                library += usize::from(known);
                if known && !own {
                    wrong.push(format!("{file}: {}: {}", group["description"], test["description"]));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(right >= library && right > 1_850, "{right} of the cases, {library} by the library");
    println!("right: {right}, the library: {library}");
}

/// Documents that nest, and say it in each of the ways in which schemas choose.
#[test]
fn alternatives_of_a_recursive_schema_cost_no_more_for_each_level() {
    let deep = (0..100).fold(json!({ "x": 1 }), |inner, _| json!({ "and": [inner] }));
    let reference = json!({ "$ref": "#/$defs/filter" });
    let nested = json!({ "type": "object", "required": ["and"], "properties": { "and": { "type": "array", "items": reference } } });
    let number = json!({ "type": "object", "required": ["x"], "properties": { "x": { "type": "number" } } });
    let text = json!({ "type": "object", "required": ["x"], "properties": { "x": { "type": "string" } } });
    for (word, branches, valid) in [
        ("oneOf", json!([nested, number]), true),
        ("anyOf", json!([nested, number]), true),
        ("anyOf", json!([nested, nested, number]), true),
        ("oneOf", json!([nested, nested, number]), false),
        ("oneOf", json!([nested, nested, text]), false),
        ("anyOf", json!([nested, nested, text]), false),
        ("allOf", json!([{ "anyOf": [nested, number] }, { "anyOf": [number, nested] }]), true),
        (
            "oneOf",
            json!([{ "not": nested }, { "not": { "not": nested } }, { "not": { "not": { "not": number } } }]),
            false,
        ),
    ] {
        let schema = json!({ "$defs": { "filter": { word: branches } }, "$ref": "#/$defs/filter" });
        // On a core the budget is small: doubling would spend it at once.
        let told = rules(&schema).check(&deep).expect("within the budget of a core");
        assert_eq!(told.is_empty(), valid, "{word} {branches}: {told:?}");
        assert!(told.len() <= 100);
    }
}

#[test]
fn unevaluated_parts_cost_no_more_for_each_level() {
    let deep = (0..100).fold(json!({ "x": 1 }), |inner, _| json!({ "and": [inner] }));
    let schema = json!({
        "$defs": { "filter": {
            "anyOf": [
                { "properties": { "and": { "items": { "$ref": "#/$defs/filter" }, "unevaluatedItems": false } }, "required": ["and"] },
                { "properties": { "and": { "contains": { "$ref": "#/$defs/filter" }, "unevaluatedItems": false } }, "required": ["and"] },
                { "properties": { "x": true }, "required": ["x"] }
            ],
            "unevaluatedProperties": false
        } },
        "$ref": "#/$defs/filter"
    });
    assert!(rules(&schema).is_valid(&deep));
    let wrong = (0..100).fold(json!({ "x": 1, "y": 2 }), |inner, _| json!({ "and": [inner] }));
    assert!(!rules(&schema).is_valid(&wrong));
}

#[test]
fn a_schema_that_applies_itself_to_the_same_value_is_refused() {
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "anyOf": [{ "type": "null" }, { "$ref": "#" }] }),
        json!({ "$defs": { "a": { "not": { "$ref": "#/$defs/b" } }, "b": { "if": { "$ref": "#/$defs/a" } } }, "$ref": "#/$defs/a" }),
    ] {
        let fault = compile(&schema, "file:///inline", Remotes::default());
        assert!(matches!(fault, Err(SchemaError::Endless)), "{schema}");
    }
    // Each use is for a smaller value.
    assert!(
        rules(&json!({ "items": { "$ref": "#" }, "properties": { "a": { "$ref": "#" } } }))
            .is_valid(&json!([[{ "a": [] }]]))
    );
}

#[test]
fn violations_say_where_and_what() {
    let schema = json!({
        "properties": {
            "a/b": { "type": "integer" },
            "list": { "items": { "minimum": 2 }, "contains": { "const": 9 } },
            "one": { "oneOf": [{ "type": "string" }, { "minLength": 1 }] },
            "no": false
        },
        "required": ["name"],
        "additionalProperties": false
    });
    let told = rules(&schema)
        .check(&json!({ "a/b": "x", "list": [3, 1], "one": "x", "no": 1, "more": 1, "~": 2 }))
        .expect("a judgement");
    let told: Vec<(&str, &str)> = told.iter().map(|it| (&*it.pointer, &*it.detail)).collect();
    assert_eq!(
        told,
        [
            ("#", "\"name\" is a required property"),
            ("#/a~1b", "value is not of type \"integer\""),
            ("#/list/1", "value is less than the minimum of 2"),
            ("#/list", "None of value are valid under the given schema"),
            ("#/one", "value is valid under more than one of the schemas listed in the 'oneOf' keyword"),
            ("#/no", "False schema does not allow value"),
            ("#", "Additional properties are not allowed ('more', '~' were unexpected)"),
        ]
    );
}

/// Texts and numbers for which the library has no bound: they are refused before the work is done.
#[test]
fn no_value_costs_more_than_its_size() {
    let names: String = (0..8000).map(|number| format!("(?<a{number:x}>)")).collect();
    // Bits without a pattern.
    let digits: String = (0..64_000_u64)
        .map(|at| if (at * at).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 63 == 0 { '0' } else { '1' })
        .collect();
    let counted = "^(?:[01]*1[01]{300})*$";
    for (schema, body) in [
        (json!({ "format": "regex" }), json!(names)),
        (json!({ "pattern": counted }), json!(digits)),
        (json!({ "pattern": "\\b[01]{1,500}\\bx" }), json!(digits.replace("00", "\u{e4} "))),
        (json!({ "patternProperties": { counted: false } }), json!({ digits.clone(): 1 })),
        (json!({ "propertyNames": { "pattern": counted } }), json!({ digits: 1 })),
        (json!({ "items": { "multipleOf": 0.0001 } }), json!(vec![1.5e308; 100])),
        (json!({ "uniqueItems": true }), (0..8000).map(|number| json!([number])).collect()),
    ] {
        // On a core the budget is small.
        let judged = rules(&schema).check(&body);
        assert!(judged.is_err_and(|error| error.kind() == Kind::Expression), "{schema}");
    }
    for (schema, body) in [
        (json!({ "format": "regex" }), json!("^[a-z]+(?<name>x|y){3,50}$")),
        (json!({ "pattern": "^[\\w.]{1,64}@(?:\\w{1,63}\\.)+\\w{2,63}$" }), json!("someone@mail.example.org")),
        (json!({ "pattern": "^\\p{L}+$" }), json!("\u{e4}".repeat(1000))),
        (json!({ "pattern": "x$" }), json!("y".repeat(60_000) + "x")),
        (json!({ "items": { "multipleOf": 0.01 } }), json!(vec![19.99; 1000])),
        (json!({ "uniqueItems": true }), (0..1000).map(|number| json!(number)).collect()),
    ] {
        assert_eq!(rules(&schema).check(&body).expect("within the budget"), [], "{schema}");
    }
}
