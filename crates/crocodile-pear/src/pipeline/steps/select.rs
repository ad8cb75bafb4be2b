//! `select`: the fields that are wanted, written in the shape that they shall have.

use std::sync::Arc;

use indexmap::IndexMap;

use crate::config::problem::Problems;
use crate::config::spec::{Decode, Definitions, ExpressionSpec, Json, Located, Node, NodeKind};
use crate::pipeline::step::reshape::Reshape;
use crate::pipeline::step::{About, Compile, MAX_BODY, ReadyStep, Spec};

/// A map in the shape of the output.
#[derive(Clone, Debug)]
pub struct Select(Located<SelectedFields>, Option<KeptFields>);

/// The two expressions of a shape, compiled before its place in the pipeline is known.
#[derive(Clone, Debug)]
struct KeptFields {
    one: ExpressionSpec,
    each: ExpressionSpec,
}

type SelectedFields = IndexMap<String, Selection>;

/// The value of a field.
#[derive(Clone, Debug)]
enum Selection {
    /// `true`: it is taken from where it stands.
    Same,
    /// `false`: it is left out of `'*'`.
    Left,
    /// An expression: it is taken from somewhere else.
    Of(ExpressionSpec),
    /// A map: an object of these.
    Object(SelectedFields),
}

impl Decode for Select {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        fields(node, problems).map(|fields| Select(Located::new(fields, node.span), None))
    }

    fn schema(definitions: &mut Definitions) -> Json {
        definitions.define("Select", |definitions| {
            let expression = ExpressionSpec::schema(definitions);
            serde_json::json!({
                "type": "object",
                "minProperties": 1,
                "additionalProperties": { "anyOf": [{"type": "boolean"}, expression, {"type": "object"}] },
                "description": "Keeps the fields that are wanted, written as a map in the shape of the output. `name: true` \
                    takes the field of the same name. `name: .other.path` takes another field, by an expression \
                    whose `.` is the item. `name: {...}` makes an object. `'name[]': {...}` makes one object for \
                    each item of the list `name`; inside it, `.` is that item. `'*': true` takes all other \
                    fields, and `name: false` then leaves one out. If the item is a list, this is done for each \
                    of its items. Paths and slices are taken from the bytes of the body without parsing it. The \
                    body is read whole, at most 16 MiB.",
            })
        })
    }
}

fn fields(node: &Node, problems: &mut Problems) -> Option<SelectedFields> {
    let entries = node.expect_map("a map in the shape of the output", problems)?;
    if entries.is_empty() {
        return problems.error(
            node.span,
            "`select` without a field",
            "write `name: true` for each field that is wanted",
        );
    }
    let mut read = Some(SelectedFields::new());
    for (key, inner) in entries {
        let wanted = wanted(key, inner, problems);
        read = match (read, wanted) {
            (Some(mut fields), Some(wanted)) => {
                fields.insert(key.value.clone(), wanted);
                Some(fields)
            }
            _ => None,
        };
    }
    let read = read?;
    let others = read.contains_key("*");
    let idle = |key: &str| !others && matches!(read.get(key), Some(Selection::Left));
    if let Some((key, _)) = entries.iter().find(|(key, _)| idle(&key.value)) {
        let remedy = "leave it out, or write `'*': true` for all the others";
        return problems.error(key.span, format!("`{}` is not taken anyway", key.value), remedy);
    }
    Some(read)
}

fn wanted(key: &Located<String>, node: &Node, problems: &mut Problems) -> Option<Selection> {
    let wanted = match (&node.kind, node.as_plain()) {
        (_, Some("true")) => Selection::Same,
        (_, Some("false")) => Selection::Left,
        (NodeKind::Map(_), _) => Selection::Object(fields(node, problems)?),
        _ => Selection::Of(ExpressionSpec::decode(node, problems)?),
    };
    match (key.as_str(), &wanted) {
        ("*", Selection::Same) | (_, Selection::Object(_)) => Some(wanted),
        ("*", _) => problems.error(node.span, "`'*'` stands for all other fields", "write `'*': true`"),
        (name, _) if name.ends_with("[]") => {
            let remedy = format!("write a map, as in `'{name}': {{ id: true }}`");
            problems.error(node.span, "`[]` makes an object for each item of a list", remedy)
        }
        _ => Some(wanted),
    }
}

impl Spec for Select {
    fn about(&self) -> About {
        About { replaces: true, ..About::default() }
    }

    fn compile(self, cx: &mut Compile<'_>) -> Option<Arc<dyn ReadyStep>> {
        let kept = self.1.or_else(|| {
            // Each by itself: its faults have their places then.
            let filters: Vec<_> = expressions(&self.0.value).into_iter().map(|each| cx.filter(each)).collect();
            let sound = filters.iter().all(Option::is_some);
            let (one, each) = sources(&self.0.value);
            let written = |source| ExpressionSpec::plain(Located::new(source, self.0.span));
            sound.then(|| KeptFields { one: written(one), each: written(each) })
        })?;
        let each = cx.apart(|cx| cx.filter(&kept.each))?;
        let one = cx.filter(&kept.one)?;
        let waits = "an item's body is read whole before its fields are taken";
        cx.explain(format!("select {}", names(&self.0.value)), Some(waits), 0);
        Some(Arc::new(Reshape::new("select", one, Some(each), MAX_BODY.bytes(), cx.flow.first)))
    }
}

impl Select {
    /// The same, compiled already: it costs little wherever it is used. `compile` makes an expression of its text.
    ///
    /// # Errors
    /// The first that `compile` gives.
    pub(crate) fn kept<E>(self, compile: impl Fn(&str) -> Result<ExpressionSpec, E>) -> Result<Self, E> {
        // Each by itself: brackets that close the object's own are not an expression.
        for expression in expressions(&self.0.value) {
            compile(&expression.0.value)?;
        }
        let (one, each) = sources(&self.0.value);
        let kept = KeptFields { one: compile(&one)?, each: compile(&each)? };
        Ok(Select(self.0, Some(kept)))
    }
}

fn names(fields: &SelectedFields) -> String {
    fields.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// The expressions that are written in it, at any depth.
fn expressions<'a>(fields: &'a SelectedFields) -> Vec<&'a ExpressionSpec> {
    let within = |wanted: &'a Selection| match wanted {
        Selection::Of(expression) => vec![expression],
        Selection::Object(inner) => expressions(inner),
        Selection::Same | Selection::Left => Vec::new(),
    };
    fields.values().flat_map(within).collect()
}

/// The expressions that make the object of an item, and of each item of a list.
fn sources(fields: &SelectedFields) -> (String, String) {
    let one = source(fields, "");
    let each = format!("map({one})");
    (one, each)
}

/// The expression that makes the object; `at` is the path of the same place in the item.
fn source(fields: &SelectedFields, at: &str) -> String {
    let mut entries = Vec::new();
    let mut left = Vec::new();
    for (name, wanted) in fields.iter().filter(|(name, _)| *name != "*") {
        let plain = name.strip_suffix("[]").unwrap_or(name);
        let key = Json::from(plain).to_string();
        let path = format!("{at}[{key}]");
        left.push(key.clone());
        match wanted {
            Selection::Left => {}
            Selection::Same => entries.push(format!("{key}: .{path}")),
            // Behind a comment, the bracket needs a line of its own.
            Selection::Of(expression) => entries.push(format!("{key}: ({}\n)", expression.0.value)),
            Selection::Object(inner) if plain == name => entries.push(format!("{key}: {}", source(inner, &path))),
            Selection::Object(inner) => entries.push(format!("{key}: (.{path} | map({}))", source(inner, ""))),
        }
    }
    let object = format!("{{{}}}", entries.join(", "));
    if !fields.contains_key("*") {
        return object;
    }
    let keys = left.iter().map(|key| format!(".[{key}]")).collect::<Vec<_>>();
    let whole = if at.is_empty() { ".".to_owned() } else { format!(".{at}") };
    match keys.is_empty() {
        true => whole,
        false => format!("(({whole} // {{}} | del({})) + {object})", keys.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::select::*;
    use crate::jq::Filter;

    fn written(map: &Json) -> Option<Select> {
        Select::decode(&Node::from_json(map), &mut Problems::default())
    }

    fn made(map: Json, input: Json) -> (String, bool) {
        let select = written(&map).expect("sound");
        let filter = Filter::compile(&source(&select.0.value, ""), &[]).expect("compiles");
        let raw = crate::json::Raw::check(&input.to_string().into()).expect("JSON");
        let outputs = filter.apply(raw.into(), &mut |_| crate::jq::null().into()).expect("fits");
        let mut out = Vec::new();
        outputs[0].write(&mut out).expect("written");
        (String::from_utf8(out).expect("UTF-8"), filter.is_native())
    }

    #[test]
    fn fields_stand_in_the_shape_that_is_written() {
        let input = serde_json::json!({"id": 1, "name": "a", "address": {"city": "Lund", "zip": 1},
            "lines": [{"sku": "x", "n": 2}, {"sku": "y"}], "dueOn": "2026-01-02T03"});
        let map = serde_json::json!({"id": true, "title": ".name", "due": ".dueOn[:10]", "address": {"city": true},
            "more": {"zip": ".address.zip"}, "lines[]": {"sku": true, "count": ".n"}});
        let expected = r#"{"id":1,"title":"a","due":"2026-01-02","address":{"city":"Lund"},"more":{"zip":1},"lines":[{"sku":"x","count":2},{"sku":"y","count":null}]}"#;
        assert_eq!(made(map, input), (expected.to_owned(), true));
    }

    #[test]
    fn all_other_fields_may_stay() {
        let input = serde_json::json!({"id": 1, "secret": 2, "in": {"a": 1, "b": 2}, "last": null});
        let map = serde_json::json!({"*": true, "secret": false, "in": {"*": true, "a": false}, "number": ".id"});
        assert_eq!(made(map, input).0, r#"{"id":1,"last":null,"in":{"b":2},"number":1}"#);
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for map in [
            serde_json::json!({}),
            serde_json::json!({"a": false}),
            serde_json::json!({"*": false}),
            serde_json::json!({"a[]": true}),
            serde_json::json!({"a": [1]}),
        ] {
            assert!(written(&map).is_none(), "{map}");
        }
    }
}
