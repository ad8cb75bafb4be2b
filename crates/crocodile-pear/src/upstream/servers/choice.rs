//! `choose`: an upstream that leads to others, for each request to one of them.

use std::sync::Arc;

use super::affinity::{hash, point};
use crate::config::problem::Problems;
use crate::config::spec::{ExpressionSpec, Located, Share};
use crate::error::{Error, Kind};
use crate::jq::{self, Filter, Read};
use crate::request::context::Scope;
use crate::runtime::random::below;
use crate::spec;
use crate::upstream::call::forward::of_request;

spec! {
    /// Where a request goes. The first rule that fits decides.
    pub struct ChoiceRuleSpec {
        /// A condition over the client's request: `$headers["x-beta"] == "1"`. Default: it fits every request.
        pub when: Option<ExpressionSpec>,
        /// For which share of the clients the rule is, of those for whom no rule before was: `5%`. Default: all. The
        /// shares of rules with the same `by` add up: rules of 5 % and 10 % are for 15 % of the clients.
        pub share: Option<Located<Share>>,
        /// An expression over the client's request that says who the client is: `$cookies.session`, `$claims.sub`,
        /// `$client.address`. The same client has the same side, from every gateway and after every reload; if the share
        /// grows, those who were in it stay. If it is null, and by default, chance decides for each request.
        pub by: Option<ExpressionSpec>,
        /// The name of the upstream.
        pub to: Located<String>,
    }
}

/// The rules, ready.
pub(crate) struct Choice<T> {
    pub(crate) name: Arc<str>,
    rules: Vec<Rule<T>>,
}

struct Rule<T> {
    when: Option<Filter>,
    part: Option<ClientShare>,
    to: T,
}

/// The clients of a rule: those whose points lie between the two.
struct ClientShare {
    from: f64,
    to: f64,
    by: Option<Filter>,
}

/// The upstreams to which the names of rules lead.
pub struct Choices<'a, T> {
    /// The upstream of a name, where it is ready.
    pub find: &'a dyn Fn(&Located<String>, &mut Problems) -> Option<T>,
}

impl<T> Choice<T> {
    /// Compiles the rules. Every problem is noted.
    pub(crate) fn compile(
        name: &str,
        rules: &[ChoiceRuleSpec],
        choices: &Choices<'_, T>,
        problems: &mut Problems,
    ) -> Option<Self> {
        let mut shares: Vec<(Option<&str>, f64)> = Vec::new();
        let mut ready = Vec::new();
        let mut sound = Some(());
        for (at, rule) in rules.iter().enumerate() {
            let to = (choices.find)(&rule.to, problems);
            let when = rule.when.as_ref().map_or(Some(None), |when| condition(when, problems).map(Some));
            let by = rule.by.as_ref().map_or(Some(None), |by| request(by, problems).map(Some));
            let part = rule.share.as_ref().map(|share| {
                let key = rule.by.as_ref().map(|by| by.0.as_str());
                let place = shares.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
                    shares.push((key, 0.0));
                    shares.len() - 1
                });
                let from = shares[place].1;
                shares[place].1 = from + share.value.0;
                if shares[place].1 > 1.0 + 1e-9 {
                    let message = "the shares of these rules are more than 100% together";
                    sound = problems.error(share.span, message, "make them smaller; the last rule needs no `share`");
                }
                (from, from + share.value.0)
            });
            if let (Some(by), None) = (&rule.by, &rule.share) {
                sound = problems.error(by.0.span, "`by` without `share`", "add `share: 5%`, or leave out `by`");
            }
            let (Some(to), Some(when), Some(by)) = (to, when, by) else {
                sound = None;
                continue;
            };
            if at + 1 < rules.len() && when.is_none() && part.is_none() {
                let message = "the rules below this one never decide: it fits every request";
                problems.warning(rule.to.span, message, "put it last, or add `when` or `share`");
            }
            ready.push(Rule { when, part: part.map(|(from, to)| ClientShare { from, to, by }), to });
        }
        sound.map(|()| Choice { name: name.into(), rules: ready })
    }

    /// The upstream for a request.
    ///
    /// # Errors
    /// `Missing` if no rule fits, `BadRequest` if an expression fails.
    pub(crate) fn choose(&self, scope: &Scope) -> Result<&T, Error> {
        let mut chance = None;
        for rule in &self.rules {
            if let Some(when) = &rule.when
                && !is_true(&value(when, scope)?)
            {
                continue;
            }
            if let Some(part) = &rule.part {
                let point = match &part.by {
                    Some(by) => self.place_of(&value(by, scope)?),
                    None => None,
                };
                let point = point.unwrap_or_else(|| *chance.get_or_insert_with(point_of_chance));
                if !(part.from < point && point <= part.to) {
                    continue;
                }
            }
            return Ok(&rule.to);
        }
        let error = Error::new(Kind::Missing, "no upstream is chosen for this request");
        Err(error.of_upstream(&self.name))
    }

    /// Where a client stands. The name of the choice is a part of it: the first to try one thing are not those of another.
    fn place_of(&self, value: &jq::Value) -> Option<f64> {
        hash_of(value).map(|own| point(hash(&[self.name.as_bytes(), &own.to_be_bytes()].concat())))
    }

    /// The upstreams that it leads to.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &T> {
        self.rules.iter().map(|rule| &rule.to)
    }

    fn filters(&self) -> impl Iterator<Item = &Filter> {
        self.rules.iter().flat_map(|rule| rule.when.iter().chain(rule.part.iter().flat_map(|part| &part.by)))
    }

    pub(crate) fn uses(&self) -> impl Iterator<Item = &String> {
        self.filters().flat_map(Filter::uses)
    }

    pub(crate) fn reads(&self) -> impl Iterator<Item = &Read> {
        self.filters().flat_map(Filter::reads)
    }
}

/// The rules, as `explain` prints them.
pub(crate) fn outline(rules: &[ChoiceRuleSpec]) -> Vec<String> {
    let line = |rule: &ChoiceRuleSpec| {
        let when = rule.when.as_ref().map(|when| format!(" when {}", when.0)).unwrap_or_default();
        let by = rule.by.as_ref().map(|by| format!(" by {}", by.0)).unwrap_or_default();
        let share = rule.share.as_ref().map(|share| format!(" for {}% of the clients{by}", percent(share.value)));
        format!("chooses {}{when}{}", rule.to, share.unwrap_or_default())
    };
    rules.iter().map(line).collect()
}

pub(crate) fn percent(share: Share) -> f64 {
    (share.0 * 1e6).round() / 1e4
}

fn point_of_chance() -> f64 {
    point(below(u64::MAX))
}

/// An expression over the client's request.
pub(crate) fn request(written: &ExpressionSpec, problems: &mut Problems) -> Option<Filter> {
    let message = "`.` and `$body` are not known where an upstream is chosen";
    of_request(
        &written.0,
        message,
        "use `$method`, `$host`, `$headers`, `$query`, `$path`, `$cookies`, `$claims` or `$client`",
        problems,
    )
}

fn condition(written: &ExpressionSpec, problems: &mut Problems) -> Option<Filter> {
    if let Some(at) = jq::assignment(written.0.as_str()) {
        return problems.error(written.0.at(at, 1), "`=` assigns a value, it does not compare", "write `==`");
    }
    request(written, problems)
}

/// The value of an expression over the client's request.
pub(crate) fn value(filter: &Filter, scope: &Scope) -> Result<jq::Value, Error> {
    let value = filter.run_one(jq::null(), &mut |name| scope.variable(name, &None));
    let value = value.map_err(|error| Error::new(Kind::BadRequest, error.detail().to_owned()))?;
    Ok(value.unwrap_or_else(jq::null))
}

fn is_true(value: &jq::Value) -> bool {
    let text = value.to_string();
    text != "null" && text != "false"
}

/// The hash of a value; nothing for null and an empty text.
pub(crate) fn hash_of(value: &jq::Value) -> Option<u64> {
    let text = value.to_string();
    (text != "null" && text != "\"\"").then(|| hash(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, Method};

    use super::super::choice::*;
    use crate::message::body::AnswerBody;

    fn canary(share: f64) -> Choice<&'static str> {
        let by = Filter::compile("$headers.user", &["headers"]).expect("an expression");
        let part = Some(ClientShare { from: 0.0, to: share, by: Some(by) });
        let rules = vec![Rule { when: None, part, to: "new" }, Rule { when: None, part: None, to: "old" }];
        Choice { name: "shop".into(), rules }
    }

    fn side(choice: &Choice<&'static str>, user: u32) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert("user", HeaderValue::from(user));
        let scope = Scope::new(Method::GET, None, headers, AnswerBody::empty());
        *choice.choose(&scope).expect("an upstream") == "new"
    }

    #[test]
    fn five_percent_of_the_clients_are_five_percent_and_stay_when_the_share_grows() {
        let (few, many) = (canary(0.05), canary(0.2));
        let mut chosen = 0;
        for user in 0..20_000 {
            let first = side(&few, user);
            assert_eq!(first, side(&few, user));
            assert!(!first || side(&many, user));
            chosen += u32::from(first);
        }
        assert!((911..=1_089).contains(&chosen), "{chosen}");
    }

    #[test]
    fn without_a_value_chance_decides() {
        let choice = canary(0.05);
        let scope = Scope::new(Method::GET, None, HeaderMap::new(), AnswerBody::empty());
        let new = |_: &u32| *choice.choose(&scope).expect("an upstream") == "new";
        let chosen = (0..20_000).filter(new).count();
        assert!((800..1_200).contains(&chosen), "{chosen}");
    }
}
