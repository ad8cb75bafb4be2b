//! Messages from the handler before its answer.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use crocodile_pear::unstable::http::http1::fields::of_interim;
use crocodile_pear::unstable::message::side_channel::{BodyPace, Interim};
use h2::server::SendResponse;
use http::{HeaderMap, Response, StatusCode};

/// Interim answers of one request that may wait for the connection; more are dropped.
const MOST_INTERIM: usize = 32;

/// Messages from the handler before its answer: interim answers for the client, and how long the body may take.
#[derive(Default)]
pub struct Aside {
    unhurried: AtomicBool,
    /// Bytes of the body that the handler has received.
    pub received: AtomicU64,
    waiting: AtomicBool,
    heads: Mutex<Vec<Response<()>>>,
}

impl Aside {
    /// Sends `100 Continue` if the client waits for it.
    pub fn go_on(&self) {
        self.push(StatusCode::CONTINUE, HeaderMap::new());
    }

    /// Whether a minimum rate applies to the body.
    pub fn hurried(&self) -> bool {
        !self.unhurried.load(Relaxed)
    }

    fn push(&self, status: StatusCode, headers: HeaderMap) {
        let mut heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        if heads.len() < MOST_INTERIM {
            let mut head = Response::new(());
            (*head.status_mut(), *head.headers_mut()) = (status, headers);
            heads.push(head);
            self.waiting.store(true, Relaxed);
        }
    }

    /// Sends the waiting interim answers.
    pub fn send(&self, respond: &mut SendResponse<Bytes>) {
        if self.waiting.swap(false, Relaxed) {
            let heads = std::mem::take(&mut *self.heads.lock().unwrap_or_else(PoisonError::into_inner));
            for head in heads {
                // If one cannot be sent it is dropped: no client depends on it.
                let _ = respond.send_informational(head);
            }
        }
    }
}

impl BodyPace for Aside {
    fn unhurried(&self) {
        self.unhurried.store(true, Relaxed);
    }

    fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }
}

impl Interim for Aside {
    fn interim(&self, status: StatusCode, headers: &HeaderMap) {
        let kept = of_interim(headers);
        self.push(status, kept.map(|(name, value)| (name.clone(), value.clone())).collect());
    }
}
