//! Problems of the upstreams of a document that no single one of them shows.

use std::sync::Arc;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::upstream::ReadyUpstream;
use indexmap::IndexMap;

use crate::gateway::document::Document;

/// Warns of upstreams that nothing names.
pub fn check_called(document: &Document, upstreams: &IndexMap<String, Arc<ReadyUpstream>>, problems: &mut Problems) {
    for (name, (span, _)) in document.upstreams.iter().flatten() {
        if upstreams.get(name).is_some_and(|upstream| !upstream.is_named()) {
            let message = format!("nothing calls the upstream `{name}`");
            problems.warning(*span, message, "call it at an endpoint, or leave it out");
        }
    }
}

/// Warns of upstreams whose settings use `$claims`, where nothing authenticates clients.
pub fn check_claims(document: &Document, upstreams: &IndexMap<String, Arc<ReadyUpstream>>, problems: &mut Problems) {
    for (name, (span, _)) in document.upstreams.iter().flatten() {
        let uses = upstreams.get(name).is_some_and(|upstream| upstream.uses().any(|used| used == "claims"));
        if uses {
            let message = format!("`{name}` uses `$claims`, which is always null: nothing authenticates clients");
            problems.warning(*span, message, "add `authenticate`, or use `$headers`, `$cookies` or `$client`");
        }
    }
}
