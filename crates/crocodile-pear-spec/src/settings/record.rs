//! `spec!`: one declaration gives a struct, its decoder and its schema.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::decode::{Decode, Field};
use super::definitions::Definitions;
use super::node::{Located, Node, NodeKind};
use super::suggest::{self, suggest};
use crate::problem::{Problems, Span};

/// Declares a map with known keys.
///
/// A field of type `Option<_>` may be left out, and so may one with a default (`pub limit: u64 = 100`). All other
/// fields are required. `#[name = "as"]`, after the docs, sets a key that is not a Rust name; `r#as` is always written
/// `as`. `#[was = "old"]` after that is the former key of the field: a configuration that uses it gets a problem with
/// the new key. The docs become the descriptions in the schema and the remedies for missing fields. `group(name: Type)`
/// after the fields adds the fields of a [`Group`](crate::settings::Group), as if they were declared here. `list(field)`
/// lets the operator write a list instead of the map; the list becomes this field. `short(parse)` at the end accepts a
/// scalar too; `parse` is a `fn(Located<String>, &mut Problems) -> Option<Self>`.
///
/// ```
/// use crocodile_pear_spec::{problem::Problems, settings::{Decode, ExpressionSpec, Located, Node, only}, spec};
/// spec! {
///     /// Calls an upstream.
///     pub struct Call {
///         /// The upstream, by its name.
///         pub to: Located<String>,
///         /// At most this many calls.
///         pub limit: u64 = 100,
///         /// One call for each of these.
///         pub for_each: Option<ExpressionSpec>,
///         /// The name of the result.
///         #[name = "as"]
///         pub name: Option<String>,
///     }
///     short(named)
/// }
///
/// fn named(to: Located<String>, problems: &mut Problems) -> Option<Call> {
///     only([("to", to)], problems)
/// }
///
/// let mut problems = Problems::default();
/// let node = Node::from_json(&serde_json::json!({"to": "shop", "as": "orders"}));
/// let call = Call::decode(&node, &mut problems).expect("a whole call");
/// assert_eq!((call.limit, call.name.as_deref()), (100, Some("orders")));
/// ```
#[macro_export]
macro_rules! spec {
    (@name $field:ident) => { $crate::settings::plain(stringify!($field)) };
    (@name $field:ident $written:literal) => { $written };
    (@was) => { None };
    (@was $was:literal) => { Some($was) };
    (@read $fields:ident $problems:ident $name:expr, $ty:ty) => {
        $fields.read::<$ty>($name, $problems)
    };
    (@read $fields:ident $problems:ident $name:expr, $ty:ty, $default:expr) => {
        $fields.read_or::<$ty>($name, $problems, || $default)
    };
    (@optional $ty:ty) => { ($crate::settings::absent::<$ty>(), None) };
    (@optional $ty:ty, $default:expr) => {{
        let default: $ty = $default;
        (true, $crate::settings::Decode::written(&default))
    }};
    (@short $node:ident $problems:ident) => {};
    (@short $node:ident $problems:ident $short:path) => {
        if $node.lacks_space(&|key| Self::known().iter().any(|field| field.name == key), $problems) {
            return None;
        }
        if let Some(text) = $node.as_text() {
            return $short(text, $problems);
        }
        if $crate::settings::unquoted($node, &Self::known()) {
            <$crate::settings::ExpressionSpec as $crate::settings::Decode>::decode($node, $problems);
            return None;
        }
    };
    (
        $(#[doc = $doc:literal])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $field_doc:literal])*
                $(#[name = $written:literal])?
                $(#[was = $was:literal])?
                $field_vis:vis $field:ident : $ty:ty $(= $default:expr)?
            ),* $(,)?
        }
        $(group($group:ident: $group_ty:ty))?
        $(list($list:ident))?
        $(short($short:path))?
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug)]
        $vis struct $name {
            $( $(#[doc = $field_doc])* $field_vis $field: $ty, )*
            $( #[doc = "The fields that stand here, and are declared elsewhere."] pub $group: $group_ty, )?
        }

        impl $name {
            #[allow(unused_mut, reason = "a spec may have no group")]
            fn known() -> Vec<$crate::settings::Field> {
                let mut known = vec![
                    $( $crate::settings::Field {
                        name: $crate::spec!(@name $field $($written)?),
                        doc: concat!($($field_doc, "\n"),*),
                        was: $crate::spec!(@was $($was)?),
                    }, )*
                ];
                $( known.extend(<$group_ty as $crate::settings::Group>::known()); )?
                known
            }
        }

        impl $crate::settings::Decode for $name {
            fn decode(node: &$crate::settings::Node, problems: &mut $crate::problem::Problems) -> Option<Self> {
                $crate::spec!(@short node problems $($short)?);
                $( if node.as_list().is_some() {
                    let remedy = concat!("write `", stringify!($list), ":` above the list");
                    return node.wrong("a map", remedy, problems);
                } )?
                #[allow(unused_mut, reason = "a spec may have no fields")]
                let mut fields = $crate::settings::Fields::of(node, Self::known(), problems)?;
                $( let $field = $crate::spec!(
                    @read fields problems $crate::spec!(@name $field $($written)?), $ty $(, $default)?
                ); )*
                $( let $group = <$group_ty as $crate::settings::Group>::read(&mut fields, problems); )?
                fields.sound().then_some(())?;
                Some(Self { $( $field: $field?, )* $( $group: $group?, )? })
            }

            fn fields() -> Vec<$crate::settings::Field> {
                Self::known()
            }

            fn schema(definitions: &mut $crate::settings::Definitions) -> $crate::settings::Json {
                definitions.define(std::any::type_name::<Self>(), |definitions| {
                    #[allow(unused_mut, reason = "a spec may have no group")]
                    let mut properties = vec![
                        $( {
                            let (optional, default) = $crate::spec!(@optional $ty $(, $default)?);
                            $crate::settings::PropertySchema {
                                schema: <$ty as $crate::settings::Decode>::schema,
                                optional,
                                default,
                            }
                        }, )*
                    ];
                    $( properties.extend(<$group_ty as $crate::settings::Group>::properties()); )?
                    let short = false $(|| { let _ = $short; true })?;
                    let doc = concat!($($doc, "\n"),*);
                    $crate::settings::object(doc, &Self::known(), &properties, short, definitions)
                })
            }
        }
    };
}

/// Fields that are declared in one place and used in several specs.
pub trait Group: Sized {
    /// Its fields.
    fn known() -> Vec<Field>;

    /// Reads them. Records every problem, and returns `None` if there was an error.
    fn read(fields: &mut Fields<'_>, problems: &mut Problems) -> Option<Self>;

    /// Their schemas, in the same order.
    fn properties() -> Vec<PropertySchema>;
}

/// A spec with only these fields written, which is the meaning of its short form.
pub fn only<T: Decode, const N: usize>(fields: [(&str, Located<String>); N], problems: &mut Problems) -> Option<T> {
    let span = fields.first().map_or_else(Span::default, |(_, text)| text.span);
    let entry = |(name, text): (&str, Located<String>)| {
        let kind = NodeKind::Scalar { text: text.value, quoted: false, runs: text.runs };
        (Located::new(name.to_owned(), text.span), Node { span: text.span, kind })
    };
    let kind = NodeKind::Map(fields.into_iter().map(entry).collect());
    T::decode(&Node { span, kind }, problems)
}

/// Whether the node was meant as an expression but cannot be read as one: it is empty, a list, or a map without a known
/// field.
pub fn unquoted(node: &Node, known: &[Field]) -> bool {
    let named = |key: &str| known.iter().any(|field| field.name == key);
    let foreign = match &node.kind {
        NodeKind::Map(entries) => !entries.iter().any(|(key, _)| named(key.as_str())),
        NodeKind::List(_) | NodeKind::Null => true,
        NodeKind::Scalar { .. } => false,
    };
    named("jq") && foreign
}

/// Records that keys are beside the key that they belong under.
pub(crate) fn beside(outer: &Located<String>, inner: &[&Located<String>], problems: &mut Problems) {
    let Some(first) = inner.first() else { return };
    let names: Vec<&str> = inner.iter().map(|key| key.as_str()).collect();
    let remedy = format!("indent {} further than `{outer}`", list(&names));
    problems.error::<()>(first.span, format!("`{first}` is beside `{outer}`, not inside it"), remedy);
}

/// The schema of a field.
#[derive(Clone, Debug)]
pub struct PropertySchema {
    /// The schema of its type.
    pub schema: fn(&mut Definitions) -> Value,
    /// Whether it may be left out.
    pub optional: bool,
    /// Its default, as it would be written.
    pub default: Option<Value>,
}

/// Whether a field of this type may be left out.
pub fn absent<T: Decode>() -> bool {
    T::absent().is_some()
}

/// A Rust name as written in a configuration: `r#as` is `as`.
pub const fn plain(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}

/// A map with known keys while it is being read.
#[derive(Debug)]
pub struct Fields<'a> {
    entries: &'a [(Located<String>, Node)],
    known: Vec<Field>,
    /// The known fields that are not written.
    free: Vec<&'static str>,
    span: Span,
    /// Known fields that an unknown key was probably meant to be, or to be under. They get no further problems.
    meant: Vec<&'static str>,
    sound: bool,
}

impl<'a> Fields<'a> {
    /// The fields of a node that must be a map. Records every unknown key.
    pub fn of(node: &'a Node, known: Vec<Field>, problems: &mut Problems) -> Option<Self> {
        let names: Vec<_> = known.iter().map(|field| field.name).collect();
        let wanted = format!("a map with {}", list(&names));
        if let Some(remedy) = node.as_plain().and_then(|text| suggest::map_of(text, &names)) {
            return node.wrong("a map", remedy, problems);
        }
        let entries = node.expect_map(&wanted, problems)?;
        let written: HashSet<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
        let free = names.iter().copied().filter(|name| !written.contains(name)).collect();
        let mut fields = Self { entries, known, free, span: node.span, meant: Vec::new(), sound: true };
        let mut before: Option<usize> = None;
        for (at, (key, node)) in entries.iter().enumerate() {
            let text = node.as_text().map(|text| text.to_string());
            if names.contains(&key.as_str()) {
                before = Some(at);
            } else if let Some(remedy) = suggest::inside(key.as_str(), text.as_deref(), &names) {
                fields.elsewhere(key, remedy, problems);
            } else if fields.near(key).is_some()
                || !before.is_some_and(|outer| fields.stands_beside(outer, at, problems))
            {
                fields.unknown(key, &names, problems);
            }
        }
        Some(fields)
    }

    /// The field that an unknown key was probably meant to be.
    fn near(&self, key: &Located<String>) -> Option<&'static str> {
        suggest(key.as_str(), self.free.iter().copied())
    }

    /// Whether an unknown key belongs under the known key before it, which has no value. Records one problem for all
    /// such keys.
    fn stands_beside(&mut self, outer: usize, at: usize, problems: &mut Problems) -> bool {
        let (name, empty) = &self.entries[outer];
        if !matches!(empty.kind, NodeKind::Null) {
            return false;
        }
        let known = |key: &&Located<String>| self.known.iter().any(|field| field.name == key.value);
        if at == outer + 1 {
            let inner = self.entries[at..].iter().map(|(key, _)| key).take_while(|key| !known(key));
            beside(name, &inner.collect::<Vec<_>>(), problems);
        }
        self.sound = false;
        self.meant.extend(self.known.iter().map(|field| field.name).find(|field| *field == name.value));
        true
    }

    /// Records a key that belongs into another field.
    fn elsewhere(&mut self, key: &Located<String>, remedy: String, problems: &mut Problems) {
        self.sound = false;
        self.meant.extend(self.known.iter().map(|field| field.name));
        problems.error::<()>(key.span, format!("unknown field `{key}`"), remedy);
    }

    fn unknown(&mut self, key: &Located<String>, names: &[&'static str], problems: &mut Problems) {
        self.sound = false;
        if let Some(field) = self.known.iter().find(|field| field.was == Some(key.as_str())) {
            self.meant.push(field.name);
            let message = format!("`{key}` is called `{}` now", field.name);
            problems.error::<()>(key.span, message, format!("write `{}`", field.name));
            return;
        }
        if let Some(name) = names.iter().find(|name| key.lacks_space(&|key| key == **name, problems)) {
            return self.meant.push(name);
        }
        let near = self.near(key);
        self.meant.extend(near);
        let habit = suggest::habit(key.as_str()).filter(|_| near.is_none());
        if habit.is_some() {
            self.meant.extend(names);
        }
        let remedy = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None if habit.is_some() => habit.unwrap_or_default().to_owned(),
            None if names.is_empty() => "nothing can be set here".to_owned(),
            None => format!("known here: {}", list(names)),
        };
        problems.error::<()>(key.span, format!("unknown field `{key}`"), remedy);
    }

    /// A field. Records a missing field, unless its type has a value for that.
    pub fn read<T: Decode>(&mut self, name: &'static str, problems: &mut Problems) -> Option<T> {
        match self.find(name) {
            Some(node) if self.is_several(node, name, problems) || !self.is_written(node, name) => None,
            Some(node) => T::decode(node, problems),
            None => T::absent().or_else(|| {
                self.lack(name, problems);
                None
            }),
        }
    }

    /// A field, or its default if it is left out.
    pub fn read_or<T: Decode>(
        &mut self,
        name: &'static str,
        problems: &mut Problems,
        default: impl FnOnce() -> T,
    ) -> Option<T> {
        match self.find(name) {
            Some(node) if self.is_written(node, name) => T::decode(node, problems),
            Some(_) => None,
            None => Some(default()),
        }
    }

    /// Records a list that belongs into another field.
    fn is_several(&self, node: &Node, name: &str, problems: &mut Problems) -> bool {
        let names: Vec<_> = self.known.iter().map(|field| field.name).collect();
        let Some(other) = node.as_list().and_then(|_| suggest::several(name, &names)) else { return false };
        let remedy = format!("write `{other}` in place of `{name}`");
        problems.error::<()>(node.span, "found a list, wanted a text", remedy);
        true
    }

    /// Whether a field has a value, rather than keys beside it.
    fn is_written(&self, node: &Node, name: &str) -> bool {
        !matches!(node.kind, NodeKind::Null) || !self.meant.contains(&name)
    }

    /// Whether every key is known.
    pub fn sound(&self) -> bool {
        self.sound
    }

    fn find(&self, name: &str) -> Option<&'a Node> {
        self.entries.iter().find(|(key, _)| key.value == name).map(|(_, node)| node)
    }

    /// Records a missing field.
    fn lack(&self, name: &'static str, problems: &mut Problems) {
        if self.meant.contains(&name) {
            return;
        }
        let doc = self.known.iter().find(|field| field.name == name).map_or("", |field| field.doc);
        let sentence = text(doc);
        let sentence = sentence.split_inclusive(". ").next().unwrap_or_default().trim();
        problems.error::<()>(self.span, format!("missing field `{name}`"), format!("add `{name}`: {sentence}"));
    }
}

/// The schema of a map with known keys; `short` if a scalar is accepted too.
pub fn object(
    doc: &str,
    fields: &[Field],
    properties: &[PropertySchema],
    short: bool,
    definitions: &mut Definitions,
) -> Value {
    let mut known = Map::new();
    let mut required = Vec::new();
    for (field, PropertySchema { schema, optional, default }) in fields.iter().zip(properties) {
        let mut property = schema(definitions);
        describe(&mut property, field.doc);
        if let (Some(default), Some(property)) = (default, property.as_object_mut()) {
            property.insert("default".to_owned(), default.clone());
        }
        known.insert(field.name.to_owned(), property);
        if !optional {
            required.push(field.name);
        }
    }
    let mut object = json!({"type": "object", "properties": known, "additionalProperties": false});
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    if short {
        object = json!({"anyOf": [{"type": "string"}, object]});
    }
    describe(&mut object, doc);
    object
}

pub(super) fn describe(schema: &mut Value, doc: &str) {
    let doc = text(doc);
    if let Some(schema) = schema.as_object_mut().filter(|_| !doc.is_empty()) {
        schema.insert("description".to_owned(), doc.into());
    }
}

/// The docs without the indentation of doc comments.
fn text(doc: &str) -> String {
    let lines: Vec<_> = doc.lines().map(str::trim).collect();
    lines.join(" ").trim().to_owned()
}

/// "`a`, `b`".
pub(super) fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use crate::choice;
    use crate::problem::{ConfigProblem, Problems};
    use crate::settings::{
        Decode, Entries, ExpressionSpec, Field, Fields, Group, Located, Node, PropertySchema, Size, Timeout, only,
        schema,
    };

    choice! {
        /// In which order.
        enum Order {
            /// Items in the order of their arrival.
            Arrival = "arrival",
            /// Items in the order of their requests.
            Request = "request",
        }
    }

    spec! {
        /// Calls an upstream.
        struct Call {
            /// The upstream, by its name. It must be configured.
            to: Located<String>,
            /// At most this many calls.
            limit: u64 = 100,
            /// For each of these.
            for_each: Option<ExpressionSpec>,
            /// The name.
            r#as: Option<String>,
            /// The place.
            #[name = "in"]
            #[was = "within"]
            place: Order = Order::Arrival,
            wait: Timeout = Timeout::After(Duration::from_millis(1_500)),
            largest: Size = Size(64 << 10),
            inner: Option<Box<Call>>,
            others: Option<Entries<Vec<bool>>>,
        }
        short(named)
    }

    fn named(to: Located<String>, problems: &mut Problems) -> Option<Call> {
        only([("to", to)], problems)
    }

    fn read(value: &Value) -> Result<Call, Vec<(String, String)>> {
        let mut problems = Problems::default();
        let call = Call::decode(&Node::from_json(value), &mut problems);
        assert_eq!(call.is_none(), problems.fatal());
        call.ok_or_else(|| {
            let told = |problem: ConfigProblem| (problem.message, problem.remedy.unwrap_or_default());
            problems.into_sorted().into_iter().map(told).collect()
        })
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        let call = read(&json!({"to": "shop", "as": "x", "in": "request", "for_each": ".a"})).expect("sound");
        assert_eq!((call.to.as_str(), call.limit, call.r#as.as_deref()), ("shop", 100, Some("x")));
        assert_eq!(
            (call.place, call.largest, call.wait.duration()),
            (Order::Request, Size(65_536), Some(Duration::from_millis(1_500)))
        );
        assert_eq!(call.for_each.expect("written").0.as_str(), ".a");
        assert!(call.inner.is_none() && call.others.is_none());
    }

    #[test]
    fn a_scalar_is_the_short_form() {
        assert_eq!(read(&json!("shop")).expect("sound").to.as_str(), "shop");
    }

    #[test]
    fn every_problem_is_told_at_once() {
        let wrong = json!({
            "limti": 5, "limit": "7", "in": "arival", "wait": 5, "largest": "10M", "zzz": 1,
            "inner": {"for_each": {"a": 1}}, "others": {"a": [1, "true"], "b": 2},
        });
        let told = read(&wrong).expect_err("unsound");
        let messages: Vec<_> = told.iter().map(|(message, _)| message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "unknown field `limti`",
                "unknown field `zzz`",
                "missing field `to`",
                "found the text \"7\", wanted a whole number",
                "found the text \"arival\", wanted one of `arrival`, `request`",
                "found `5`, wanted a duration",
                "found the text \"10M\", wanted a size in bytes",
                "missing field `to`",
                "found a map, wanted a jq expression",
                "found `1`, wanted `true` or `false`",
                "found the text \"true\", wanted `true` or `false`",
                "found `2`, wanted a list",
            ]
        );
        assert_eq!(told[2].1, "add `to`: The upstream, by its name.");
        assert_eq!(told[3].1, "leave out the quotes: 7");
        assert_eq!(told[4].1, "did you mean `arrival`?");
        assert_eq!(told[5].1, "add the unit: `5s` or `5ms`");
        assert_eq!(told[11].1, "write a list: `[2]`");
    }

    #[test]
    fn a_misspelt_field_is_not_missing_as_well() {
        let told = read(&json!({"ot": "shop"})).expect_err("unsound");
        assert_eq!(told, [("unknown field `ot`".to_owned(), "did you mean `to`?".to_owned())]);
    }

    #[test]
    fn an_old_word_is_answered_with_the_new_one() {
        let told = read(&json!({"to": "shop", "within": "arrival"})).expect_err("unsound");
        assert_eq!(told, [("`within` is called `in` now".to_owned(), "write `in`".to_owned())]);
    }

    #[derive(Clone, Debug)]
    struct Limits {
        burst: Option<u64>,
    }

    impl Group for Limits {
        fn known() -> Vec<Field> {
            vec![Field::new("burst", "So many at once.")]
        }

        fn read(fields: &mut Fields<'_>, problems: &mut Problems) -> Option<Self> {
            fields.read("burst", problems).map(|burst| Limits { burst })
        }

        fn properties() -> Vec<PropertySchema> {
            vec![PropertySchema { schema: u64::schema, optional: true, default: Some(json!(1)) }]
        }
    }

    spec! {
        /// A limit.
        struct Limit {
            /// How many.
            rate: u64,
        }
        group(more: Limits)
    }

    #[test]
    fn the_fields_of_a_group_stand_among_the_others() {
        let read = |value: Value| {
            let mut problems = Problems::default();
            let limit = Limit::decode(&Node::from_json(&value), &mut problems);
            (limit.map(|limit| (limit.rate, limit.more.burst)), problems.into_sorted())
        };
        assert_eq!(read(json!({"rate": 2, "burst": 5})).0, Some((2, Some(5))));
        assert_eq!(read(json!({"rate": 2})).0, Some((2, None)));
        let (limit, problems) = read(json!({"rate": 2, "bursts": 5}));
        assert!(limit.is_none());
        assert_eq!(problems[0].remedy.as_deref(), Some("did you mean `burst`?"));
        let (limit, problems) = read(json!({"rate": 2, "burst": "many"}));
        assert!(limit.is_none());
        assert_eq!(problems[0].message, "found the text \"many\", wanted a whole number");
        let fields = &schema::<Limit>("Limits")["$defs"]["Limit"]["properties"];
        assert_eq!(
            (&fields["burst"]["description"], &fields["burst"]["default"]),
            (&json!("So many at once."), &json!(1))
        );
    }

    #[test]
    fn the_schema_says_what_the_decoder_does() {
        let schema = schema::<Call>("Calls");
        assert_eq!(schema["$ref"], "#/$defs/Call");
        let call = &schema["$defs"]["Call"];
        assert_eq!(call["description"], "Calls an upstream.");
        assert_eq!(call["anyOf"][0], json!({"type": "string"}));
        let object = &call["anyOf"][1];
        assert_eq!((&object["required"], &object["additionalProperties"]), (&json!(["to"]), &json!(false)));
        let fields = &object["properties"];
        assert_eq!(fields["limit"]["default"], 100);
        assert_eq!(fields["in"], json!({"$ref": "#/$defs/Order", "description": "The place.", "default": "arrival"}));
        assert_eq!(fields["wait"]["default"], "1s500ms");
        assert_eq!(fields["largest"]["default"], "64KiB");
        assert_eq!(fields["inner"], json!({"$ref": "#/$defs/Call"}));
        assert_eq!(
            schema["$defs"]["Order"]["anyOf"][0]["oneOf"][1],
            json!({"const": "request", "description": "Items in the order of their requests."})
        );
    }
}
