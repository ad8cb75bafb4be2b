//! The templates among the links of a recorded answer, for `explain`.

use super::leads::{Lead, Links, Related, Variables, template};
use super::ready::ReadyFollow;
use crate::hypermedia::{self, Preference, Relation};
use crate::jq::{self, Data, Filter};
use crate::json::Raw;
use crate::json::value;
use crate::pipeline::step::LinkTemplate;
use crate::template::uri_template;

impl ReadyFollow {
    /// The templates that its links are in this answer, or in an object of it: an `each` may stand before.
    pub(super) fn link_templates(&self, answer: &Raw) -> Vec<LinkTemplate> {
        let mut found: Vec<LinkTemplate> = Vec::new();
        for document in hypermedia::objects(answer) {
            let links = match &self.links {
                Links::Relation(related) => linked(related, &document),
                Links::Tree(levels) => levels.iter().flat_map(|related| linked(related, &document)).collect(),
                Links::Action(action) => action.leads(&document.into()),
                Links::Jq(filter) => evaluated(filter, &document),
                Links::Header(_) => Vec::new(),
            };
            for link in &links {
                let (Lead::Link(link) | Lead::Action(link, _)) = link else { continue };
                let Some(text) = template(link) else { continue };
                let known = found.iter().any(|known| known.template == text);
                if let (false, Some(variables)) = (known, uri_template::variables(&text)) {
                    let variables = variables.into_iter().map(|name| (self.is_given(&name), name));
                    found.push(LinkTemplate {
                        template: text,
                        variables: variables.map(|(given, name)| (name, given)).collect(),
                    });
                }
            }
        }
        found
    }

    /// Whether `with` gives a variable; `None` if that is known only when it runs.
    fn is_given(&self, name: &str) -> Option<bool> {
        match &self.variables {
            None => Some(false),
            Some(Variables::Whole(_)) => None,
            Some(Variables::Each(filters)) => Some(filters.iter().any(|(known, _)| known == name)),
        }
    }
}

fn linked(related: &Related, document: &Raw) -> Vec<Lead> {
    let relation = Relation { prefer: Preference::Link, ..related.relation.clone() };
    related.taken(hypermedia::leads(&relation, document))
}

/// The texts that an expression gives. What it reads of a request is null.
fn evaluated(filter: &Filter, document: &Raw) -> Vec<Lead> {
    let values = filter.run(document.value(), &mut |_| jq::null()).unwrap_or_default();
    let flat = values.into_iter().flat_map(|link| match value::as_list(&link) {
        Some(several) => several.to_vec(),
        None => vec![link],
    });
    flat.filter(|link| jq::as_str(link).is_some()).map(|link| Lead::Link(Data::from(link))).collect()
}
