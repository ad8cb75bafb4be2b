//! `addresses`: who may ask, by the address of the client.

use std::sync::Arc;

use crocodile_pear::unstable::config::spec::{Field, Located};
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::request::facts::ClientAddress;
use crocodile_pear::unstable::spec;
use http::StatusCode;

use crate::http::response;
use crate::layer::{Compile, Layer, LayerPosition, Spec, Verdict};
use crate::net::cidr::Network;
use crate::telemetry::metrics::{Metrics, RefusedBy};

spec! {
    /// Which clients may call, by their addresses. Others get 403. `deny` takes precedence over `allow`. A client behind
    /// a trusted proxy whose address is unknown may not call.
    pub struct Addresses {
        /// Only clients from these networks may call: `10.0.0.0/8`, `2001:db8::/32`, or a single address. An IPv4
        /// client at an IPv6 socket counts as IPv4. `unix` stands for every client at a Unix socket.
        pub allow: Option<Located<Vec<Located<Network>>>>,
        /// Clients from these networks may not call, even if `allow` includes them.
        pub deny: Option<Located<Vec<Located<Network>>>>,
    }
}

impl Spec for Addresses {
    type Ready = AddressFilter;

    const AT_DOCUMENT: Option<Field> =
        Some(Field::new("addresses", "Which clients may call, by their addresses. Others get 403."));

    const AT_ENDPOINT: Option<Field> = Some(Field::new(
        "addresses",
        "Which clients may call, by their addresses. Overrides the top-level setting; `off` for all.",
    ));

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<AddressFilter>> {
        if let Some(list) = [&self.allow, &self.deny].into_iter().flatten().find(|list| list.value.is_empty()) {
            return cx.problems.error(
                list.span,
                "this list has no network",
                "name one, as `10.0.0.0/8`, or leave it out",
            );
        }
        for allowed in self.allow.iter().flat_map(|list| &list.value) {
            let mut denied = self.deny.iter().flat_map(|list| &list.value);
            if let Some(denied) = denied.find(|denied| denied.value.covers(&allowed.value)) {
                let message = format!("`{allowed}` is never allowed: `deny` has `{denied}`");
                cx.problems.warning(allowed.span, message, "leave out one of the two: `deny` goes before `allow`");
            }
        }
        let networks = |list: &Option<Located<Vec<Located<Network>>>>| {
            list.as_ref().map(|list| list.value.iter().map(|network| network.value).collect::<Vec<_>>())
        };
        let (allow, deny) = (networks(&self.allow), networks(&self.deny).unwrap_or_default());
        (allow.is_some() || !deny.is_empty()).then(|| Arc::new(AddressFilter { allow, deny, metrics: cx.metrics() }))
    }

    fn around(ready: &Arc<AddressFilter>, _: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        Some(ready.clone())
    }
}

/// Allows or refuses requests by the address of the client.
pub struct AddressFilter {
    allow: Option<Vec<Network>>,
    deny: Vec<Network>,
    metrics: Arc<Metrics>,
}

impl AddressFilter {
    fn admits(&self, address: ClientAddress) -> bool {
        let among = |networks: &[Network]| networks.iter().any(|network| network.contains(address));
        address != ClientAddress::Unknown && !among(&self.deny) && self.allow.as_deref().is_none_or(among)
    }
}

impl Layer for AddressFilter {
    fn request<'a>(&'a self, scope: &'a mut Scope) -> Verdict<'a> {
        // A program's own requests have no client.
        if scope.facts().client().is_none_or(|client| self.admits(client.address)) {
            return Verdict::Pass;
        }
        self.metrics.count_refused(RefusedBy::Addresses);
        Verdict::Answer(response::refuse(StatusCode::FORBIDDEN, "requests from this address are not allowed"))
    }

    fn outline(&self) -> Option<String> {
        let list = |verb, networks: &[Network]| {
            let names: Vec<String> = networks.iter().map(ToString::to_string).collect();
            (!names.is_empty()).then(|| format!("{verb} {}", names.join(", ")))
        };
        let parts = [list("denies", &self.deny), list("allows only", self.allow.as_deref().unwrap_or_default())];
        Some(parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
    }
}
