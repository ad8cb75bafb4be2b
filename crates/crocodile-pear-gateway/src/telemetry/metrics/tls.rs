//! The handshakes and the certificates of the listeners.

use std::time::UNIX_EPOCH;

use super::Metrics;
use super::exposition::{Exposition, Family, label};
use crate::server::Tls;

impl Metrics {
    /// The handshakes and the certificates of the listeners that have TLS.
    pub(super) fn render_tls(&self, out: &mut Exposition) {
        let listeners = self.listeners.get().into_iter().flatten();
        let secured: Vec<(String, &Tls)> =
            listeners.filter_map(|(address, entry)| Some((label(&address.to_string()), entry.tls.as_ref()?))).collect();
        if secured.is_empty() {
            return;
        }
        let done = secured.iter().flat_map(|(address, tls)| {
            tls.counters.handshakes().map(|(kind, count)| (format!("listener=\"{address}\",kind=\"{kind}\""), count))
        });
        add(out.counter("crocodile_pear_tls_handshakes_total", HANDSHAKES), done);
        let failed = secured.iter().flat_map(|(address, tls)| {
            let counts = tls.counters.failures();
            counts.map(move |(reason, count)| (format!("listener=\"{address}\",reason=\"{reason}\""), count))
        });
        add(out.counter("crocodile_pear_tls_handshakes_failed_total", FAILED_HANDSHAKES), failed);
        let expiry = secured.iter().flat_map(|(address, tls)| {
            tls.identities().into_iter().map(move |identity| {
                let seconds = identity.expiry.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
                (format!("listener=\"{address}\",name=\"{}\"", label(identity.label())), seconds)
            })
        });
        add(out.gauge("crocodile_pear_tls_certificate_expiry_timestamp_seconds", EXPIRY), expiry);
        let due = secured.iter().filter_map(|(address, tls)| {
            let due = tls.setup().trust?.next_update?.duration_since(UNIX_EPOCH).unwrap_or_default();
            Some((format!("listener=\"{address}\""), due.as_secs()))
        });
        add(out.gauge("crocodile_pear_tls_crl_next_update_timestamp_seconds", NEXT_UPDATE), due);
    }
}

fn add(mut family: Family<'_>, samples: impl Iterator<Item = (String, u64)>) {
    samples.for_each(|(labels, value)| family.add(format_args!("{labels}"), value));
}

const HANDSHAKES: &str = "TLS handshakes with clients, full ones and those that resumed a session.";
const FAILED_HANDSHAKES: &str = "TLS handshakes with clients that failed, by the reason.";
const NEXT_UPDATE: &str = "When the first revocation list of a listener should be replaced, in seconds since 1970.";
const EXPIRY: &str = "When a certificate of a listener expires, in seconds since 1970.";
