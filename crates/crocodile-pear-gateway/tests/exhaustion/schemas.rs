//! JSON Schemas and bodies by chance, among them those that are made to cost much.

use serde_json::{Value as Json, json};

use super::stage::test_rng::TestRng;

/// Formats that take more than a look at each byte.
const FORMATS: [&str; 14] = [
    "regex",
    "uri",
    "uri-reference",
    "uri-template",
    "iri",
    "iri-reference",
    "email",
    "idn-email",
    "hostname",
    "idn-hostname",
    "ipv6",
    "json-pointer",
    "date-time",
    "duration",
];

/// Makes them. The same dice make the same ones.
pub struct Maker(pub TestRng);

impl Maker {
    fn name(&mut self) -> String {
        self.0.of(&["a", "b", "c", "items"]).to_owned()
    }

    /// A text of about so many bytes.
    fn text(&mut self, bytes: usize) -> String {
        match self.0.below(8) {
            0 => "x".repeat(bytes),
            4 => format!("xn--{}", "a9".repeat(bytes / 2)),
            5 => "a@".repeat(bytes / 2),
            6 => "::{+a}%c3/".repeat(bytes / 10),
            7 => format!("P{}", "1".repeat(bytes)),
            1 => (0..bytes).map(|_| if self.0.below(2) == 0 { '0' } else { '1' }).collect(),
            2 => (0..bytes / 8).map(|number| format!("(?<a{number:x}>)")).collect(),
            _ => "\u{e4} ".repeat(bytes / 3),
        }
    }

    /// A list of nested lists, no two of them the same.
    fn nests(&mut self, bytes: usize) -> Json {
        let mut nest = |_| {
            (0..12).fold(json!([]), |inner, _| if self.0.below(2) == 0 { json!([inner]) } else { json!([inner, []]) })
        };
        (0..bytes / 36).map(&mut nest).collect()
    }

    /// A schema that refers to itself wherever a smaller value is meant.
    fn part(&mut self, depth: usize) -> Json {
        let child = |maker: &mut Maker| match maker.0.below(3) {
            0 if depth > 0 => maker.part(depth - 1),
            _ => json!({ "$ref": format!("#/$defs/{}", maker.0.of(&["a", "b"])) }),
        };
        let several = |maker: &mut Maker| -> Vec<Json> {
            (0..1 + maker.0.below(3))
                .map(|_| if depth > 0 { maker.part(depth - 1) } else { json!({ "type": "integer" }) })
                .collect()
        };
        match self.0.below(14) {
            0 => json!({ "properties": { self.name(): child(self), self.name(): child(self) } }),
            1 => json!({ "items": child(self) }),
            2 => json!({ "anyOf": several(self) }),
            3 => json!({ "oneOf": several(self) }),
            4 => json!({ "allOf": several(self) }),
            5 => json!({ "not": { "items": child(self), "type": "array" } }),
            6 => json!({ "if": { "items": child(self) }, "then": { "uniqueItems": true }, "else": { "minItems": 1 } }),
            7 => json!({ "contains": child(self), "minContains": self.0.below(3) }),
            8 => json!({ "patternProperties": { "^[a-c]+$": child(self) }, "additionalProperties": child(self) }),
            9 => json!({ "anyOf": several(self), "unevaluatedProperties": child(self) }),
            10 => json!({ "anyOf": several(self), "unevaluatedItems": child(self) }),
            11 => match self.0.below(10) {
                5 => json!({ "format": self.0.of(&FORMATS) }),
                6 => json!({ "multipleOf": 0.0001 }),
                7 => json!({ "pattern": "^(?:[01]*1[01]{200})*$", "minLength": 2 }),
                8 => json!({ "uniqueItems": true }),
                0 => json!({ "type": ["array", "object", "integer"] }),
                1 => json!({ "type": "string" }),
                2 => json!({ "maxItems": self.0.below(4), "maxProperties": self.0.below(4) }),
                3 => json!({ "required": [self.name()] }),
                4 => json!({ "enum": [1, 2, [], "x", { "a": [1] }] }),
                _ => json!({ "maximum": 5, "pattern": "^x{1,100}$" }),
            },
            12 => json!({ "propertyNames": { "pattern": "(a|b|c)*items?" }, "additionalProperties": child(self) }),
            _ => json!({ "prefixItems": [child(self), child(self)], "items": child(self), "uniqueItems": true }),
        }
    }

    /// A value of about so many bytes, which nests and is wide by chance.
    fn value(&mut self, bytes: usize, depth: usize) -> Json {
        if bytes < 8 || depth == 0 {
            let bytes = bytes.min(1 << 20);
            return match self.0.below(6) {
                0 => json!(self.0.below(10)),
                1 => json!(1.5e308),
                2 => json!(u64::MAX - self.0.number(1000)),
                3 => json!(self.text(bytes)),
                4 => self.nests(bytes),
                _ => json!([]),
            };
        }
        let parts = match self.0.below(3) {
            0 => 1,
            1 => 2,
            _ => 1 + self.0.below(bytes / 8),
        };
        match self.0.below(2) {
            0 => (0..parts).map(|_| self.value((bytes / parts).saturating_sub(2), depth - 1)).collect(),
            _ => {
                let fields = (0..parts.min(1000)).map(|at| {
                    (
                        if at < 3 { self.name() } else { format!("a{at}") },
                        self.value((bytes / parts).saturating_sub(6), depth - 1),
                    )
                });
                Json::Object(fields.collect())
            }
        }
    }
}

/// Texts that take more memory as values than others do, or more time.
const UNITS: [&str; 22] = [
    "[]",
    "{}",
    "\"\"",
    "0",
    "[0]",
    "[[]]",
    "[[[[[[[[0]]]]]]]]",
    "[0,0,0,0,0]",
    "{\"\":0}",
    "{\"a\":{\"b\":{\"c\":{}}}}",
    "{\"a\":[{\"b\":[{\"c\":[]}]}]}",
    "{\"a\":0,\"b\":0,\"c\":0,\"d\":0,\"e\":0}",
    "\"a\"",
    "\"aaaaaaaaaaaaaaaaaaaaaaa\"",
    "\"\\u00e4\\ud83d\\ude00\"",
    "1e308",
    "1e-320",
    "0.1",
    "0.30000000000000004",
    "123456789012345678901234567890",
    "18446744073709551615",
    "true",
];

impl Maker {
    /// A whole schema.
    pub fn schema(&mut self) -> Json {
        json!({
            "$defs": { "a": self.part(3), "b": self.part(3) },
            "anyOf": [{ "$ref": "#/$defs/a" }, { "$ref": "#/$defs/b" }],
            "oneOf": [{ "$ref": "#/$defs/b" }, { "items": { "$ref": "#/$defs/a" } }]
        })
    }

    /// A body of about so many bytes: half of them with a shape by chance, half with one small value again and again.
    pub fn body(&mut self, bytes: usize) -> Vec<u8> {
        let unit = self.0.of(&UNITS);
        match self.0.below(6) {
            0 => [b"[", repeated(unit, bytes).as_bytes(), b"]"].concat(),
            1 => {
                let fields = (0..bytes / (unit.len() + 8)).map(|at| format!("\"{at:x}\":{unit}"));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(",")).into_bytes()
            }
            2 => {
                // As deep as a body may be, over and over.
                let (open, close) = if self.0.below(2) == 0 { ("[", "]") } else { ("{\"a\":", "}") };
                let deep = format!("{}{unit}{}", open.repeat(100), close.repeat(100));
                format!("[{}]", repeated(&deep, bytes)).into_bytes()
            }
            _ => serde_json::to_vec(&self.value(bytes, 60)).unwrap(),
        }
    }
}

/// This value over and over, up to so many bytes.
fn repeated(value: &str, bytes: usize) -> String {
    vec![value; (bytes / (value.len() + 1)).max(1)].join(",")
}
