//! Certificates that the gateway orders from authorities and renews (ACME, RFC 8555): all of them, over all listeners. They
//! live longer than a configuration: a reload orders nothing that there is.

mod authority;
mod failure;
mod order;
mod renewal;
mod schedule;
mod store;
mod transport;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use crocodile_pear::unstable::config::problem::Span;
use crocodile_pear::unstable::config::spec::Located;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::authority::{Authority, Wanted};
use self::renewal::Renewal;
use self::store::CertificateStore;
use crate::config::Sources;
use crate::gateway::Gateway;
use crate::listeners::spec::{Acme, AcmeAccount, CompiledListener, Folder};
use crate::server::{Acquired, ListenerSettings};

/// The certificates that are ordered for the listeners.
pub struct Renewals {
    /// The listeners that serve, by their addresses as written.
    listeners: Vec<(String, Arc<ListenerSettings>)>,
    /// By the folder of each authority.
    authorities: HashMap<PathBuf, (AcmeAccount, Arc<Authority>)>,
    running: HashMap<AccountKey, Running>,
    /// Whether clients and authorities can connect: orders begin then.
    serving: watch::Receiver<bool>,
    /// There from the first order on.
    runtime: Option<Runtime>,
}

/// The key of a certificate: the folder of its authority, and its name.
type AccountKey = (PathBuf, String);

/// A certificate that is looked after.
struct Running {
    acquired: Arc<Acquired>,
    acme: Arc<Acme>,
    task: JoinHandle<()>,
}

impl Renewals {
    /// The orders of the listeners of a gateway. Certificates that are kept on the disk are used at once; orders begin when it
    /// `serves`. `sources` is where the folders are named.
    pub fn new(gateway: &Gateway, sources: &Sources, serving: watch::Receiver<bool>) -> Self {
        let listeners = gateway.listening().iter().map(|one| (one.written.clone(), one.settings.clone())).collect();
        let mut renewals =
            Renewals { listeners, authorities: HashMap::new(), running: HashMap::new(), serving, runtime: None };
        renewals.reload(gateway, sources);
        renewals
    }

    /// After a reload of the configuration: what is still wanted goes on, what is new begins, the rest ends.
    pub fn reload(&mut self, gateway: &Gateway, sources: &Sources) {
        let before = std::mem::take(&mut self.running);
        let mut before: HashMap<AccountKey, Running> = before;
        let mut folders = Vec::new();
        for (at, (written, settings)) in self.listeners.clone().into_iter().enumerate() {
            // Two listeners may be written alike, with port 0.
            let alike = self.listeners[..at].iter().filter(|(other, _)| *other == written).count();
            let listener = gateway.listening().iter().filter(|one| one.written == written).nth(alike);
            let Some(tls) = &settings.tls else { continue };
            let Some(CompiledListener { acme: Some(acme), .. }) = listener else {
                tls.acquire(Vec::new());
                continue;
            };
            let store = CertificateStore::new(&folder(&acme.account.folder, sources), &acme.account.directory);
            let authority = self.authority(&acme.account, &store, gateway);
            folders.push(store.challenges());
            let acquired = acme.domains.iter().map(|name| {
                let key = (store.path().to_owned(), name.clone());
                self.keep(key, acme, &authority, gateway, &mut before)
            });
            tls.acquire(acquired.collect());
        }
        folders.sort();
        folders.dedup();
        if let Some((_, settings)) = self.listeners.first() {
            // All listeners share it.
            settings.challenges.look_in(folders);
        }
        before.into_values().for_each(|running| running.task.abort());
    }

    fn authority(&mut self, account: &AcmeAccount, store: &CertificateStore, gateway: &Gateway) -> Arc<Authority> {
        let known = self.authorities.get(store.path()).filter(|(known, _)| known == account);
        if let Some((_, authority)) = known {
            return authority.clone();
        }
        let authority = Arc::new(Authority::new(account.clone(), store.clone(), gateway.resolver().cloned()));
        self.authorities.insert(store.path().to_owned(), (account.clone(), authority.clone()));
        authority
    }

    /// The certificate for a name, looked after from now on.
    fn keep(
        &mut self,
        key: AccountKey,
        acme: &Arc<Acme>,
        authority: &Arc<Authority>,
        gateway: &Gateway,
        before: &mut HashMap<AccountKey, Running>,
    ) -> Arc<Acquired> {
        if let Some(running) = self.running.get(&key) {
            return running.acquired.clone();
        }
        let acquired = match before.remove(&key) {
            Some(running) if running.same(acme) => {
                let acquired = running.acquired.clone();
                self.running.insert(key, running);
                return acquired;
            }
            // Its settings have changed, and it is still the certificate.
            Some(running) => {
                running.task.abort();
                running.acquired
            }
            None => Arc::new(Acquired::new(key.1.clone())),
        };
        let counters = gateway.metrics().orders(&key.1);
        let wanted = Wanted::new(authority.clone(), key.1.clone(), acme);
        let mut renewal = Renewal::new(wanted, acquired.clone(), counters);
        renewal.adopt();
        let mut serving = self.serving.clone();
        let task = async move {
            if serving.wait_for(|serving| *serving).await.is_ok() {
                renewal.run().await;
            }
        };
        match self.runtime() {
            Some(runtime) => {
                let task = runtime.spawn(task);
                self.running.insert(key, Running { acquired: acquired.clone(), acme: acme.clone(), task });
            }
            None => tracing::error!("cannot start the thread that orders certificates"),
        }
        acquired
    }

    fn runtime(&mut self) -> Option<&Runtime> {
        if self.runtime.is_none() {
            self.runtime = Builder::new_multi_thread().worker_threads(1).thread_name("acme").enable_all().build().ok();
        }
        self.runtime.as_ref()
    }
}

impl Running {
    /// Whether it is ordered as before.
    fn same(&self, acme: &Acme) -> bool {
        let known = &self.acme;
        known.account == acme.account && known.challenges == acme.challenges && known.profile == acme.profile
    }
}

fn folder(folder: &Folder, sources: &Sources) -> PathBuf {
    match folder {
        Folder::Usual(path) => path.clone(),
        Folder::Written(path, file) => {
            sources.path(&Located::new(path.clone(), Span { file: *file, ..Span::default() }))
        }
    }
}
