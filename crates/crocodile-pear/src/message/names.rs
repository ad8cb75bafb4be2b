//! The names that later expressions use, and the documents that an item was made from.

use std::sync::Arc;

use crate::json::Data;

/// Facts about an item besides its body. Most items have none.
pub type Names = Option<Arc<NamedResults>>;

/// Named results, and the documents that an item was made from. Both are short, so they are lists.
#[derive(Clone, Default)]
pub struct NamedResults {
    /// `$name` in expressions.
    pub values: Vec<(Arc<str>, Data)>,
    /// The URL that the item came from (key ``), the URL that the value under one of its keys came from (`key`), and
    /// the URL that a named result came from (`$name`). Recorded only where a later step follows links.
    pub bases: Vec<(Arc<str>, Base)>,
}

/// The URL of a document. Links in the document are relative to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// The upstream's name, and the whole URL.
    At(Arc<str>, Arc<str>),
    /// Several documents, each with its own URL.
    Several,
}

impl NamedResults {
    /// The base of this part, if it has its own.
    pub fn base(&self, part: &str) -> Option<&Base> {
        self.bases.iter().find(|(known, _)| **known == *part).map(|(_, base)| base)
    }

    pub fn set_base(&mut self, part: &str, base: Base) {
        self.bases.retain(|(known, _)| **known != *part);
        self.bases.push((part.into(), base));
    }

    /// Replaces the bases of the item with this one, because it is another document now. The bases of named results
    /// remain.
    pub fn set_document(&mut self, base: Base) {
        self.bases.retain(|(known, _)| known.starts_with('$'));
        self.set_base("", base);
    }
}
