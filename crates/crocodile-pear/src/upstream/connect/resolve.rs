//! DNS: a thread of its own looks names up, and again before an answer expires, so that calls do not wait.

#[cfg(feature = "dns")]
mod ask;
#[cfg(not(feature = "dns"))]
#[path = "resolve/ask_system.rs"]
mod ask;
mod follow;
mod known;
#[cfg(feature = "dns")]
mod system;
#[cfg(not(feature = "dns"))]
#[path = "resolve/system_alone.rs"]
mod system;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, OnceLock};

use serde_json::json;
use tokio::sync::{mpsc, watch};

use self::follow::{FollowedName, Following, start};
use self::known::{Followed, KnownRecords};
pub(crate) use self::known::{Lookup, News, SrvRecord};
use self::system::PORT;
use crate::config::carried_state::{Carried, Carry};
use crate::config::problem::Problems;
use crate::config::spec::{Decode, Definitions, Json, Mark, Node};

/// Name servers: one, or a list.
#[derive(Clone, Debug)]
pub struct ResolverSpec(Vec<SocketAddr>);

impl Decode for ResolverSpec {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let several = node.as_list().unwrap_or(std::slice::from_ref(node));
        if several.is_empty() {
            return node.wrong(WANTED, "leave it out to use the name servers of the system", problems);
        }
        // All are read before a failure ends it, so that every problem is reported.
        let read: Vec<_> = several.iter().map(|server| server_address(server, problems)).collect();
        read.into_iter().collect::<Option<_>>().map(ResolverSpec)
    }

    fn schema(_: &mut Definitions) -> Json {
        json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
    }
}

const WANTED: &str = "the address of a name server, or a list of them";

fn server_address(node: &Node, problems: &mut Problems) -> Option<SocketAddr> {
    let text = node.expect_text(WANTED, problems)?.value;
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(&text);
    match text.parse().ok().or_else(|| Some(SocketAddr::new(bare.parse().ok()?, PORT))) {
        Some(address) if address.port() == 0 => {
            problems.error(node.span, "port 0 cannot be used", "leave the port out: the default is 53")
        }
        Some(address) => Some(address),
        None => node.wrong(WANTED, "write `127.0.0.1:53` or `[::1]:53`", problems),
    }
}

impl ResolverSpec {
    /// A resolver that asks these name servers, with what is known of names.
    pub fn ready(&self, carry: &Carry) -> Resolver {
        Resolver(carry.part(&self.0).state(|| Asker::new(self.0.clone())))
    }
}

/// A DNS resolver with a thread of its own.
#[derive(Clone)]
pub struct Resolver(Arc<Asker>);

struct Asker {
    /// The name servers; those of the system, if the list is empty.
    servers: Vec<SocketAddr>,
    /// To the thread, which starts with the first name.
    names: OnceLock<mpsc::Sender<FollowedName>>,
    /// The names that are followed: each is looked up once, however many servers have it.
    followed: Arc<Carried>,
}

impl Asker {
    fn new(servers: Vec<SocketAddr>) -> Self {
        Asker { servers, names: OnceLock::new(), followed: Arc::default() }
    }
}

impl Default for Resolver {
    /// The resolver that the system is configured with.
    fn default() -> Self {
        static SYSTEM: LazyLock<Resolver> = LazyLock::new(|| Resolver::at(Vec::new()));
        SYSTEM.clone()
    }
}

impl Resolver {
    /// A resolver that asks these name servers; those of the system, if the list is empty.
    pub fn at(servers: Vec<SocketAddr>) -> Self {
        Resolver(Arc::new(Asker::new(servers)))
    }

    /// The mark that identifies its name servers.
    pub fn mark(&self) -> Mark {
        Mark::of(&self.0.servers)
    }

    /// Looks a name up, for its addresses or for the servers of a service, unless it is followed already.
    pub(crate) fn follow<T: Followable>(&self, name: &str) -> Lookup<T> {
        let begin = || {
            let (known, receiver) = watch::channel(KnownRecords::NotYet);
            let news = Arc::new(News::default());
            let names = self.0.names.get_or_init(|| start(self.0.servers.clone()));
            let following = Following { name: name.into(), known: known.clone(), news: news.clone() };
            if names.try_send(T::order(following)).is_err() {
                known.send_replace(KnownRecords::Nothing("too many names are looked up".into()));
            }
            Followed { known: receiver, news }
        };
        Lookup(Carry::over(&self.0.followed).part(name).state(begin))
    }

    /// The lookup of a name, if it is followed.
    pub(crate) fn followed<T: Followable>(&self, name: &str) -> Option<Lookup<T>> {
        Carry::over(&self.0.followed).part(name).known().map(Lookup)
    }
}

/// A kind of records that a name may be looked up for.
pub(crate) trait Followable: Clone + fmt::Debug + PartialEq + Send + Sync + 'static {
    /// The order for the thread.
    fn order(following: Following<Self>) -> FollowedName;
}

impl Followable for std::net::IpAddr {
    fn order(following: Following<Self>) -> FollowedName {
        FollowedName::Addresses(following)
    }
}

impl Followable for SrvRecord {
    fn order(following: Following<Self>) -> FollowedName {
        FollowedName::Service(following)
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}
