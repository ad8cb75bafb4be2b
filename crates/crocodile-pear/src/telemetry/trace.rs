//! To which trace a request belongs: W3C Trace Context, Level 2.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};

use crate::runtime::hex;

pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The trace is recorded (3.2.2.5.1).
const SAMPLED: u8 = 1;

/// Its id is random (3.2.2.5.2).
const RANDOM: u8 = 2;

/// The most entries of `tracestate` (3.3.1.1).
const ENTRIES: usize = 32;

/// A trace, as one request belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    id: [u8; 32],
    parent: Option<u64>,
    own: u64,
    flags: u8,
    state: Option<HeaderValue>,
}

/// The trace context of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteContext {
    id: [u8; 32],
    span: u64,
    flags: u8,
    state: Option<HeaderValue>,
}

impl RemoteContext {
    /// The context in the header fields; `None` where it is not well formed: then a new trace begins (4.3).
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        let mut all = headers.get_all(TRACEPARENT).iter();
        let (Some(parent), None) = (all.next(), all.next()) else { return None };
        let given = parse(parent.as_bytes())?;
        Some(RemoteContext { state: state(headers), ..given })
    }

    /// Whether the client's trace is recorded.
    pub fn sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }
}

impl Trace {
    /// The trace that a client's request belongs to.
    pub fn from_remote(given: RemoteContext) -> Self {
        let RemoteContext { id, span, flags, state } = given;
        // Flags of versions that are not known are not sent on (3.2.2.5.3).
        Trace { id, parent: Some(span), own: span_id(), flags: flags & (SAMPLED | RANDOM), state }
    }

    /// A new one with this id, random hexadecimal digits.
    pub fn new(id: [u8; 32]) -> Self {
        Trace { id, parent: None, own: span_id(), flags: RANDOM, state: None }
    }

    /// Says whether it is recorded, so that those that are called record it too.
    pub fn set_sampled(&mut self, sampled: bool) {
        self.flags = self.flags & !SAMPLED | u8::from(sampled);
    }

    /// Whether it is recorded.
    pub fn sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Its id, in hexadecimal digits.
    pub fn id(&self) -> &str {
        std::str::from_utf8(&self.id).expect("hexadecimal digits are ASCII")
    }

    /// The same, as bytes.
    pub fn digits(&self) -> &[u8; 32] {
        &self.id
    }

    /// The span of the client, where it is the client's trace.
    pub fn parent(&self) -> Option<u64> {
        self.parent
    }

    /// The span of the request.
    pub fn own(&self) -> u64 {
        self.own
    }

    /// The flags, as they are sent on.
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// `tracestate`, as it is sent on.
    pub fn state(&self) -> Option<&HeaderValue> {
        self.state.as_ref()
    }

    /// Puts it into the header fields of a call whose span this is.
    pub fn insert(&self, span: u64, headers: &mut HeaderMap) {
        let value = HeaderValue::from_bytes(&self.text(span)).expect("hexadecimal digits are ASCII");
        headers.insert(TRACEPARENT, value);
        match &self.state {
            Some(state) => drop(headers.insert(TRACESTATE, state.clone())),
            None => drop(headers.remove(TRACESTATE)),
        }
    }

    /// Writes it as lines of a head; those that stood in `headers` are not sent.
    pub(crate) fn write(&self, span: u64, headers: &mut HeaderMap, head: &mut Vec<u8>) {
        if !headers.is_empty() {
            headers.remove(TRACEPARENT);
            headers.remove(TRACESTATE);
        }
        head.extend_from_slice(b"traceparent: ");
        head.extend_from_slice(&self.text(span));
        if let Some(state) = &self.state {
            head.extend_from_slice(b"\r\ntracestate: ");
            head.extend_from_slice(state.as_bytes());
        }
        head.extend_from_slice(b"\r\n");
    }

    /// `traceparent` (3.2).
    fn text(&self, span: u64) -> [u8; 55] {
        let mut text = [b'0'; 55];
        text[2] = b'-';
        text[3..35].copy_from_slice(&self.id);
        text[35] = b'-';
        text[36..52].copy_from_slice(&hex::digits(span));
        text[52] = b'-';
        text[54] = b'0' + self.flags;
        text
    }

    /// Whether it is among a share of all traces, told in 2^56: what others that see its id choose too.
    pub fn among(&self, share: u64) -> bool {
        let (_, last) = self.id.split_last_chunk().expect("it has 32 digits");
        hex::number(last) & (u64::MAX >> 8) < share
    }
}

/// An id for a span that nobody else makes.
pub fn span_id() -> u64 {
    thread_local! {
        /// Begins where no other thread or process does.
        static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(()));
    }
    // SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): no number comes twice.
    let state = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    // Zero is no id.
    (mixed ^ mixed >> 31).max(1)
}

/// A `traceparent` (3.2). What versions to come add behind it is left out.
fn parse(text: &[u8]) -> Option<RemoteContext> {
    let (known, more) = text.split_at_checked(55)?;
    let dashes = [2, 35, 52].iter().all(|at| known[*at] == b'-');
    let version = number(&known[..2])?;
    let fits = match version {
        0 => more.is_empty(),
        0xff => false,
        _ => more.is_empty() || more[0] == b'-',
    };
    let id: [u8; 32] = known[3..35].try_into().ok()?;
    let good = id.iter().all(|digit| value(*digit).is_some()) && id.iter().any(|digit| *digit != b'0');
    let (span, flags) = (number(&known[36..52])?, number(&known[53..55])?);
    let flags = u8::try_from(flags).ok()?;
    (dashes && fits && good && span != 0).then_some(RemoteContext { id, span, flags, state: None })
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |number, digit| Some(number << 4 | u64::from(value(*digit)?)))
}

/// A digit in lower case: others are not allowed (3.2.1).
fn value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// `tracestate` in one line (3.3); nothing, where it is not well formed.
fn state(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut whole = String::new();
    let mut keys = Vec::new();
    for line in headers.get_all(TRACESTATE) {
        for entry in line.to_str().ok()?.split(',') {
            let entry = entry.trim_matches([' ', '\t']);
            if entry.is_empty() {
                continue;
            }
            let (key, value) = entry.split_once('=')?;
            if !is_key(key) || !is_value(value) || keys.contains(&key) || keys.len() == ENTRIES {
                return None;
            }
            keys.push(key);
            whole.push_str(if whole.is_empty() { "" } else { "," });
            whole.push_str(entry);
        }
    }
    (!whole.is_empty()).then(|| HeaderValue::from_str(&whole).ok())?
}

fn is_key(key: &str) -> bool {
    let first = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let later = |byte: u8| first(byte) || b"_-*/@".contains(&byte);
    key.len() <= 256 && key.bytes().next().is_some_and(first) && key.bytes().all(later)
}

fn is_value(value: &str) -> bool {
    (1..=256).contains(&value.len()) && value.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'=')
}

#[cfg(test)]
mod tests {
    use super::super::trace::*;

    const ID: &str = "0af7651916cd43dd8448eb211c80319c";

    fn headers(fields: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, value.parse().expect("a value"));
        }
        headers
    }

    fn read(parent: &str) -> Option<RemoteContext> {
        RemoteContext::read(&headers(&[(TRACEPARENT, parent)]))
    }

    fn states(lines: &[&str]) -> Option<String> {
        let parent = format!("00-{ID}-b7ad6b7169203331-01");
        let mut fields = vec![(TRACEPARENT, parent.as_str())];
        fields.extend(lines.iter().map(|line| (TRACESTATE, *line)));
        let state = RemoteContext::read(&headers(&fields)).expect("well formed").state;
        state.map(|state| state.to_str().expect("text").to_owned())
    }

    #[test]
    fn a_trace_goes_on_with_its_id_and_its_flags() {
        let given = read(&format!("00-{ID}-b7ad6b7169203331-01")).expect("well formed");
        assert!(given.sampled());
        let trace = Trace::from_remote(given);
        assert_eq!((trace.id(), trace.parent(), trace.flags()), (ID, Some(0xb7ad_6b71_6920_3331), 1));
        let mut sent = headers(&[(TRACEPARENT, "old"), (TRACESTATE, "old=1")]);
        trace.insert(0x00f0_67aa_0ba9_02b7, &mut sent);
        assert_eq!(sent[TRACEPARENT], format!("00-{ID}-00f067aa0ba902b7-01"));
        assert!(!sent.contains_key(TRACESTATE));
    }

    /// The cases of the W3C's own test suite, and more.
    #[test]
    fn what_is_not_well_formed_begins_anew() {
        for wrong in [
            "",
            "00",
            "xx-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "000-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-B7AD6B7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0A",
            "00-0af7651916cd43dd8448eb211c80319.-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333.-01",
            "00-0af7651916cd43dd8448eb211c8031-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b71692033-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-001",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
            "00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01",
            "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.what",
        ] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
        let good = format!("00-{ID}-b7ad6b7169203331-01");
        assert_eq!(RemoteContext::read(&headers(&[(TRACEPARENT, &good), (TRACEPARENT, &good)])), None);
    }

    #[test]
    fn a_version_to_come_is_read_as_far_as_it_is_known() {
        for more in ["", "-what-the-future-brings"] {
            let given = read(&format!("cc-{ID}-b7ad6b7169203331-ff{more}")).expect("well formed");
            assert_eq!(Trace::from_remote(given).flags(), SAMPLED | RANDOM);
        }
    }

    #[test]
    fn states_are_joined_and_dropped_where_they_are_wrong() {
        assert_eq!(states(&["a=1,b=2", " c=3 ,, d@e=4\t"]).as_deref(), Some("a=1,b=2,c=3,d@e=4"));
        assert_eq!(states(&[]), None);
        let many: Vec<String> = (0..33).map(|at| format!("k{at}=1")).collect();
        assert_eq!(states(&[&many[..32].join(",")]), Some(many[..32].join(",")));
        for wrong in ["a", "a=1,a=2", "A=1", "a==", "=1", "a=", "a=b=c", "a 1=1", &many.join(","), &"k".repeat(300)] {
            assert_eq!(states(&[wrong]), None, "{wrong}");
        }
    }

    #[test]
    fn a_share_of_the_traces_is_chosen_by_their_ids() {
        let trace = |id: &str| Trace::new(id.as_bytes().try_into().expect("32 digits"));
        let half = 1 << 55;
        assert!(trace("ffffffffffffffffff7fffffffffffff").among(half));
        assert!(!trace("00000000000000000080000000000000").among(half));
        assert!(!trace(ID).among(0) && trace("ffffffffffffffffffffffffffffffff").among(1 << 56));
    }

    #[test]
    fn a_line_of_the_head_takes_the_place_of_a_field() {
        let state = headers(&[(TRACEPARENT, &format!("00-{ID}-b7ad6b7169203331-01")), (TRACESTATE, "a=1")]);
        let trace = Trace::from_remote(RemoteContext::read(&state).expect("well formed"));
        let mut sent = headers(&[(TRACEPARENT, "old"), (TRACESTATE, "old=1"), (HeaderName::from_static("x"), "1")]);
        let mut head = Vec::new();
        trace.write(0x00f0_67aa_0ba9_02b7, &mut sent, &mut head);
        let lines = format!("traceparent: 00-{ID}-00f067aa0ba902b7-01\r\ntracestate: a=1\r\n");
        assert_eq!((head, sent.len()), (lines.into_bytes(), 1));
    }

    #[test]
    fn ids_of_spans_differ() {
        let ids: std::collections::HashSet<u64> = (0..10_000).map(|_| span_id()).collect();
        assert!(ids.len() == 10_000 && !ids.contains(&0));
    }
}
