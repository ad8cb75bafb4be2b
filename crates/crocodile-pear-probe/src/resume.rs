//! Whether a server takes up sessions of TLS again, and what a handshake costs then.

use std::time::Duration;

use crocodile_pear::unstable::net::tls::TlsVersion;

use crate::dial::Dial;
use crate::trouble::Trouble;
use crate::trust::Sessions;
use crate::way::ProtocolStack;

/// Handshakes that are tried: enough for a median.
const HANDSHAKES: usize = 11;

/// The result with one version of TLS.
#[derive(Clone, Debug)]
pub struct Resumed {
    pub tls: TlsVersion,
    /// The handshakes that took a session up again; none, if the server does not do that.
    pub handshakes: Vec<Duration>,
}

pub async fn resume(dial: &Dial, way: ProtocolStack, tls: TlsVersion) -> Result<Resumed, Trouble> {
    let config = dial.config(way, Sessions::Kept);
    let mut handshakes = Vec::new();
    for number in 0..=HANDSHAKES {
        let mut link = dial.open_with(way, config.as_ref()).await?;
        handshakes.extend(link.opening.tls.filter(|_| link.opening.resumed));
        // With TLS 1.3 the ticket for the next comes with the answer. A server that did not take the first two takes none.
        if number == 2 && handshakes.is_empty() || dial.is_over() {
            break;
        }
        link.get(dial).await?;
    }
    Ok(Resumed { tls, handshakes })
}
