//! Actions by their names: of Siren (`actions`) and of HAL-FORMS (`_templates`).

use super::part::Part;
use super::relation::RelationTarget;
use crate::json::Raw;

/// A document's description of an action.
#[derive(Clone, Debug)]
pub struct Action {
    /// Its address.
    pub target: Raw,
    /// Its method, as it is written.
    pub method: String,
    /// The content type of its body.
    pub content_type: String,
    /// The fields that have a value, and that value.
    pub fields: Vec<(String, Raw)>,
}

/// The action of this name. If a document has it in both forms, that of Siren counts.
pub fn action(document: &Raw, name: &str) -> Option<Action> {
    let document = Part::from_document(document);
    siren(document, name).or_else(|| hal_forms(document, name))
}

fn siren(document: Part<'_>, name: &str) -> Option<Action> {
    let named = |action: &Part<'_>| action.field("name").is_some_and(|found| found.is(name));
    let action = document.field("actions")?.items().find(named)?;
    let target = action.field("href")?.raw();
    Some(Action {
        target,
        method: text(action, "method", "GET"),
        content_type: text(action, "type", "application/x-www-form-urlencoded"),
        fields: fields(action.field("fields")),
    })
}

fn hal_forms(document: Part<'_>, name: &str) -> Option<Action> {
    let form = document.field("_templates")?.field(name)?;
    let own = || match super::hal::address(document, "self") {
        Some(RelationTarget::Link(link)) => Some(link),
        _ => None,
    };
    Some(Action {
        target: form.field("target").map(Part::raw).or_else(own)?,
        method: text(form, "method", "GET"),
        content_type: text(form, "contentType", "application/json"),
        fields: fields(form.field("properties")),
    })
}

fn text(holder: Part<'_>, name: &str, usual: &str) -> String {
    holder.field(name).and_then(Part::text).map_or_else(|| usual.to_owned(), std::borrow::Cow::into_owned)
}

fn fields(list: Option<Part<'_>>) -> Vec<(String, Raw)> {
    let field = |field: Part<'_>| Some((field.field("name")?.text()?.into_owned(), field.field("value")?.raw()));
    list.into_iter().flat_map(Part::items).filter_map(field).collect()
}
