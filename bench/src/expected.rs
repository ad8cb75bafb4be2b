//! The expected body of an answer.

use serde_json::Value;

/// The body that counts as right.
#[derive(Clone)]
pub enum Expected {
    /// These bytes.
    Exactly(Vec<u8>),
    /// A JSON list of these items, byte by byte, in whatever order they arrived. Sorted.
    AnyOrder(Vec<Vec<u8>>),
    /// This JSON by meaning, however it is written.
    Same(Value),
}

impl Expected {
    /// The items of a list, in any order.
    pub fn any_order(mut items: Vec<Vec<u8>>) -> Self {
        items.sort_unstable();
        Self::AnyOrder(items)
    }

    pub fn matches(&self, body: &[u8]) -> bool {
        match self {
            Self::Exactly(bytes) => bytes == body,
            Self::AnyOrder(items) => split(body).is_some_and(|mut found| {
                found.sort_unstable();
                found == *items
            }),
            Self::Same(value) => serde_json::from_slice::<Value>(body).is_ok_and(|found| found == *value),
        }
    }
}

/// The items of a JSON list that has no space between them, untouched. `None` if the brackets do not fit.
pub fn split(list: &[u8]) -> Option<Vec<&[u8]>> {
    let inner = list.strip_prefix(b"[")?.strip_suffix(b"]")?;
    if inner.is_empty() {
        return Some(Vec::new());
    }
    let (mut items, mut from, mut depth) = (Vec::new(), 0, 0usize);
    let (mut quoted, mut escaped) = (false, false);
    for (place, byte) in inner.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                items.push(&inner[from..place]);
                from = place + 1;
            }
            _ => {}
        }
    }
    items.push(&inner[from..]);
    (depth == 0 && !quoted).then_some(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_split_at_its_own_commas() {
        let list = br#"[{"a":[1,2]},"x,\"]",3]"#;
        assert_eq!(split(list), Some(vec![br#"{"a":[1,2]}"#.as_slice(), br#""x,\"]""#, b"3"]));
        assert_eq!(split(b"[]"), Some(vec![]));
        assert_eq!(split(b"[[]"), None);
        assert_eq!(split(b"{}"), None);
    }

    #[test]
    fn order_may_differ_and_items_may_not() {
        let expected = Expected::any_order(vec![b"1".to_vec(), b"2".to_vec(), b"2".to_vec()]);
        assert!(expected.matches(b"[2,1,2]"));
        assert!(!expected.matches(b"[1,1,2]") && !expected.matches(b"[1,2]") && !expected.matches(b"[1,2,2,2]"));
    }

    #[test]
    fn json_may_be_written_in_other_ways() {
        let expected = Expected::Same(serde_json::json!({"a": 1.5, "b": ["x"]}));
        assert!(expected.matches(br#"{ "b": ["\u0078"], "a": 1.50 }"#));
        assert!(!expected.matches(br#"{"a":1.5,"b":["x"],"c":1}"#) && !expected.matches(br#"{"a":1.5,"b":["x"]"#));
    }
}
