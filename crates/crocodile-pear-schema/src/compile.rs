//! From a JSON Schema to rules: each subschema once, references resolved.

use std::collections::HashMap;
use std::fmt;

use jsonschema::{Draft, PatternOptions, Registry, Retrieve, ValidationOptions, Validator};
use referencing::Resolver;
use serde_json::Value as Json;
use serde_json::{Map, json};

use crate::pattern::Pattern;
use crate::rules::{Conditional, Contains, Dear, LeafValidator, RuleId, SchemaRule, SchemaRules};

/// Why a schema has no rules.
#[derive(Debug)]
pub enum SchemaError {
    /// A reference leads nowhere.
    Reference(String),
    /// A keyword is not as it should be.
    Keyword(String),
    /// The schema says something that a schema may not say.
    Schema {
        /// The reason.
        detail: String,
        /// The place in the schema, as a JSON pointer.
        pointer: String,
    },
    /// A schema applies itself to the same value without end.
    Endless,
    /// There are too many rules.
    Large,
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reference(detail) => write!(f, "a `$ref` of the schema leads nowhere: {detail}"),
            Self::Keyword(detail) | Self::Schema { detail, .. } => write!(f, "this is not a JSON Schema: {detail}"),
            Self::Endless => f.write_str("a schema applies itself to the same value without end"),
            Self::Large => f.write_str("the schema is too large: it has more than 100,000 subschemas"),
        }
    }
}

impl std::error::Error for SchemaError {}

/// The most rules of a schema.
const RULES: usize = 100_000;

/// The keywords that apply other schemas. All others are checked by the library, one value at a time.
const APPLICATORS: [&str; 26] = [
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependencies",
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "prefixItems",
    "items",
    "additionalItems",
    "contains",
    "minContains",
    "maxContains",
    "unevaluatedItems",
    "unevaluatedProperties",
    "$defs",
    "definitions",
];

/// The keywords whose work the library does not bound, which are done here.
const OWN: [&str; 2] = ["pattern", "uniqueItems"];

/// The keywords of no rule: names, addresses and words for people.
const WORDS: [&str; 13] = [
    "$id",
    "id",
    "$schema",
    "$anchor",
    "$dynamicAnchor",
    "$recursiveAnchor",
    "$vocabulary",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
];

/// The settings of the library for each schema.
pub fn options(draft: Draft) -> ValidationOptions<'static> {
    jsonschema::options()
        .with_draft(draft)
        .should_validate_formats(true)
        // This engine takes linear time in the length of the text, so no pattern can be an attack.
        .with_pattern_options(PatternOptions::regex())
}

/// Compiles a schema at this address; `files` has what its references lead to.
///
/// # Errors
/// The first fault.
pub fn compile(schema: &Json, base: &str, files: impl Retrieve + 'static) -> Result<SchemaRules, SchemaError> {
    let reference = |error: referencing::Error| SchemaError::Reference(error.to_string());
    let registry = Registry::new().draft(Draft::Draft202012).retriever(files);
    let registry = registry.add(base, schema).and_then(jsonschema::RegistryBuilder::prepare).map_err(reference)?;
    let address = jsonschema::uri::from_str(base).map_err(reference)?;
    let resolver = registry.resolver(address);
    let mut compiling = Compiling { rules: Vec::new(), known: HashMap::new() };
    let draft = Draft::Draft202012;
    let resolver = resolver.in_subresource(draft.create_resource_ref(schema)).map_err(reference)?;
    let root = compiling.rule(schema, &resolver, draft)?;
    let mut rules: Vec<SchemaRule> = compiling.rules.into_iter().map(Option::unwrap_or_default).collect();
    if endless(&rules) {
        return Err(SchemaError::Endless);
    }
    // With them a value is looked at once to be judged, and once more for what was judged.
    if rules.iter().any(|rule| rule.unevaluated_items.is_some() || rule.unevaluated_properties.is_some()) {
        rules.iter_mut().for_each(|rule| rule.repeats = true);
    }
    Ok(SchemaRules::new(rules, root))
}

struct Compiling {
    rules: Vec<Option<SchemaRule>>,
    /// A schema is the same rule where its references lead to the same places.
    known: HashMap<(*const Json, String), RuleId>,
}

impl Compiling {
    fn rule(&mut self, schema: &Json, resolver: &Resolver<'_>, draft: Draft) -> Result<RuleId, SchemaError> {
        let key = (std::ptr::from_ref(schema), place(resolver));
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        let id = self.rules.len();
        if id == RULES {
            return Err(SchemaError::Large);
        }
        self.rules.push(None);
        self.known.insert(key, id);
        let rule = match schema {
            Json::Object(fields) => self.fields(fields, resolver, draft)?,
            Json::Bool(false) => SchemaRule { refuses: true, ..SchemaRule::default() },
            _ => SchemaRule::default(),
        };
        // A reference may have marked it meanwhile.
        let repeats = self.rules[id].take().is_some_and(|rule| rule.repeats);
        self.rules[id] = Some(SchemaRule { repeats: repeats || rule.repeats, ..rule });
        Ok(id)
    }

    fn sub(&mut self, schema: &Json, resolver: &Resolver<'_>, draft: Draft) -> Result<RuleId, SchemaError> {
        let draft = draft.detect(schema);
        let within = resolver.in_subresource(draft.create_resource_ref(schema));
        self.rule(schema, &within.map_err(|error| SchemaError::Reference(error.to_string()))?, draft)
    }

    fn list(&mut self, list: &[Json], resolver: &Resolver<'_>, draft: Draft) -> Result<Vec<RuleId>, SchemaError> {
        list.iter().map(|schema| self.sub(schema, resolver, draft)).collect()
    }

    fn map(
        &mut self,
        fields: Option<&Json>,
        resolver: &Resolver<'_>,
        draft: Draft,
    ) -> Result<Vec<(String, RuleId)>, SchemaError> {
        let fields = fields.and_then(Json::as_object).into_iter().flatten();
        fields.map(|(name, schema)| Ok((name.clone(), self.sub(schema, resolver, draft)?))).collect()
    }

    fn fields(
        &mut self,
        fields: &Map<String, Json>,
        resolver: &Resolver<'_>,
        draft: Draft,
    ) -> Result<SchemaRule, SchemaError> {
        let mut rule = SchemaRule::default();
        for (name, lookup) in
            [("$ref", Lookup::Plain), ("$dynamicRef", Lookup::Plain), ("$recursiveRef", Lookup::Recursive)]
        {
            if let Some(reference) = fields.get(name).and_then(Json::as_str) {
                rule.all.push(self.reference(reference, lookup, resolver)?);
                // In drafts up to 7, other keywords beside a reference have no meaning.
                if matches!(draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7) {
                    return Ok(rule);
                }
            }
        }
        let one =
            |this: &mut Self, name: &str| fields.get(name).map(|schema| this.sub(schema, resolver, draft)).transpose();
        let several = |this: &mut Self, name: &str| {
            fields.get(name).and_then(Json::as_array).map(|list| this.list(list, resolver, draft)).transpose()
        };
        rule.all.extend(several(self, "allOf")?.unwrap_or_default());
        rule.any = several(self, "anyOf")?;
        rule.one = several(self, "oneOf")?;
        rule.not = match fields.get("not") {
            Some(schema) => Some((self.sub(schema, resolver, draft)?, schema.to_string().chars().take(200).collect())),
            None => None,
        };
        if let Some(condition) = one(self, "if")? {
            let (then, otherwise) = (one(self, "then")?, one(self, "else")?);
            rule.conditional = Some(Conditional { condition, then, otherwise });
        }
        rule.dependents = self.map(fields.get("dependentSchemas"), resolver, draft)?;
        rule.properties = self.map(fields.get("properties"), resolver, draft)?.into_iter().collect();
        for (pattern, id) in self.map(fields.get("patternProperties"), resolver, draft)? {
            rule.patterns.push((Pattern::compile(&pattern).map_err(SchemaError::Keyword)?, id));
        }
        rule.additional = one(self, "additionalProperties")?;
        rule.names = one(self, "propertyNames")?;
        if !matches!(draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7 | Draft::Draft201909) {
            rule.prefix = several(self, "prefixItems")?.unwrap_or_default();
        }
        match fields.get("items") {
            Some(Json::Array(list)) => {
                rule.prefix = self.list(list, resolver, draft)?;
                rule.items = one(self, "additionalItems")?;
            }
            Some(_) => rule.items = one(self, "items")?,
            None => {}
        }
        if let Some(contained) = one(self, "contains")? {
            let bound = |name: &str| fields.get(name).and_then(Json::as_f64);
            rule.contains = Some(Contains { rule: contained, least: bound("minContains"), most: bound("maxContains") });
        }
        rule.unevaluated_items = one(self, "unevaluatedItems")?;
        rule.unevaluated_properties = one(self, "unevaluatedProperties")?;
        self.dependencies(fields, resolver, draft, &mut rule)?;
        rule.pattern = match fields.get("pattern").and_then(Json::as_str) {
            Some(pattern) => Some(Pattern::compile(pattern).map_err(SchemaError::Keyword)?),
            None => None,
        };
        rule.unique = fields.get("uniqueItems") == Some(&Json::Bool(true));
        rule.leaf = values(fields, draft)?;
        Ok(rule)
    }

    /// `dependencies` of drafts up to 7: a schema or a list of names for each name.
    fn dependencies(
        &mut self,
        fields: &Map<String, Json>,
        resolver: &Resolver<'_>,
        draft: Draft,
        rule: &mut SchemaRule,
    ) -> Result<(), SchemaError> {
        for (name, wanted) in fields.get("dependencies").and_then(Json::as_object).into_iter().flatten() {
            let id = match wanted {
                Json::Array(_) => {
                    let id = self.rules.len();
                    self.rules.push(Some(SchemaRule {
                        leaf: Some(leaf(&json!({ "required": wanted }), draft)?),
                        ..SchemaRule::default()
                    }));
                    id
                }
                schema => self.sub(schema, resolver, draft)?,
            };
            rule.dependents.push((name.clone(), id));
        }
        Ok(())
    }

    fn reference(&mut self, reference: &str, lookup: Lookup, resolver: &Resolver<'_>) -> Result<RuleId, SchemaError> {
        let found = match lookup {
            Lookup::Plain => resolver.lookup(reference),
            Lookup::Recursive => resolver.lookup_recursive_ref(),
        };
        let (schema, resolver, draft) = found.map_err(|error| SchemaError::Reference(error.to_string()))?.into_inner();
        let id = self.rule(schema, &resolver, draft)?;
        match &mut self.rules[id] {
            Some(rule) => rule.repeats = true,
            // It is being compiled.
            rule => *rule = Some(SchemaRule { repeats: true, ..SchemaRule::default() }),
        }
        Ok(id)
    }
}

#[derive(Clone, Copy)]
enum Lookup {
    Plain,
    Recursive,
}

/// Where the references of a schema lead: its base, and the bases that dynamic references may lead back to, each once.
fn place(resolver: &Resolver<'_>) -> String {
    let mut place = resolver.base_uri().to_string();
    let mut bases: Vec<String> = Vec::new();
    for base in &resolver.dynamic_scope() {
        bases.push(base.to_string());
    }
    // The outermost comes last, and is the one that counts.
    let mut seen: Vec<&str> = Vec::new();
    for base in bases.iter().rev() {
        if !seen.contains(&base.as_str()) {
            seen.push(base);
            place.push(' ');
            place.push_str(base);
        }
    }
    place
}

/// The keywords that concern a value itself, and no other schema.
fn values(fields: &Map<String, Json>, draft: Draft) -> Result<Option<LeafValidator>, SchemaError> {
    let own = |name: &str| !APPLICATORS.contains(&name) && !OWN.contains(&name) && !WORDS.contains(&name);
    let own: Map<String, Json> =
        fields.iter().filter(|(name, _)| own(name)).map(|(name, value)| (name.clone(), value.clone())).collect();
    if own.is_empty() { Ok(None) } else { leaf(&Json::Object(own), draft).map(Some) }
}

fn leaf(schema: &Json, draft: Draft) -> Result<LeafValidator, SchemaError> {
    let validator: Validator = options(draft).build(schema).map_err(|error| SchemaError::Keyword(error.to_string()))?;
    let dear = Dear { regex: schema["format"] == "regex", multiple: schema.get("multipleOf").is_some() };
    Ok(LeafValidator { validator, weight: 2 + nodes(schema), dear })
}

fn nodes(value: &Json) -> usize {
    match value {
        Json::Array(items) => 1 + items.iter().map(nodes).sum::<usize>(),
        Json::Object(fields) => 1 + fields.values().map(nodes).sum::<usize>(),
        _ => 1,
    }
}

/// Whether a rule applies itself to the same value, over any number of others.
fn endless(rules: &[SchemaRule]) -> bool {
    // 0: not seen, 1: on the way, 2: done. A stack of its own: chains may be long.
    let mut states = vec![0_u8; rules.len()];
    for first in 0..rules.len() {
        let mut way = vec![(first, 0)];
        while let Some((id, next)) = way.pop() {
            if next == 0 {
                match states[id] {
                    1 => return true,
                    2 => continue,
                    _ => states[id] = 1,
                }
            }
            match rules[id].in_place().nth(next) {
                None => states[id] = 2,
                Some(other) => {
                    way.push((id, next + 1));
                    way.push((other, 0));
                }
            }
        }
    }
    false
}
