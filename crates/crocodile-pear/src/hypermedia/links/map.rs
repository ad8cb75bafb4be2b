//! Where a link of a document leads, for readers who reach its server by another address.

/// Where a text stands that may be a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPlace {
    /// Anywhere: only a URL with its host is a link.
    Anywhere,
    /// Where formats have links: a path is one, too.
    Link,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkFate {
    /// The link stays as it is.
    Keep,
    /// This link instead.
    Replace(String),
    /// Null instead.
    Null,
    /// Neither the link nor its name.
    Remove,
}

/// Says what becomes of the links of a document.
pub trait LinkMap {
    /// Decides the fate of this link.
    fn map(&mut self, link: &str, place: LinkPlace) -> LinkFate;
}

/// The longest link, in bytes: more than any server accepts. A longer text is no link.
pub const LONGEST: usize = 8 << 10;

/// Whether a text that begins so may be a link at this place.
pub fn may_be_link(text: &[u8], place: LinkPlace) -> bool {
    match text {
        [b'h' | b'H', b't' | b'T', b't' | b'T', b'p' | b'P', rest @ ..] => {
            let rest = rest.strip_prefix(b"s").or_else(|| rest.strip_prefix(b"S")).unwrap_or(rest);
            rest.starts_with(b"://")
        }
        [b'/', b'/', ..] => true,
        [b'/', ..] => place == LinkPlace::Link,
        _ => false,
    }
}
