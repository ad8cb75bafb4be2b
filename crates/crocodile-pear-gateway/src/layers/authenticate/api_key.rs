//! `api_key`: a secret text that identifies a client. The gateway knows only the hashes of the keys.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use crocodile_pear::unstable::config::problem::{Problems, Span};
use crocodile_pear::unstable::config::spec;
use crocodile_pear::unstable::config::spec::{Decode, Literal, Located, only};
use crocodile_pear::unstable::jq::Value;
use crocodile_pear::unstable::json;
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::request::credentials::Credentials;
use crocodile_pear::unstable::runtime::hex;
use crocodile_pear::unstable::spec;
use http::{HeaderName, HeaderValue};
use ring::digest;
use subtle::ConstantTimeEq;

use super::method::{Judgement, Method, Outcome, challenge};
use super::place::{CredentialPlace, FoundCredential};
use crate::config;
use crate::layer::Compile;
use crate::runtime::watched_file::WatchedFile;

spec! {
    /// An API key in a header field, in the query or in a cookie.
    pub struct ApiKey {
        /// The header field with the key.
        pub header: Option<Located<String>>,
        /// The query parameter with the key.
        pub query: Option<Located<String>>,
        /// The cookie with the key.
        pub cookie: Option<Located<String>>,
        /// The file with the keys: a list of `{ sha256: HEX, claims: { … } }`. `printf %s KEY | sha256sum` gives the
        /// SHA-256 of a key. `claims` become `$claims`. The gateway watches the file; a change applies without a
        /// reload.
        pub keys: Located<String>,
        /// The `realm` in 401 answers.
        pub realm: String = "api".to_owned(),
    }
}

impl ApiKey {
    pub fn compile(&self, cx: &mut Compile<'_>) -> Option<Box<dyn Method>> {
        let place = self.place(cx.problems);
        let keys = cx.watch(&self.keys, ApiKeys::parse);
        let (place, keys) = (place?, keys?);
        let (kind, name) = place.parts();
        let challenge = challenge("ApiKey", &[("realm", &self.realm), ("in", kind), ("name", name)]);
        Some(Box::new(ReadyApiKey { place, keys, challenge }))
    }

    fn place(&self, problems: &mut Problems) -> Option<CredentialPlace> {
        let written = [&self.header, &self.query, &self.cookie].into_iter().flatten().collect::<Vec<_>>();
        match written.as_slice() {
            [_] => {}
            [] => {
                let message = "the place of the key in a request is missing";
                return problems.error(self.keys.span, message, "add `header: x-api-key`, beside `keys`");
            }
            [_, second, ..] => {
                let remedy =
                    "keep one of `header`, `query` and `cookie`; for both, write two methods: `- api_key:` twice";
                return problems.error(second.span, "the key of a request is in one place", remedy);
            }
        }
        if let Some(written) = &self.header {
            return match HeaderName::from_bytes(written.value.as_bytes()) {
                Ok(name) => Some(CredentialPlace::Header(name)),
                Err(_) => {
                    let message = format!("`{written}` is not the name of a header field");
                    problems.error(written.span, message, "names are of letters, digits and `-`")
                }
            };
        }
        let named = |written: &Located<String>, problems: &mut Problems| {
            let plain = |byte: u8| byte.is_ascii_graphic() && !b"\"\\=;,&".contains(&byte);
            if !written.value.is_empty() && written.value.bytes().all(plain) {
                return Some(written.value.clone());
            }
            let remedy = "names are of letters, digits, `-` and `_`";
            problems.error(written.span, format!("`{written}` is not a name"), remedy)
        };
        match (&self.query, &self.cookie) {
            (Some(written), _) => named(written, problems).map(CredentialPlace::Query),
            (None, Some(written)) => named(written, problems).map(CredentialPlace::Cookie),
            (None, None) => None,
        }
    }
}

/// The compiled method.
struct ReadyApiKey {
    place: CredentialPlace,
    keys: Arc<WatchedFile<ApiKeys>>,
    challenge: Option<HeaderValue>,
}

impl Method for ReadyApiKey {
    fn judge<'a>(&'a self, scope: &Scope) -> Judgement<'a> {
        Judgement::Now(match self.place.find(scope) {
            FoundCredential::None => Outcome::Absent,
            FoundCredential::Several => Outcome::Refused("the request has more than one API key"),
            FoundCredential::One(key) => match self.keys.load().find(&key) {
                Some(claims) => Outcome::Granted(claims),
                None => Outcome::Refused("the API key is not valid"),
            },
        })
    }

    fn challenge(&self, _: Option<&'static str>) -> Option<HeaderValue> {
        self.challenge.clone()
    }

    fn places(&self, credentials: &mut Credentials) {
        self.place.note(credentials);
    }

    fn is_ambient(&self) -> bool {
        matches!(self.place, CredentialPlace::Cookie(_))
    }

    fn outline(&self) -> String {
        let (kind, name) = self.place.parts();
        format!("an API key in {} `{name}`", if kind == "query" { "the query," } else { kind })
    }
}

/// The keys of a file.
struct ApiKeys(HashMap<Sum, Value>);

spec! {
    /// A key. Written short as its hash alone.
    struct KeySpec {
        /// The SHA-256 of the key, 64 hexadecimal digits.
        sha256: Located<String>,
        /// The value of `$claims` for requests with this key.
        claims: Option<Located<Literal>>,
    }
    short(sum)
}

fn sum(text: Located<String>, problems: &mut Problems) -> Option<KeySpec> {
    only([("sha256", text)], problems)
}

impl ApiKeys {
    /// Reads a file. The error says what is wrong and never quotes anything that could be a key.
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
        let (node, _, mut problems) = config::parse("", text, &|_| None);
        let keys = node.and_then(|node| ApiKeys::read(&node, &mut problems));
        match problems.into_sorted().first() {
            None => keys.ok_or_else(|| "it cannot be read".to_owned()),
            Some(problem) => {
                let remedy = problem.remedy.iter().map(|remedy| format!(" ({remedy})")).collect::<String>();
                Err(format!("line {}: {}{remedy}", problem.span.line, problem.message))
            }
        }
    }

    fn read(node: &spec::Node, problems: &mut Problems) -> Option<Self> {
        const FORM: &str = "write `- { sha256: HEX, claims: { … } }` for each key";
        let Some(items) = node.as_list() else {
            return problems.error(node.span, "the keys are not a list", FORM);
        };
        let mut keys: HashMap<Sum, (Value, Span)> = HashMap::new();
        for item in items {
            let Some(key) = KeySpec::decode(item, problems) else { continue };
            let Some(sum) = Sum::read(&key.sha256.value) else {
                let remedy = "write 64 hexadecimal digits, as `printf %s KEY | sha256sum` prints them";
                problems.error::<()>(key.sha256.span, "this is not the SHA-256 of a key", remedy);
                continue;
            };
            let written = key.claims.as_ref().map_or("{}", |claims| claims.value.as_str());
            let claims = json::read(&Bytes::from(written.to_owned())).ok().filter(|_| written.starts_with('{'));
            let Some(claims) = claims else {
                let span = key.claims.as_ref().map_or(item.span, |claims| claims.span);
                problems.error::<()>(span, "`claims` is not a map", "write it as `claims: { name: value }`");
                continue;
            };
            if let Some((_, first)) = keys.insert(sum, (claims, key.sha256.span)) {
                let message = format!("this key is there already, in line {}", first.line);
                problems.error::<()>(key.sha256.span, message, "leave out one of the two");
            }
        }
        Some(ApiKeys(keys.into_iter().map(|(sum, (claims, _))| (sum, claims)).collect()))
    }

    fn find(&self, key: &[u8]) -> Option<Value> {
        let sum = digest::digest(&digest::SHA256, key);
        self.0.get(&Sum(sum.as_ref().try_into().ok()?)).cloned()
    }
}

/// A SHA-256. The map hashes it again with a random key and compares it in constant time, so the duration of a lookup
/// reveals nothing about the stored sums.
#[derive(Clone, Copy, Eq)]
struct Sum([u8; 32]);

impl Sum {
    fn read(digits: &str) -> Option<Self> {
        hex::array(digits.as_bytes()).map(Sum)
    }
}

impl PartialEq for Sum {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Hash for Sum {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The SHA-256 of `secret`.
    const SUM: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

    fn wrong(file: &str) -> String {
        ApiKeys::parse(file.as_bytes()).err().unwrap_or_default()
    }

    #[test]
    fn a_key_is_found_by_its_hash() {
        let keys = ApiKeys::parse(format!("- {{ sha256: {SUM}, claims: {{ plan: gold, n: 1 }} }}\n").as_bytes())
            .expect("good");
        let claims = keys.find(b"secret").expect("a key").to_string();
        assert_eq!(claims, r#"{"plan":"gold","n":1}"#);
        assert!(keys.find(b"Secret").is_none() && keys.find(b"").is_none() && keys.find(SUM.as_bytes()).is_none());
        let short = ApiKeys::parse(format!("- {}\n", SUM.to_uppercase()).as_bytes()).expect("good");
        assert_eq!(short.find(b"secret").expect("a key").to_string(), "{}");
        assert!(ApiKeys::parse(b"[]").expect("good").0.is_empty());
    }

    #[test]
    fn a_broken_file_is_told_with_its_line_and_without_its_keys() {
        assert!(wrong("").contains("not a list"), "{}", wrong(""));
        assert!(wrong("a: b").contains("not a list"));
        let plain = wrong("- { sha256: my-secret-key }\n");
        assert!(
            plain.starts_with("line 1: this is not the SHA-256 of a key") && !plain.contains("my-secret"),
            "{plain}"
        );
        assert!(!wrong("- my-secret-key\n").contains("my-secret"));
        assert!(!wrong("- [my-secret-key]\n").contains("my-secret"), "{}", wrong("- [my-secret-key]\n"));
        assert!(wrong(&format!("- {SUM}\n- {SUM}\n")).starts_with("line 2: this key is there already, in line 1"));
        assert!(wrong(&format!("- {{ sha256: {SUM}, claims: gold }}\n")).contains("`claims` is not a map"));
        assert!(wrong("- { sha256: \"").starts_with("line "), "{}", wrong("- { sha256: \""));
    }
}
