//! Which directives apply in a block: those of the block itself, or of the nearest one around it that has any of them.

use super::parse::Directive;

/// The blocks around a place, outermost first.
#[derive(Clone, Default)]
pub struct Scope<'a> {
    levels: Vec<&'a [Directive]>,
}

impl<'a> Scope<'a> {
    pub fn new(levels: Vec<&'a [Directive]>) -> Self {
        Self { levels }
    }

    pub fn within(&self, block: &'a [Directive]) -> Self {
        let mut levels = self.levels.clone();
        levels.push(block);
        Self { levels }
    }

    /// Whether nobody may call.
    pub fn is_closed(&self) -> bool {
        let rules = self.all(&["allow", "deny"]);
        rules.first().is_some_and(|first| first.name == "deny" && first.is("all"))
    }

    /// The innermost block.
    pub fn own(&self) -> &'a [Directive] {
        self.levels.last().copied().unwrap_or_default()
    }

    /// The directive with this name that applies: that of the nearest block which has one.
    pub fn last(&self, name: &str) -> Option<&'a Directive> {
        let levels = self.levels.iter().rev();
        levels.filter_map(|level| level.iter().rfind(|directive| directive.name == name)).next()
    }

    /// All directives with these names that apply: an inner block replaces those of an outer one as a whole.
    pub fn all(&self, names: &[&str]) -> Vec<&'a Directive> {
        let of = |level: &&'a [Directive]| -> Vec<&'a Directive> {
            level.iter().filter(|directive| names.contains(&directive.name.as_str())).collect()
        };
        self.levels.iter().rev().map(of).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The first argument of a directive that applies.
    pub fn word(&self, name: &str) -> Option<&'a str> {
        self.last(name)?.arg(0)
    }

    pub fn is_on(&self, name: &str) -> bool {
        self.word(name) == Some("on")
    }
}
