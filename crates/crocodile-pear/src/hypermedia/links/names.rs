//! The names under which hypermedia documents have links.

/// How OData marks what it says about a value.
const ODATA: &[u8] = b"@odata.";

/// The kind of a member's value, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberKind {
    Other,
    Link,
    /// Links, each under its relation.
    Folder,
}

/// The names of members that are links.
#[derive(Clone, Debug, Default)]
pub struct LinkNames(Box<[Box<[u8]>]>);

impl LinkNames {
    /// The usual ones, and these.
    pub fn with(more: impl IntoIterator<Item = String>) -> Self {
        LinkNames(more.into_iter().map(|name| name.into_bytes().into()).collect())
    }

    /// The kind of the value of a member with this name.
    pub fn kind(&self, name: &[u8]) -> MemberKind {
        let Some(&first) = name.first() else { return MemberKind::Other };
        let usual = match first {
            b'h' | b'u' | b's' | b'n' | b'p' | b'f' | b'l' | b'r' | b'@' | b'_' => usual(name),
            _ => MemberKind::Other,
        };
        if usual != MemberKind::Other {
            return usual;
        }
        // Those of OData end in `Link`, `context` or `id`.
        if self.0.is_empty() && !matches!(name.last(), Some(b'k' | b't' | b'd')) {
            return MemberKind::Other;
        }
        let odata = || memchr::memmem::rfind(name, ODATA).is_some_and(|at| is_odata_link(&name[at + ODATA.len()..]));
        let own = self.0.iter().any(|own| **own == *name);
        if own || (memchr::memchr(b'@', name).is_some() && odata()) { MemberKind::Link } else { MemberKind::Other }
    }
}

/// The kind of a usual name: of a member whose text is a link, or of one whose own members are links, `{"links": {"next": "/a"}}`.
fn usual(name: &[u8]) -> MemberKind {
    match name {
        b"links" | b"_links" => MemberKind::Folder,
        b"href" | b"url" | b"uri" | b"self" | b"next" | b"prev" | b"previous" | b"first" | b"last" | b"related"
        | b"next_url" | b"prev_url" | b"previous_url" | b"nextLink" | b"@id" | b"@context" | b"@nextLink"
        | b"@deltaLink" | b"hydra:next" | b"hydra:previous" | b"hydra:first" | b"hydra:last" => MemberKind::Link,
        _ => MemberKind::Other,
    }
}

fn is_odata_link(term: &[u8]) -> bool {
    term == b"id" || term == b"context" || term.ends_with(b"Link")
}
