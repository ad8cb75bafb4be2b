//! `acme` of a listener: certificates that are ordered from an authority (RFC 8555).

use std::env;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use crocodile_pear::unstable::config::carried_state::Carry;
use crocodile_pear::unstable::config::files::Files;
use crocodile_pear::unstable::config::problem::{Problems, Span};
use crocodile_pear::unstable::config::spec::{Located, Secret, Texts, defaults, only};
use crocodile_pear::unstable::net::tls::TlsSpec;
use crocodile_pear::unstable::upstream::{Remote, UpstreamEnvironment};
use crocodile_pear::unstable::{choice, spec};
use http::Uri;

const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// How long one call to the authority may take.
pub const CALL: Duration = Duration::from_secs(30);

spec! {
    /// Certificates that the gateway orders from a certificate authority (CA) and renews by itself (ACME, RFC 8555).
    /// By using this you agree to the terms of the CA. Short form: one domain.
    pub struct AcmeSpec {
        /// The host names, in full. The gateway orders one certificate for each. Wildcards are not possible.
        pub domains: Located<Texts>,
        /// An email address to which the CA may write about the certificates.
        pub email: Option<Located<String>>,
        /// The URL of the CA's ACME directory. Default: Let's Encrypt.
        pub directory: Located<String> = Located::new(LETS_ENCRYPT.to_owned(), Span::default()),
        /// A PEM file with the CAs to trust in calls to the directory. Default: the CAs that Mozilla trusts.
        pub ca: Option<Located<String>>,
        /// How the CA checks that the names belong to this gateway. By default the gateway tries each challenge that
        /// its listeners allow, one after the other.
        pub challenge: Option<Located<ChallengeSpec>>,
        /// The folder for accounts, keys and certificates. Default: `acme` in `$STATE_DIRECTORY` (systemd sets it),
        /// or `crocodile-pear/acme` in `$XDG_DATA_HOME` or in `~/.local/share`.
        pub folder: Option<Located<String>>,
        /// External account binding: your account at the CA, if the CA requires one.
        pub eab: Option<EabSpec>,
        /// The certificate profile to order, if the CA offers several.
        pub profile: Option<String>,
    }
    short(domain_alone)
}

fn domain_alone(domain: Located<String>, problems: &mut Problems) -> Option<AcmeSpec> {
    only([("domains", domain)], problems)
}

choice! {
    /// How an authority checks that a name leads to the gateway.
    pub enum ChallengeSpec {
        /// The CA fetches a file over HTTP from port 80 of the name. A listener without TLS answers, also one with
        /// `redirect`.
        Http01 = "http-01",
        /// The CA makes a TLS handshake with port 443 of the name. The listener itself answers.
        TlsAlpn01 = "tls-alpn-01",
    }
}

spec! {
    /// External account binding. The CA shows the values on its website.
    pub struct EabSpec {
        /// The ID of the key.
        pub key_id: String,
        /// The HMAC key, in base64url as the CA shows it.
        pub secret: Located<Secret>,
    }
}

/// The orders of a listener, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Acme {
    /// The names, in lower case.
    pub domains: Vec<String>,
    /// From whom.
    pub account: AcmeAccount,
    /// The challenges that are tried, in turn.
    pub challenges: Vec<ChallengeSpec>,
    /// The profile to ask for.
    pub profile: Option<String>,
    /// Where the directory is written, for a problem with its account.
    pub(super) span: Span,
}

/// An account at an authority.
#[derive(Clone, Debug, PartialEq)]
pub struct AcmeAccount {
    /// The URL of the authority's directory.
    pub directory: String,
    /// The authorities to trust in calls to it, as PEM.
    pub ca: Option<Vec<u8>>,
    /// The address for mail.
    pub email: Option<String>,
    /// The account at the authority that it is bound to: an identifier and a key.
    pub eab: Option<(String, Secret)>,
    /// Where everything is kept.
    pub folder: Folder,
}

/// Where accounts, keys and certificates are kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Folder {
    /// The text as written, with the number of the file that it is written in.
    Written(String, u32),
    /// Where programs keep such things.
    Usual(PathBuf),
}

/// The challenges that the listeners allow.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowedChallenges {
    /// There is a listener in clear.
    pub clear: bool,
    /// Whether a listener is at port 80.
    pub port_80: bool,
    /// Whether a listener with TLS is at port 443.
    pub port_443: bool,
}

impl AcmeSpec {
    /// Checks it; every problem is noted. `place` is that of the listener.
    pub fn compile(
        &self,
        place: Span,
        allowed: AllowedChallenges,
        files: Files<'_>,
        problems: &mut Problems,
    ) -> Option<Acme> {
        let domains = self.domains(problems);
        let email = self.email(problems);
        let eab = self.eab.as_ref().map(|eab| eab.compile(problems));
        let ca = self.authority(files, problems);
        let challenges = self.challenges(allowed, problems);
        let folder = self.folder(place, problems);
        let account = AcmeAccount {
            directory: self.directory.value.clone(),
            ca: ca?,
            email: email?,
            eab: eab.map_or(Some(None), |eab| eab.map(Some))?,
            folder: folder?,
        };
        let span = self.email.as_ref().map_or(self.domains.span, |email| email.span);
        Some(Acme { domains: domains?, account, challenges: challenges?, profile: self.profile.clone(), span })
    }

    fn domains(&self, problems: &mut Problems) -> Option<Vec<String>> {
        let written = &self.domains.value.0;
        if written.is_empty() {
            return problems.error(self.domains.span, "no name is in this list", "write `domains: [shop.example]`");
        }
        let mut domains: Vec<String> = Vec::new();
        let mut sound = true;
        for name in written {
            let read = match domain(&name.value) {
                Ok(read) if domains.contains(&read) => Err((format!("`{read}` is written twice"), "leave out one")),
                read => read,
            };
            match read {
                Ok(read) => domains.push(read),
                Err(_) if problems.found_within(name.span) => sound = false,
                Err((message, remedy)) => {
                    sound = false;
                    problems.error::<()>(name.span, message, remedy);
                }
            }
        }
        sound.then_some(domains)
    }

    fn email(&self, problems: &mut Problems) -> Option<Option<String>> {
        let Some(written) = &self.email else { return Some(None) };
        let text = written.as_str();
        let sound = |(name, host): (&str, &str)| !name.is_empty() && domain(host).is_ok();
        let plain = !text.contains(['?', ',', ';', ' ']) && !text.starts_with("mailto:");
        if plain && text.rsplit_once('@').is_some_and(sound) {
            return Some(Some(text.to_owned()));
        }
        problems.error(written.span, format!("`{text}` is not an email address"), "write `email: ops@shop.example`")
    }

    /// Whom to trust in calls to the directory.
    fn authority(&self, files: Files<'_>, problems: &mut Problems) -> Option<Option<Vec<u8>>> {
        let written = &self.directory;
        match written.value.parse::<Uri>().ok().as_ref().and_then(Uri::scheme_str) {
            Some("http") => {
                let remedy = "write an `https` URL; `ca` names the authority that its certificate is from";
                return problems.error(written.span, "the directory of a CA must be an `https` URL", remedy);
            }
            None => {
                let remedy = format!("write the URL of the authority's directory, as `{LETS_ENCRYPT}`");
                return problems.error(written.span, format!("`{written}` is not a URL"), remedy);
            }
            Some(_) => {}
        }
        let tls = TlsSpec { ca: self.ca.clone(), ..defaults() };
        let given = UpstreamEnvironment { files, resolver: None, cache: None, carry: Carry::default() };
        Remote::compile("acme", written, Some(&tls), CALL, &given, problems)?;
        Some(self.ca.as_ref().and_then(|ca| files(ca).ok()))
    }

    fn challenges(&self, allowed: AllowedChallenges, problems: &mut Problems) -> Option<Vec<ChallengeSpec>> {
        use ChallengeSpec::{Http01, TlsAlpn01};
        match &self.challenge {
            Some(written) if written.value == Http01 && !allowed.clear => {
                let remedy = "add `{ address: 0.0.0.0:80, redirect: https }` to `listen`, or write `tls-alpn-01`";
                problems.error(written.span, "`http-01` needs a listener without `tls`, and there is none", remedy)
            }
            Some(written) => Some(vec![written.value]),
            None if !allowed.clear => Some(vec![TlsAlpn01]),
            None if allowed.port_443 && !allowed.port_80 => Some(vec![TlsAlpn01, Http01]),
            None => Some(vec![Http01, TlsAlpn01]),
        }
    }

    fn folder(&self, place: Span, problems: &mut Problems) -> Option<Folder> {
        match &self.folder {
            Some(written) if written.value.is_empty() => {
                problems.error(written.span, "the folder has no name", "write `folder: /var/lib/crocodile-pear/acme`")
            }
            Some(written) => Some(Folder::Written(written.value.clone(), written.span.file)),
            None => usual(|name| env::var_os(name).map(PathBuf::from)).map(Folder::Usual).or_else(|| {
                let message = "there is no folder to keep certificates in: neither STATE_DIRECTORY nor HOME is set";
                problems.error(place, message, "add `folder: /var/lib/crocodile-pear/acme` to `acme`")
            }),
        }
    }
}

/// Where programs keep such things.
fn usual(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let given = |name| variable(name).filter(|path| path.is_absolute());
    let data = || given("XDG_DATA_HOME").or_else(|| given("HOME").map(|home| home.join(".local/share")));
    let state = given("STATE_DIRECTORY").map(|state| state.join("acme"));
    state.or_else(|| data().map(|data| data.join("crocodile-pear/acme")))
}

impl EabSpec {
    fn compile(&self, problems: &mut Problems) -> Option<(String, Secret)> {
        match key(self.secret.value.expose()) {
            Some(_) => Some((self.key_id.clone(), self.secret.value.clone())),
            None => problems.error(
                self.secret.span,
                "the `secret` of `eab` is not base64url",
                "copy it as the authority shows it",
            ),
        }
    }
}

/// The key of an external account binding. Some authorities show it in the other alphabet of base64.
pub fn key(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let read = URL_SAFE_NO_PAD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text)).ok();
    read.filter(|key| !key.is_empty())
}

const IN_FULL: &str = "write the name of a host, as `shop.example`";

/// A name that an authority may sign, in lower case; or what is wrong, and what to write.
fn domain(text: &str) -> Result<String, (String, &'static str)> {
    let wrong = |message: &str, remedy| Err((format!("`{text}`: {message}"), remedy));
    if text.contains('*') {
        let remedy = "name each host, or give a certificate file (`certificates`)";
        return wrong("a wildcard needs the challenge DNS-01, which the gateway does not support", remedy);
    }
    if text.contains("://") || text.contains('/') {
        return wrong("a URL is not a name", IN_FULL);
    }
    if text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
        return wrong("certificates are ordered for names, not for addresses", IN_FULL);
    }
    if text.contains(':') {
        return wrong("a name has no port", "leave out the port");
    }
    if !text.is_ascii() {
        return wrong("certificates have names in ASCII", "write it as DNS has it: `xn--…`");
    }
    let byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let label = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(byte) && !label.starts_with('-') && !label.ends_with('-')
    };
    match text.len() <= 253 && text.split('.').all(label) {
        true => Ok(text.to_ascii_lowercase()),
        false => wrong("this is not the name of a host", IN_FULL),
    }
}

#[cfg(test)]
mod tests {
    use super::super::acme::*;

    #[test]
    fn a_folder_is_where_programs_keep_such_things() {
        let usual = |set: &[(&str, &str)]| {
            let found = usual(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()));
            found.map(|path| path.display().to_string())
        };
        assert_eq!(usual(&[("STATE_DIRECTORY", "/s"), ("HOME", "/h")]).as_deref(), Some("/s/acme"));
        assert_eq!(usual(&[("XDG_DATA_HOME", "/x"), ("HOME", "/h")]).as_deref(), Some("/x/crocodile-pear/acme"));
        assert_eq!(usual(&[("HOME", "/h")]).as_deref(), Some("/h/.local/share/crocodile-pear/acme"));
        assert_eq!(usual(&[("HOME", "")]), None);
    }

    #[test]
    fn what_is_tried_first_is_what_the_ports_allow() {
        use ChallengeSpec::{Http01, TlsAlpn01};
        let spec: AcmeSpec = AcmeSpec { domains: Located::new(Texts(Vec::new()), Span::default()), ..blank() };
        let tried = |clear, port_80, port_443| {
            spec.challenges(AllowedChallenges { clear, port_80, port_443 }, &mut Problems::default())
        };
        assert_eq!(tried(true, true, true), Some(vec![Http01, TlsAlpn01]));
        assert_eq!(tried(true, false, true), Some(vec![TlsAlpn01, Http01]));
        assert_eq!(tried(true, false, false), Some(vec![Http01, TlsAlpn01]));
        assert_eq!(tried(false, false, true), Some(vec![TlsAlpn01]));
        assert_eq!(tried(false, false, false), Some(vec![TlsAlpn01]));
    }

    fn blank() -> AcmeSpec {
        let name = Located::new("shop.example".to_owned(), Span::default());
        domain_alone(name, &mut Problems::default()).expect("one name is enough")
    }
}
