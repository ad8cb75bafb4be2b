//! Links in documents of any format, mapped while their bytes pass.

mod events;
mod json;
mod map;
mod names;
mod xml;

pub use self::events::EventLinks;
pub use self::json::JsonLinks;
pub use self::map::{LinkFate, LinkMap, LinkPlace};
pub use self::names::LinkNames;
pub use self::xml::XmlLinks;

#[cfg(test)]
mod tests;
