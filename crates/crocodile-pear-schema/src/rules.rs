//! The rules of a schema, checked with bounded work: a rule judges a value once, however often it is asked.

use std::collections::HashMap;

use crocodile_pear_jq::{Error, meter};
use jsonschema::Validator;
use serde_json::Value as Json;

use crate::pattern::Pattern;
use crate::unique;

/// The index of a rule.
pub type RuleId = usize;

/// The rules of a schema.
#[derive(Debug)]
pub struct SchemaRules {
    rules: Vec<SchemaRule>,
    root: RuleId,
}

/// A subschema. The keywords that apply other schemas are done here, all others by the library.
#[derive(Debug, Default)]
pub struct SchemaRule {
    /// The schema `false`.
    pub refuses: bool,
    /// The keywords that concern the value itself.
    pub leaf: Option<LeafValidator>,
    pub pattern: Option<Pattern>,
    /// Whether all items of a list have to differ.
    pub unique: bool,
    /// Whether several others ask it about one value, so that its judgements are worth keeping.
    pub repeats: bool,
    /// References, and `allOf`.
    pub all: Vec<RuleId>,
    pub any: Option<Vec<RuleId>>,
    pub one: Option<Vec<RuleId>>,
    /// The schema under `not`, and how it is written.
    pub not: Option<(RuleId, String)>,
    pub conditional: Option<Conditional>,
    pub dependents: Vec<(String, RuleId)>,
    pub properties: HashMap<String, RuleId>,
    pub patterns: Vec<(Pattern, RuleId)>,
    pub additional: Option<RuleId>,
    pub names: Option<RuleId>,
    pub prefix: Vec<RuleId>,
    pub items: Option<RuleId>,
    pub contains: Option<Contains>,
    pub unevaluated_items: Option<RuleId>,
    pub unevaluated_properties: Option<RuleId>,
}

/// Keywords of the library.
#[derive(Debug)]
pub struct LeafValidator {
    pub validator: Validator,
    /// The cost of one use.
    pub weight: usize,
    /// The keywords that may cost more.
    pub dear: Dear,
}

/// The keywords of a schema that cost more than it weighs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dear {
    /// `format: regex`, whose time grows with the square of the text.
    pub regex: bool,
    /// `multipleOf`, which is exact also for numbers of hundreds of digits.
    pub multiple: bool,
}

/// `if`, `then` and `else`.
#[derive(Debug)]
pub struct Conditional {
    pub condition: RuleId,
    pub then: Option<RuleId>,
    pub otherwise: Option<RuleId>,
}

/// `contains`, and how often.
#[derive(Debug)]
pub struct Contains {
    pub rule: RuleId,
    pub least: Option<f64>,
    pub most: Option<f64>,
}

/// A violation: where, and of what.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    /// A JSON pointer as a fragment: `#/a/0`.
    pub pointer: String,
    /// The keyword's complaint.
    pub detail: String,
}

/// The most violations that are listed.
const TOLD: usize = 100;

/// The longest text of a violation.
const LONGEST: usize = 300;

/// The work of one validation. The dearest steps of the library take half a second for it.
const WORK: u64 = 20_000_000;

/// The judgements that are kept, of 32 bytes each with their table. Without them work grows with the depth of a value, up to its bound.
const KEPT: usize = 1 << 19;

/// The work of an exact division of a number with hundreds of digits.
const LONG: usize = 2_000;

/// The memory for one item of a list whose items are compared.
const ITEM: usize = 40;

/// Bytes of a text that are read for one unit of work.
const TEXT: usize = 16;

/// Rules that apply to one value, within each other, and values within each other.
const DEEP: usize = 20_000;

impl SchemaRule {
    /// The rules that it applies to the same value.
    pub fn in_place(&self) -> impl Iterator<Item = RuleId> {
        let conditional = self.conditional.iter();
        let conditional = conditional.flat_map(|it| [Some(it.condition), it.then, it.otherwise].into_iter().flatten());
        let dependents = self.dependents.iter().map(|(_, id)| *id);
        let lists = [&self.any, &self.one].into_iter().flatten().flatten();
        self.all
            .iter()
            .chain(lists)
            .copied()
            .chain(self.not.iter().map(|(id, _)| *id))
            .chain(conditional)
            .chain(dependents)
    }
}

impl SchemaRule {
    /// The violation of a keyword that is checked here and concerns the value alone.
    fn alone(&self, value: &Json) -> Option<String> {
        match value {
            Json::String(text) => {
                let pattern = self.pattern.as_ref().filter(|pattern| !pattern.is_match(text))?;
                Some(format!("value does not match \"{}\"", pattern.written))
            }
            Json::Array(items) if self.unique => {
                meter::charge(4 * size(value));
                meter::hold(ITEM * items.len());
                (!unique::all_differ(items)).then(|| "value has non-unique elements".to_owned())
            }
            _ => None,
        }
    }
}

impl SchemaRules {
    /// The rules, and the one of the whole schema.
    pub fn new(rules: Vec<SchemaRule>, root: RuleId) -> Self {
        SchemaRules { rules, root }
    }

    /// All violations of a value, up to a bound.
    ///
    /// # Errors
    /// If the value takes more work than a validation may.
    pub fn check(&self, value: &Json) -> Result<Vec<Violation>, Error> {
        // The budget of memory is for expressions; what is kept here has a bound of its own.
        meter::evaluate(WORK, 0, || {
            let mut evaluation = SchemaEvaluation { rules: &self.rules, kept: HashMap::new(), keeps: true, deep: 0 };
            if evaluation.holds(self.root, value) {
                return Ok(Vec::new());
            }
            let mut violations = Violations { told: Vec::new(), path: Vec::new() };
            evaluation.report(self.root, value, &mut violations);
            Ok(violations.told)
        })
    }

    /// Whether a value has no violation.
    #[cfg(test)]
    pub fn is_valid(&self, value: &Json) -> bool {
        self.check(value).expect("within the budget").is_empty()
    }
}

struct SchemaEvaluation<'r> {
    rules: &'r [SchemaRule],
    /// Judgements, by rule and by where the value lies in memory.
    kept: HashMap<(RuleId, *const Json), bool>,
    /// Whether values lie where they lie to the end: the names of fields do not.
    keeps: bool,
    deep: usize,
}

/// The items and members of one value that were evaluated, for `unevaluatedItems` and `unevaluatedProperties`.
#[derive(Default)]
struct Evaluated<'v> {
    all_items: bool,
    first_items: usize,
    items: Vec<usize>,
    all_properties: bool,
    properties: Vec<&'v str>,
    /// The rules that were looked at.
    rules: Vec<RuleId>,
}

impl<'r> SchemaEvaluation<'r> {
    fn rule(&self, id: RuleId) -> &'r SchemaRule {
        &self.rules[id]
    }

    /// Whether a value has no violation of a rule.
    fn holds(&mut self, id: RuleId, value: &Json) -> bool {
        meter::charge(2);
        let rule = self.rule(id);
        let key = (id, std::ptr::from_ref(value));
        let keeps = rule.repeats && self.keeps;
        if keeps && let Some(known) = self.kept.get(&key) {
            return *known;
        }
        if self.deep == DEEP {
            meter::exhaust("the schema applies too many rules within each other");
        }
        self.deep += 1;
        let holds = self.judge(rule, value);
        self.deep -= 1;
        if keeps && self.kept.len() < KEPT {
            if self.kept.len().is_power_of_two() {
                meter::hold(32 * self.kept.len());
            }
            self.kept.insert(key, holds);
        }
        holds
    }

    fn judge(&mut self, rule: &'r SchemaRule, value: &Json) -> bool {
        if rule.refuses || !rule.leaf.as_ref().is_none_or(|leaf| leaf.holds(value)) || rule.alone(value).is_some() {
            return false;
        }
        let parts = match value {
            Json::Array(items) => self.judge_items(rule, items),
            Json::Object(fields) => fields.iter().all(|(name, field)| self.judge_field(rule, name, field)),
            _ => true,
        };
        parts
            && rule.all.iter().all(|id| self.holds(*id, value))
            && rule.any.as_ref().is_none_or(|any| any.iter().any(|id| self.holds(*id, value)))
            && rule.one.as_ref().is_none_or(|one| self.count(one, value) == 1)
            && rule.not.as_ref().is_none_or(|(id, _)| !self.holds(*id, value))
            && self.chosen(rule, value).is_none_or(|id| self.holds(id, value))
            && rule.dependents.iter().all(|(name, id)| value.get(name).is_none() || self.holds(*id, value))
            && self.unevaluated(rule, value).is_none()
    }

    fn judge_items(&mut self, rule: &'r SchemaRule, items: &[Json]) -> bool {
        let first = rule.prefix.len().min(items.len());
        rule.prefix.iter().zip(items).all(|(id, item)| self.holds(*id, item))
            && rule.items.is_none_or(|id| items[first..].iter().all(|item| self.holds(id, item)))
            && rule.contains.as_ref().is_none_or(|contains| self.contains(contains, items).is_ok())
    }

    fn judge_field(&mut self, rule: &'r SchemaRule, name: &str, field: &Json) -> bool {
        self.rules_of(rule, name).into_iter().all(|id| self.holds(id, field))
            && rule.names.is_none_or(|id| self.holds_name(id, name))
    }

    /// The rules for a field of this name.
    fn rules_of(&mut self, rule: &'r SchemaRule, name: &str) -> Vec<RuleId> {
        meter::charge(1 + name.len() / TEXT);
        let mut found: Vec<RuleId> = rule.properties.get(name).copied().into_iter().collect();
        found.extend(rule.patterns.iter().filter(|(pattern, _)| pattern.is_match(name)).map(|(_, id)| *id));
        if found.is_empty() {
            found.extend(rule.additional);
        }
        found
    }

    /// A name is a value for a moment only: no judgement of it is kept.
    fn holds_name(&mut self, id: RuleId, name: &str) -> bool {
        let keeps = std::mem::replace(&mut self.keeps, false);
        let holds = self.holds(id, &Json::from(name));
        self.keeps = keeps;
        holds
    }

    /// How many hold, up to two.
    fn count(&mut self, rules: &[RuleId], value: &Json) -> usize {
        rules.iter().filter(|id| self.holds(**id, value)).take(2).count()
    }

    /// The rule that `if` leads to.
    fn chosen(&mut self, rule: &'r SchemaRule, value: &Json) -> Option<RuleId> {
        let conditional = rule.conditional.as_ref()?;
        match self.holds(conditional.condition, value) {
            true => conditional.then,
            false => conditional.otherwise,
        }
    }

    fn contains(&mut self, contains: &Contains, items: &[Json]) -> Result<(), &'static str> {
        let (mut count, least) = (0.0, contains.least.unwrap_or(1.0));
        for item in items {
            if self.holds(contains.rule, item) {
                count += 1.0;
            }
            if contains.most.is_some_and(|most| count > most) {
                return Err("Too many items of value are valid under the given schema");
            }
            if contains.most.is_none() && count >= least {
                break;
            }
        }
        if count < least { Err("None of value are valid under the given schema") } else { Ok(()) }
    }

    /// The violation of `unevaluatedItems` or `unevaluatedProperties`.
    fn unevaluated(&mut self, rule: &'r SchemaRule, value: &Json) -> Option<String> {
        match value {
            Json::Array(items) => {
                let id = rule.unevaluated_items?;
                let mut seen = Evaluated::default();
                self.see(rule, value, &mut seen);
                let left =
                    |at: &usize| !seen.all_items && *at >= seen.first_items && seen.items.binary_search(at).is_err();
                let wrong = (0..items.len()).filter(left).find(|at| !self.holds(id, &items[*at]));
                wrong.map(|at| format!("Unevaluated items are not allowed (the item {at} was unexpected)"))
            }
            Json::Object(fields) => {
                let id = rule.unevaluated_properties?;
                let mut seen = Evaluated::default();
                self.see(rule, value, &mut seen);
                seen.properties.sort_unstable();
                let left = |name: &str| !seen.all_properties && seen.properties.binary_search(&name).is_err();
                let wrong = fields.iter().filter(|(name, _)| left(name)).filter(|(_, field)| !self.holds(id, field));
                let names = listed(wrong.map(|(name, _)| name.as_str()));
                (!names.is_empty()).then(|| format!("Unevaluated properties are not allowed ({names})"))
            }
            _ => None,
        }
    }

    /// Notes what a rule evaluates of a value that it holds for.
    fn see<'v>(&mut self, rule: &'r SchemaRule, value: &'v Json, seen: &mut Evaluated<'v>) {
        match value {
            Json::Array(items) => {
                seen.all_items |= rule.items.is_some();
                seen.first_items = seen.first_items.max(rule.prefix.len());
                if let Some(contains) = rule.contains.as_ref().filter(|_| !seen.all_items) {
                    let held = (0..items.len()).filter(|at| self.holds(contains.rule, &items[*at]));
                    let held: Vec<usize> = held.collect();
                    meter::charge(held.len());
                    seen.items.extend(held);
                    seen.items.sort_unstable();
                    seen.items.dedup();
                }
            }
            Json::Object(fields) => {
                seen.all_properties |= rule.additional.is_some();
                for name in fields.keys().filter(|_| !seen.all_properties) {
                    if !self.rules_of(rule, name).is_empty() {
                        seen.properties.push(name);
                    }
                }
            }
            _ => return,
        }
        let branches = [&rule.any, &rule.one].into_iter().flatten().flatten().copied();
        let dependents = rule.dependents.iter().filter(|(name, _)| value.get(name).is_some()).map(|(_, id)| *id);
        let mut others: Vec<RuleId> = rule.all.iter().copied().chain(branches).chain(dependents).collect();
        others.extend(rule.conditional.as_ref().map(|it| it.condition));
        others.extend(self.chosen(rule, value));
        for id in others {
            if !seen.rules.contains(&id) {
                seen.rules.push(id);
                meter::charge(seen.rules.len() / TEXT);
                if self.holds(id, value) {
                    self.see_all(id, value, seen);
                }
            }
        }
    }

    /// The same for a rule within another one, whose own unevaluated parts count too.
    fn see_all<'v>(&mut self, id: RuleId, value: &'v Json, seen: &mut Evaluated<'v>) {
        let rule = self.rule(id);
        seen.all_items |= rule.unevaluated_items.is_some();
        seen.all_properties |= rule.unevaluated_properties.is_some();
        self.see(rule, value, seen);
    }

    /// Lists the violations of a rule that does not hold.
    fn report<'v>(&mut self, id: RuleId, value: &'v Json, violations: &mut Violations<'v>) {
        if violations.full() || self.holds(id, value) {
            return;
        }
        let rule = self.rule(id);
        if rule.refuses {
            violations.tell("False schema does not allow value".into());
        }
        if let Some(leaf) = rule.leaf.as_ref().filter(|leaf| !leaf.holds(value)) {
            // Leaves out the value: it may be long or secret.
            let details = leaf.validator.iter_errors(value).take(TOLD).map(|error| error.masked().to_string());
            details.for_each(|detail| violations.tell(detail));
        }
        if let Some(detail) = rule.alone(value) {
            violations.tell(detail);
        }
        match value {
            Json::Array(items) => self.report_items(rule, items, violations),
            Json::Object(fields) => self.report_fields(rule, fields, violations),
            _ => {}
        }
        for other in rule.all.iter().copied().chain(self.chosen(rule, value)) {
            self.report(other, value, violations);
        }
        let dependents = rule.dependents.iter().filter(|(name, _)| value.get(name).is_some());
        dependents.for_each(|(_, other)| self.report(*other, value, violations));
        if rule.any.as_ref().is_some_and(|any| !any.iter().any(|other| self.holds(*other, value))) {
            violations.tell("value is not valid under any of the schemas listed in the 'anyOf' keyword".into());
        }
        match rule.one.as_ref().map(|one| self.count(one, value)) {
            Some(0) => {
                violations.tell("value is not valid under any of the schemas listed in the 'oneOf' keyword".into());
            }
            Some(2) => {
                violations
                    .tell("value is valid under more than one of the schemas listed in the 'oneOf' keyword".into());
            }
            _ => {}
        }
        if let Some((_, written)) = rule.not.as_ref().filter(|(other, _)| self.holds(*other, value)) {
            violations.tell(format!("{written} is not allowed for value"));
        }
        if let Some(detail) = self.unevaluated(rule, value) {
            violations.tell(detail);
        }
    }

    fn report_items<'v>(&mut self, rule: &'r SchemaRule, items: &'v [Json], violations: &mut Violations<'v>) {
        let rest = std::iter::repeat_n(rule.items, items.len()).flatten();
        for (at, (id, item)) in rule.prefix.iter().copied().chain(rest).zip(items).enumerate() {
            violations.path.push(PathStep::Item(at));
            self.report(id, item, violations);
            violations.path.pop();
        }
        if let Some(Err(detail)) = rule.contains.as_ref().map(|contains| self.contains(contains, items)) {
            violations.tell(detail.into());
        }
    }

    fn report_fields<'v>(
        &mut self,
        rule: &'r SchemaRule,
        fields: &'v serde_json::Map<String, Json>,
        violations: &mut Violations<'v>,
    ) {
        let mut unexpected = Vec::new();
        for (name, field) in fields {
            let rules = self.rules_of(rule, name);
            // A list of names says more than that nothing is allowed for each.
            if let [id] = rules[..]
                && rule.additional == Some(id)
                && self.rule(id).refuses
            {
                unexpected.push(name.as_str());
                continue;
            }
            violations.path.push(PathStep::Field(name));
            rules.into_iter().for_each(|id| self.report(id, field, violations));
            violations.path.pop();
            if rule.names.is_some_and(|id| !self.holds_name(id, name)) {
                violations.tell(format!("the name {} is not allowed", quoted(name)));
            }
        }
        if !unexpected.is_empty() {
            violations.tell(format!("Additional properties are not allowed ({})", listed(unexpected.into_iter())));
        }
    }
}

/// Names, as far as they fit into a violation.
fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let (mut text, mut count) = (String::new(), 0);
    for name in names {
        count += 1;
        if text.len() < LONGEST {
            if count > 1 {
                text.push_str(", ");
            }
            text.push_str(&quoted(name));
        }
    }
    match count {
        0 => text,
        1 => text + " was unexpected",
        _ => text + " were unexpected",
    }
}

fn quoted(name: &str) -> String {
    format!("'{}'", name.chars().take(LONGEST).collect::<String>())
}

impl LeafValidator {
    fn holds(&self, value: &Json) -> bool {
        let more = match value {
            Json::String(text) if self.dear.regex => (text.len() / TEXT).saturating_pow(2),
            Json::String(text) => text.len() / TEXT,
            Json::Number(number) if self.dear.multiple && is_long(number) => LONG,
            Json::Array(items) => items.len() / TEXT,
            Json::Object(fields) => fields.len() / TEXT,
            _ => 0,
        };
        meter::charge(self.weight + more);
        self.validator.is_valid(value)
    }
}

/// Whether a number has more digits than a processor calculates with.
fn is_long(number: &serde_json::Number) -> bool {
    number.as_f64().is_none_or(|number| number != 0.0 && !(1e-6..1e16).contains(&number.abs()))
}

/// How many values a value has, with those within it.
fn size(value: &Json) -> usize {
    match value {
        Json::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Json::Object(fields) => 1 + fields.values().map(size).sum::<usize>(),
        Json::String(text) => 1 + text.len() / TEXT,
        _ => 1,
    }
}

/// A step on the way to a value.
enum PathStep<'v> {
    Field(&'v str),
    Item(usize),
}

/// The violations found so far.
struct Violations<'v> {
    told: Vec<Violation>,
    path: Vec<PathStep<'v>>,
}

impl Violations<'_> {
    fn full(&self) -> bool {
        self.told.len() >= TOLD
    }

    fn tell(&mut self, detail: String) {
        if self.full() {
            return;
        }
        let mut pointer = String::from("#");
        for part in &self.path {
            pointer.push('/');
            match part {
                PathStep::Field(name) => pointer.push_str(&name.replace('~', "~0").replace('/', "~1")),
                PathStep::Item(at) => pointer.push_str(&at.to_string()),
            }
        }
        self.told.push(Violation { pointer, detail: detail.chars().take(LONGEST).collect() });
    }
}
