//! An authority, and the account at it. The account is made when it is needed first, and kept.

use std::sync::Arc;
use std::time::Duration;

use crocodile_pear::unstable::upstream::Resolver;
use instant_acme::{Account, AccountCredentials, ExternalAccountKey, NewAccount};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::sleep;

use super::failure::{FailureCause, OrderFailure};
use super::store::CertificateStore;
use super::transport::Transport;
use crate::listeners::spec::{Acme, AcmeAccount, ChallengeSpec, key};

/// Orders at a time: many names are ordered one after the other, as authorities ask.
const AT_ONCE: usize = 4;

/// How long another gateway may take to make the account.
const PATIENCE: u32 = 30;

const ACCOUNT: &str = "account.json";

pub struct Authority {
    written: AcmeAccount,
    pub store: CertificateStore,
    resolver: Option<Resolver>,
    account: Mutex<Option<Account>>,
    pub turns: Semaphore,
}

/// A certificate that is wanted.
pub struct Wanted {
    pub authority: Arc<Authority>,
    pub name: String,
    /// The challenges to try, in turn.
    pub challenges: Vec<ChallengeSpec>,
    pub profile: Option<String>,
}

impl Wanted {
    pub fn new(authority: Arc<Authority>, name: String, acme: &Acme) -> Self {
        Wanted { authority, name, challenges: acme.challenges.clone(), profile: acme.profile.clone() }
    }
}

/// The account as it is kept.
#[derive(Serialize, Deserialize)]
struct StoredAccount<C> {
    email: Option<String>,
    credentials: C,
}

impl Authority {
    pub fn new(written: AcmeAccount, store: CertificateStore, resolver: Option<Resolver>) -> Self {
        Authority { written, store, resolver, account: Mutex::new(None), turns: Semaphore::new(AT_ONCE) }
    }

    /// The name in the log.
    pub fn name(&self) -> &str {
        &self.written.directory
    }

    /// The account: the one that is kept, or a new one.
    pub async fn account(&self) -> Result<Account, OrderFailure> {
        let mut known = self.account.lock().await;
        if let Some(account) = &*known {
            return Ok(account.clone());
        }
        let account = match self.read()? {
            Some(kept) => self.restore(kept).await?,
            None => self.create().await?,
        };
        *known = Some(account.clone());
        Ok(account)
    }

    /// Has the account read again before the next order, with the directory.
    pub async fn forget(&self) {
        *self.account.lock().await = None;
    }

    /// The authority does not know the account any more: the next order makes a new one.
    pub async fn discard(&self, account: &Account) {
        let mut known = self.account.lock().await;
        *known = None;
        // Another gateway may have made a new one already.
        let kept = self.store.read(ACCOUNT).unwrap_or_default();
        let same = serde_json::from_slice::<StoredAccount<serde_json::Value>>(&kept)
            .is_ok_and(|kept| kept.credentials.get("id").and_then(|id| id.as_str()) == Some(account.id()));
        if same {
            tracing::warn!(
                authority = self.name(),
                "the authority does not know the account any more; making a new one"
            );
            self.store.remove(ACCOUNT);
        }
    }

    fn read(&self) -> Result<Option<StoredAccount<AccountCredentials>>, OrderFailure> {
        let bytes = match self.store.read(ACCOUNT) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.disk(format!("cannot read `{}`: {error}", self.path()))),
        };
        let broken = |_| self.disk(format!("`{}` holds no account; remove it to make a new one", self.path()));
        serde_json::from_slice(&bytes).map(Some).map_err(broken)
    }

    async fn restore(&self, kept: StoredAccount<AccountCredentials>) -> Result<Account, OrderFailure> {
        let changed = kept.email != self.written.email;
        let account = Account::builder_with_http(self.transport()).from_credentials(kept.credentials).await?;
        if changed {
            let contact = self.contact();
            account.update_contacts(&contact.iter().map(String::as_str).collect::<Vec<_>>()).await?;
            // Read once more: its key is not to be had from the account.
            let bytes = self.store.read(ACCOUNT).map_err(|error| self.disk(error.to_string()))?;
            let mut kept: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
            kept["email"] = self.written.email.clone().into();
            self.keep(&kept)?;
        }
        Ok(account)
    }

    async fn create(&self) -> Result<Account, OrderFailure> {
        let mut waited = 0;
        // Kept before it is used for an order: a folder that cannot be written to must not cost orders.
        let _lock = loop {
            let lock = self.store.lock("account").map_err(|error| self.unwritable(&error))?;
            match lock {
                Some(lock) => break lock,
                None if waited == PATIENCE => return Err(self.disk("another gateway does not finish its account")),
                None => sleep(Duration::from_secs(1)).await,
            }
            waited += 1;
        };
        // Made by another gateway in the meantime.
        if let Some(kept) = self.read()? {
            return self.restore(kept).await;
        }
        let contact = self.contact();
        let account = NewAccount {
            contact: &contact.iter().map(String::as_str).collect::<Vec<_>>(),
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let eab = self
            .written
            .eab
            .as_ref()
            .map(|(id, secret)| ExternalAccountKey::new(id.clone(), &key(secret.expose()).unwrap_or_default()));
        let making = Account::builder_with_http(self.transport());
        let (account, credentials) = making.create(&account, self.written.directory.clone(), eab.as_ref()).await?;
        self.keep(&StoredAccount { email: self.written.email.clone(), credentials })?;
        tracing::info!(authority = self.name(), account = account.id(), "account created");
        Ok(account)
    }

    fn keep(&self, kept: &impl Serialize) -> Result<(), OrderFailure> {
        let bytes = serde_json::to_vec_pretty(kept).map_err(|error| self.disk(error.to_string()))?;
        self.store.write(ACCOUNT, &bytes).map_err(|error| self.unwritable(&error))
    }

    fn contact(&self) -> Option<String> {
        self.written.email.as_ref().map(|email| format!("mailto:{email}"))
    }

    fn transport(&self) -> Box<Transport> {
        Box::new(Transport::new(self.written.ca.clone(), self.resolver.clone()))
    }

    fn path(&self) -> String {
        self.store.path().join(ACCOUNT).display().to_string()
    }

    fn disk(&self, text: impl Into<String>) -> OrderFailure {
        OrderFailure::new(FailureCause::Disk, text)
    }

    /// The failure for a folder that cannot be written: no certificate is ordered that could not be kept.
    pub fn unwritable(&self, error: &std::io::Error) -> OrderFailure {
        self.disk(format!("cannot write to `{}`: {error}; nothing is ordered", self.store.path().display()))
    }
}
