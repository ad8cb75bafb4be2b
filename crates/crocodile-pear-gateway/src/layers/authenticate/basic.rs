//! `basic`: user name and password (RFC 7617), checked against a file of slow hashes.

mod hash;
mod pool;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use crocodile_pear::unstable::config::spec::Located;
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::jq;
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::request::credentials::Credentials;
use crocodile_pear::unstable::spec;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use ring::hmac;
use ring::rand::SystemRandom;

use self::hash::PasswordHash;
use super::method::{Judgement, Method, Outcome, challenge};
use super::place::authorization;
use super::remembered::{Hash, Remembered, now};
use crate::layer::Compile;
use crate::runtime::watched_file::WatchedFile;

spec! {
    /// HTTP basic authentication, with user name and password. `$claims.sub` is the user name.
    pub struct Basic {
        /// The file with the users, one `USER:HASH` per line, as `htpasswd -B` writes it. Hashes are bcrypt or
        /// argon2. The gateway watches the file; a change applies without a reload.
        pub users: Located<String>,
        /// How long to remember a password that was correct. Checking a password takes long on purpose.
        pub remember: Duration = Duration::from_secs(300),
        /// The `realm` in 401 answers. Browsers show it when they ask for the password.
        pub realm: String = "api".to_owned(),
    }
}

impl Basic {
    pub fn compile(&self, cx: &mut Compile<'_>) -> Option<Box<dyn Method>> {
        let users = cx.watch(&self.users, Users::parse)?;
        let known = cx.carry.try_state(|| {
            hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
                .map(|key| CheckedPasswords { key, tags: Remembered::default() })
        });
        let Ok(known) = known else {
            return cx.problems.error(self.users.span, "the system has no random numbers", "");
        };
        let challenge = challenge("Basic", &[("realm", &self.realm), ("charset", "UTF-8")]);
        Some(Box::new(ReadyBasic { users, known, remember: self.remember.as_secs(), challenge }))
    }
}

/// Results of checked passwords.
struct CheckedPasswords {
    /// The random key of the remembered results. It is stored nowhere else, and they are useless without it.
    key: hmac::Key,
    tags: Remembered<()>,
}

/// The compiled method.
struct ReadyBasic {
    users: Arc<WatchedFile<Users>>,
    known: Arc<CheckedPasswords>,
    /// In seconds.
    remember: u64,
    challenge: Option<HeaderValue>,
}

impl Method for ReadyBasic {
    fn judge<'a>(&'a self, scope: &Scope) -> Judgement<'a> {
        let credential = match authorization(scope, "basic") {
            Ok(credential) => credential,
            Err(outcome) => return Judgement::Now(outcome),
        };
        let Some((user, password)) = read(credential) else {
            return Judgement::Now(Outcome::Refused("the credential is not well formed"));
        };
        let users = self.users.load();
        let (hash, is_user) = match users.find(&user) {
            Some(known) => known,
            None => return Judgement::Now(Outcome::Refused(WRONG)),
        };
        let tag = self.tag(&user, &password, &hash);
        if is_user && self.known.tags.find(&tag, now()).is_some() {
            return Judgement::Now(granted(&user));
        }
        Judgement::Wait(Box::pin(async move {
            let Some(right) = pool::run(move || hash.fits(password.as_bytes())).await else {
                let error = Error::new(Kind::Busy, "too many passwords are being checked");
                return Outcome::Unavailable(error);
            };
            if !right || !is_user {
                return Outcome::Refused(WRONG);
            }
            self.known.tags.keep(tag, now() + self.remember, ());
            granted(&user)
        }))
    }

    fn challenge(&self, _: Option<&'static str>) -> Option<HeaderValue> {
        self.challenge.clone()
    }

    fn places(&self, credentials: &mut Credentials) {
        credentials.headers.push(AUTHORIZATION);
    }

    fn is_ambient(&self) -> bool {
        true
    }

    fn outline(&self) -> String {
        "a user and a password".to_owned()
    }
}

/// The same text for an unknown user.
const WRONG: &str = "the user or the password is wrong";

fn granted(user: &str) -> Outcome {
    Outcome::Granted(jq::object([("sub", jq::string(user))]))
}

impl ReadyBasic {
    /// The key under which a correct password is remembered. A new hash in the file changes it.
    fn tag(&self, user: &str, password: &str, hash: &PasswordHash) -> Hash {
        let mut context = hmac::Context::with_key(&self.known.key);
        for part in [user, password, hash.as_str()] {
            context.update(&part.len().to_be_bytes());
            context.update(part.as_bytes());
        }
        let mut tag = [0; 32];
        tag.copy_from_slice(context.sign().as_ref());
        tag
    }
}

/// Some clients leave out the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Reads the user name and the password.
fn read(credential: &[u8]) -> Option<(String, String)> {
    let text = String::from_utf8(BASE64.decode(credential).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

/// The users of a file.
struct Users {
    hashes: HashMap<String, Arc<PasswordHash>>,
    /// All hashes, in file order. An unknown user is checked against one of them.
    decoys: Vec<Arc<PasswordHash>>,
    /// Chooses that hash.
    choice: RandomState,
}

impl Users {
    /// Reads a file. The error says what is wrong and never quotes a hash.
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
        let mut users = Users { hashes: HashMap::new(), decoys: Vec::new(), choice: RandomState::new() };
        for (at, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((user, hash)) = line.split_once(':').filter(|(user, _)| !user.is_empty()) else {
                return Err(format!("line {at} is not `USER:HASH`; `htpasswd -nB USER` writes such a line"));
            };
            let hash =
                PasswordHash::read(hash).map_err(|reason| format!("line {at}: the hash of `{user}` {reason}"))?;
            let hash = Arc::new(hash);
            users.decoys.push(hash.clone());
            if users.hashes.insert(user.to_owned(), hash).is_some() {
                return Err(format!("line {at}: the user `{user}` is there already"));
            }
        }
        Ok(users)
    }

    /// The hash of a user, and whether the user exists. An unknown user gets the hash of another user, always the same
    /// one, so that the check takes as long as for existing users. `None` if there are no users.
    fn find(&self, user: &str) -> Option<(Arc<PasswordHash>, bool)> {
        if let Some(hash) = self.hashes.get(user) {
            return Some((hash.clone(), true));
        }
        let at = self.choice.hash_one(user) % u64::try_from(self.decoys.len().max(1)).ok()?;
        Some((self.decoys.get(usize::try_from(at).ok()?)?.clone(), false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash as `htpasswd -nbB -C 4` writes it.
    const BCRYPT: &str = "$2y$04$iF2pwid41Z6xfORn.dvEP.7ZyMCq/dFZ2PCoa9D2hlCf5YusrT/Oe";

    fn wrong(file: &str) -> String {
        Users::parse(file.as_bytes()).err().unwrap_or_default()
    }

    #[test]
    fn a_broken_file_is_told_with_its_line_and_without_its_hashes() {
        for (file, told) in [
            ("ada\n", "line 1 is not `USER:HASH`; `htpasswd -nB USER` writes such a line"),
            ("# users\n\n:x\n", "line 3 is not `USER:HASH`; `htpasswd -nB USER` writes such a line"),
            (
                "ada:secret\n",
                "line 1: the hash of `ada` is neither bcrypt nor argon2; `htpasswd -B FILE USER` makes a good one",
            ),
            (
                "ada:$apr1$a$b\n",
                "line 1: the hash of `ada` is of MD5, which is broken; `htpasswd -B FILE USER` makes a good one",
            ),
            (
                "ada:{SHA}x\n",
                "line 1: the hash of `ada` is of SHA-1, which is broken; `htpasswd -B FILE USER` makes a good one",
            ),
            ("ada:$2y$10$short\n", "line 1: the hash of `ada` is not whole"),
            ("ada:$argon2id$v=19$m=8\n", "line 1: the hash of `ada` is not whole"),
        ] {
            assert_eq!(wrong(file), told);
        }
        assert_eq!(
            wrong(&format!("ada:{BCRYPT}\nbob:{BCRYPT}\nada:{BCRYPT}")),
            "line 3: the user `ada` is there already"
        );
        let costly = BCRYPT.replace("$04$", "$20$");
        assert!(wrong(&format!("ada:{costly}")).contains("costs too much"), "{}", wrong(&format!("ada:{costly}")));
        let costly = "$argon2id$v=19$m=4194304,t=3,p=1$c29tZXNhbHRzYWx0$UM8PsgMgdcNbH5wwHDgmGJZZeYwkDrPMQZaVZgqeIQk";
        assert!(wrong(&format!("ada:{costly}")).contains("costs too much"), "{}", wrong(&format!("ada:{costly}")));
    }

    #[test]
    fn a_hash_fits_its_password_alone() {
        let argon2 = "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHRzYWx0$";
        let bcrypt = PasswordHash::read(BCRYPT).expect("good");
        assert!(bcrypt.fits(b"correct-horse-7") && !bcrypt.fits(b"correct-horse-8") && !bcrypt.fits(b""));
        assert!(PasswordHash::read(argon2).is_err());
    }

    #[test]
    fn an_unknown_user_has_the_same_hash_each_time() {
        let users = Users::parse(format!("ada:{BCRYPT}\nbob:{BCRYPT}\n").as_bytes()).expect("good");
        assert!(users.find("ada").is_some_and(|(_, known)| known));
        let decoy = |user: &str| users.find(user).map(|(hash, known)| (Arc::as_ptr(&hash), known));
        assert_eq!(decoy("eve"), decoy("eve"));
        assert!(!decoy("eve").expect("a decoy").1);
        assert!(Users::parse(b"").expect("good").find("eve").is_none());
    }

    #[test]
    fn a_credential_has_a_user_and_a_password() {
        let read = |text: &str| read(text.as_bytes());
        assert_eq!(read("YWRhOmE6Yg=="), Some(("ada".to_owned(), "a:b".to_owned())));
        assert_eq!(read("YWRhOmE6Yg"), Some(("ada".to_owned(), "a:b".to_owned())));
        assert_eq!((read("YWRh"), read("?"), read("/w=="), read("")), (None, None, None, None));
    }
}
