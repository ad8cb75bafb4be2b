//! State that the connections of one core share.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crocodile_pear::unstable::http::http1::request::HeadBounds;
use tokio::sync::Notify;

use super::handler::Handler;
use super::idle::IdleConnections;
use super::occupancy::{ConnectionPlace, Occupancy};
use super::settings::Settings;

/// The state that the connections of one core share.
pub struct CoreState<H> {
    pub settings: Settings,
    pub handler: H,
    /// Whether no more requests are accepted.
    pub draining: AtomicBool,
    /// Notified when draining begins.
    pub drain: Notify,
    /// Counts the connections of each address, if that is limited; shared by the cores.
    occupancy: Option<Arc<Occupancy>>,
    /// The number of this core, and the idle connections of all.
    pub(super) number: usize,
    pub(super) idle: Arc<IdleConnections>,
}

impl<H: Handler> CoreState<H> {
    /// The state before anything is served.
    pub(super) fn new(
        settings: Settings,
        handler: H,
        occupancy: Option<Arc<Occupancy>>,
        (number, idle): (usize, Arc<IdleConnections>),
    ) -> Self {
        CoreState { settings, handler, draining: false.into(), drain: Notify::new(), occupancy, number, idle }
    }

    /// Ends every connection of the core as soon as its request is answered.
    pub(super) fn drain(&self) {
        self.draining.store(true, Relaxed);
        self.drain.notify_waiters();
    }

    /// Takes a place for a connection of this address; `None` if the address has reached its limit. Connections of a
    /// Unix socket have no address and are not limited.
    pub(super) fn admit(&self, address: Option<IpAddr>) -> Option<Option<ConnectionPlace>> {
        let (Some(occupancy), Some(address)) = (&self.occupancy, address) else { return Some(None) };
        let place = occupancy.admit(address);
        if place.is_none() {
            self.handler.connection_refused();
        }
        place.map(Some)
    }

    /// The limits of a request's head.
    pub fn bounds(&self) -> HeadBounds {
        let Settings { max_head, max_target, max_headers, .. } = self.settings;
        HeadBounds { head: max_head, target: max_target, fields: max_headers }
    }
}
