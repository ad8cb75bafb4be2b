//! Password hashes that are deliberately slow.

use argon2::password_hash::PasswordHash as Phc;
use argon2::{Argon2, PasswordVerifier};

pub struct PasswordHash {
    text: String,
    kind: HashKind,
}

enum HashKind {
    Bcrypt,
    Argon2,
}

/// With a higher cost, a password takes seconds, and the next ones wait for it.
const BCRYPT_COST: u32 = 15;

/// In KiB. Each thread that checks passwords needs this much.
const ARGON2_MEMORY: u32 = 256 << 10;

/// Passes over that memory.
const ARGON2_PASSES: u32 = 32;

impl PasswordHash {
    /// Reads a hash. The error continues the sentence "the hash of `user`".
    pub fn read(text: &str) -> Result<Self, String> {
        const MAKE: &str = "`htpasswd -B FILE USER` makes a good one";
        let kind = match text {
            _ if ["$2y$", "$2a$", "$2b$", "$2x$"].iter().any(|prefix| text.starts_with(prefix)) => {
                let parts: bcrypt::HashParts = text.parse().map_err(|_| "is not whole".to_owned())?;
                if parts.get_cost() > BCRYPT_COST {
                    return Err(format!("costs too much: at most {BCRYPT_COST} is taken"));
                }
                HashKind::Bcrypt
            }
            _ if text.starts_with("$argon2") => {
                let hash = Phc::new(text).map_err(|_| "is not whole".to_owned())?;
                let costs = argon2::Params::try_from(&hash).map_err(|_| "is not whole".to_owned())?;
                if hash.hash.is_none() || hash.salt.is_none() {
                    return Err("is not whole".to_owned());
                }
                if costs.m_cost() > ARGON2_MEMORY || costs.t_cost() > ARGON2_PASSES {
                    return Err(format!("costs too much: at most m={ARGON2_MEMORY},t={ARGON2_PASSES} is taken"));
                }
                HashKind::Argon2
            }
            _ if text.starts_with("$apr1$") || text.starts_with("$1$") => {
                return Err(format!("is of MD5, which is broken; {MAKE}"));
            }
            _ if text.starts_with("{SHA}") => return Err(format!("is of SHA-1, which is broken; {MAKE}")),
            _ => return Err(format!("is neither bcrypt nor argon2; {MAKE}")),
        };
        Ok(PasswordHash { text: text.to_owned(), kind })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether this is the hash of `password`. Slow.
    pub fn fits(&self, password: &[u8]) -> bool {
        match self.kind {
            HashKind::Bcrypt => bcrypt::verify(password, &self.text).unwrap_or(false),
            HashKind::Argon2 => {
                Phc::new(&self.text).is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok())
            }
        }
    }
}
