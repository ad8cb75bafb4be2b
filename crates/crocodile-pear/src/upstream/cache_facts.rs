//! The facts about a call that caches must know: those in front of its upstream, and those downstream.

use http::HeaderMap;
use http::header::HeaderName;

use super::cached::UpstreamCache;
use super::call::composed_part::{ComposedPart, PartFields};
use super::call::noting::{ForCaches, Noting};
use crate::cache::AnswerParts;
use crate::error::Error;
use crate::request::context::Scope;

/// Notes for which client a call is made, before the header fields of the call are known. `sent` are the client's fields
/// that the upstream gets unchanged; `None` means all.
pub(super) fn noting(cached: Option<&UpstreamCache>, sent: Option<&[HeaderName]>, scope: &Scope) -> Noting {
    let parts = scope.parts::<AnswerParts>();
    if let Some(parts) = &parts {
        parts.depend(sent, || scope.headers());
    }
    match (cached, parts) {
        (None, None) => Noting::Off,
        (None, Some(parts)) => Noting::Part(PartFields { parts, written: Vec::new(), addressed: false }),
        (Some(cached), parts) => Noting::Kept(cached.scope(parts, scope)),
    }
}

/// Notes the header fields of the call, which are known now.
///
/// # Errors
/// `BadRequest` if the expression of a key fails.
pub(super) fn noted(
    cached: Option<&UpstreamCache>,
    noting: Noting,
    scope: &Scope,
    headers: &HeaderMap,
) -> Result<ForCaches, Error> {
    let mut keeping = match noting {
        Noting::Off => return Ok(ForCaches::Nothing),
        Noting::Part(fields) => return Ok(ForCaches::Part(ComposedPart::of(fields, scope, headers))),
        Noting::Kept(keeping) => keeping,
    };
    keeping.note_fields(scope, headers);
    if let Some(cached) = cached {
        cached.identify(&mut keeping, scope)?;
    }
    Ok(ForCaches::Kept(keeping))
}
