//! An upstream: the servers of one API, what may be sent to them, and the steps of a call to them.

mod attempt;
pub(crate) mod authenticated_caller;
mod cache_facts;
#[cfg(feature = "cache")]
mod cached;
#[cfg(not(feature = "cache"))]
#[path = "upstream/cached/absent.rs"]
mod cached;
pub(crate) mod call;
pub(crate) mod environment;

mod check;
mod connect;
mod credentials;
mod exchange;
mod health;
pub mod link;
pub mod program;
mod ready;
mod remote;
mod servers;
mod spec;
pub mod types;

pub use self::servers::balance::{BalanceSpec, Way};

pub use self::call::{CallContext, EventUse, Presents, TargetRoot, UpstreamCall};

pub use self::call::fields::CallFields;
pub use self::connect::PhaseTotal;
pub use self::connect::connections::{Connections, ConnectionsSpec};
pub use self::connect::counters::CounterSnapshot;
pub use self::credentials::{ClientCredentials, CredentialsSpec, Oauth2Spec, SendSpec, client_basic, form};
pub use self::health::eject::{EjectSpec, Ejection};
pub use self::servers::choice::{ChoiceRuleSpec, Choices};
pub(crate) use self::servers::directed::Directed;

pub use self::call::forward::{FieldsSpec, Forward, ForwardedSpec, HostSpec, Likeness, Trailing};
pub(crate) use self::call::forward::{NEVER_FOUND, TRACED, asked_host, is_new};
pub use self::call::noting::ForCaches;
pub use self::call::timing::CallEnd;
pub use self::connect::location::{DnsService, Location, ServerSpec};
pub use self::environment::UpstreamEnvironment;
pub use self::health::HealthSpec;
pub(crate) use self::link::UpstreamAddress;
pub use self::servers::mirror::MirrorSpec;

pub use self::call::public::{LinksSpec, PublicSpec, UnservedSpec};
pub use self::call::rewrite::RewriteSpec;
pub use self::call::timeouts::{TimeoutSpec, Timeouts};
pub use self::connect::resolve::{Resolver, ResolverSpec};
pub use self::ready::ReadyUpstream;
pub use self::remote::{Remote, RemoteLimits};
pub use self::servers::retry::{Cause, RetrySpec};
pub use self::servers::settings::UpstreamSettings;
pub use self::servers::state::ServerState;
pub use self::spec::UpstreamSpec;
#[cfg(feature = "tls")]
pub use crate::http::http1::fields::may_send;
