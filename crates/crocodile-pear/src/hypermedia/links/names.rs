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
        let usual = usual(first, name);
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
/// The first letter decides which names are compared: most names are none of these.
fn usual(first: u8, name: &[u8]) -> MemberKind {
    let link = match first {
        b'_' | b'l' if matches!(name, b"links" | b"_links") => return MemberKind::Folder,
        b'h' => matches!(name, b"href" | b"hydra:next" | b"hydra:previous" | b"hydra:first" | b"hydra:last"),
        b'u' => matches!(name, b"url" | b"uri"),
        b's' => name == b"self",
        b'n' => matches!(name, b"next" | b"next_url" | b"nextLink"),
        b'p' => matches!(name, b"prev" | b"previous" | b"prev_url" | b"previous_url"),
        b'f' => name == b"first",
        b'l' => name == b"last",
        b'r' => name == b"related",
        b'@' => matches!(name, b"@id" | b"@context" | b"@nextLink" | b"@deltaLink"),
        _ => false,
    };
    if link { MemberKind::Link } else { MemberKind::Other }
}

fn is_odata_link(term: &[u8]) -> bool {
    term == b"id" || term == b"context" || term.ends_with(b"Link")
}
