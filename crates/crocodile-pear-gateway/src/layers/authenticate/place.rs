//! Where a request carries a credential.

use std::borrow::Cow;

use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::request::credentials::Credentials;
use http::HeaderName;
use http::header::AUTHORIZATION;
use percent_encoding::percent_decode_str;

use super::method::Outcome;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialPlace {
    /// A header field.
    Header(HeaderName),
    /// A parameter of the query.
    Query(String),
    Cookie(String),
}

#[derive(Debug, PartialEq, Eq)]
pub enum FoundCredential<'a> {
    /// No credential.
    None,
    One(Cow<'a, [u8]>),
    /// More than one, so it is ambiguous which one counts.
    Several,
}

impl<'a> FoundCredential<'a> {
    fn of(mut found: impl Iterator<Item = Cow<'a, [u8]>>) -> Self {
        match (found.next(), found.next()) {
            (None, _) => FoundCredential::None,
            (Some(one), None) if one.is_empty() => FoundCredential::None,
            (Some(one), None) => FoundCredential::One(one),
            (Some(_), Some(_)) => FoundCredential::Several,
        }
    }
}

impl CredentialPlace {
    pub fn find<'a>(&self, scope: &'a Scope) -> FoundCredential<'a> {
        match self {
            CredentialPlace::Header(name) => {
                FoundCredential::of(scope.headers().get_all(name).iter().map(|value| value.as_bytes().into()))
            }
            CredentialPlace::Query(name) => {
                let pairs = scope.query().unwrap_or_default().split('&');
                let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
                FoundCredential::of(
                    pairs.filter(|(key, _)| *decode(key) == *name.as_bytes()).map(|(_, value)| decode(value)),
                )
            }
            CredentialPlace::Cookie(name) => {
                let named = scope.cookies().filter(|(known, _)| *known == name.as_bytes());
                FoundCredential::of(named.map(|(_, value)| Cow::Borrowed(value)))
            }
        }
    }

    /// Adds this place to the places of credentials.
    pub fn note(&self, credentials: &mut Credentials) {
        match self {
            CredentialPlace::Header(name) => credentials.headers.push(name.clone()),
            CredentialPlace::Query(name) => credentials.query.push(name.clone()),
            CredentialPlace::Cookie(name) => credentials.cookies.push(name.clone()),
        }
    }

    /// Its kind and its name.
    pub fn parts(&self) -> (&'static str, &str) {
        match self {
            CredentialPlace::Header(name) => ("header", name.as_str()),
            CredentialPlace::Query(name) => ("query", name),
            CredentialPlace::Cookie(name) => ("cookie", name),
        }
    }
}

/// Decodes a part of a query as in HTML forms.
fn decode(text: &str) -> Cow<'_, [u8]> {
    match text.contains('+') {
        false => percent_decode_str(text).into(),
        true => percent_decode_str(&text.replace('+', " ")).collect::<Vec<u8>>().into(),
    }
}

/// The credential in the `authorization` field, if it has this scheme.
///
/// # Errors
/// The outcome if there is no such field, or more than one: whatever their schemes are, it is ambiguous which one
/// counts.
pub fn authorization<'a>(scope: &'a Scope, scheme: &str) -> Result<&'a [u8], Outcome> {
    let mut fields = scope.headers().get_all(AUTHORIZATION).iter().map(http::HeaderValue::as_bytes);
    let field = match (fields.next(), fields.next()) {
        (Some(field), None) => field,
        (None, _) => return Err(Outcome::Absent),
        (Some(_), Some(_)) => return Err(Outcome::Refused("the request has two `authorization` fields")),
    };
    let end = field.iter().position(|byte| *byte == b' ').unwrap_or(field.len());
    let (named, rest) = field.split_at(end);
    match named.eq_ignore_ascii_case(scheme.as_bytes()) {
        true => Ok(rest.trim_ascii()),
        false => Err(Outcome::Absent),
    }
}

#[cfg(test)]
mod tests {
    use crocodile_pear::unstable::message::body::AnswerBody;
    use http::{HeaderMap, HeaderValue, Method};

    use super::*;

    fn scope(target: &'static str, fields: &[(&'static str, &'static str)]) -> Scope {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let target = http::uri::PathAndQuery::from_static(target);
        Scope::new(Method::GET, Some(target), headers, AnswerBody::empty())
    }

    fn one(text: &str) -> FoundCredential<'_> {
        FoundCredential::One(text.as_bytes().into())
    }

    #[test]
    fn a_credential_in_the_query_is_decoded() {
        let key = CredentialPlace::Query("key".to_owned());
        assert_eq!(key.find(&scope("/a?x=1&k%65y=a%2Bb+c", &[])), one("a+b c"));
        assert_eq!(key.find(&scope("/a?keys=1", &[])), FoundCredential::None);
        assert_eq!(key.find(&scope("/a?key=", &[])), FoundCredential::None);
        assert_eq!(key.find(&scope("/a?key=1&key=1", &[])), FoundCredential::Several);
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let session = CredentialPlace::Cookie("session".to_owned());
        assert_eq!(session.find(&scope("/", &[("cookie", "a=1; session=\"s=1\"; b")])), one("s=1"));
        assert_eq!(session.find(&scope("/", &[("cookie", "Session=1; xsession=2")])), FoundCredential::None);
        assert_eq!(
            session.find(&scope("/", &[("cookie", "session=1"), ("cookie", "session=2")])),
            FoundCredential::Several
        );
    }

    #[test]
    fn a_scheme_is_known_in_any_case() {
        let read = |field: &'static str| authorization(&scope("/", &[("authorization", field)]), "bearer").is_ok();
        assert!(read("Bearer a") && read("BEARER  a") && read("bearer a"));
        assert!(!read("Basic a") && !read("Bearera") && !read(" Bear er"));
        let twice = scope("/", &[("authorization", "Basic a"), ("authorization", "Bearer b")]);
        assert!(matches!(authorization(&twice, "bearer"), Err(Outcome::Refused(_))));
        assert!(matches!(authorization(&scope("/", &[]), "bearer"), Err(Outcome::Absent)));
    }
}
