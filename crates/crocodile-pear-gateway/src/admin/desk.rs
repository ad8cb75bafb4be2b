//! Pages are made on a thread of their own: they may take longer than anybody waits who asks whether the gateway is well.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::message::body::AnswerBody;
use http::Response;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::http::response;
use crate::runtime::threads::{start, survives};

/// So many pages are made, or read by their clients, at the same time.
const PAGES: usize = 8;

type PageJob = Box<dyn FnOnce() + Send>;

/// The thread, and the pages that it may make.
pub struct Desk {
    work: SyncSender<PageJob>,
    pages: Arc<Semaphore>,
}

/// A page, until its client has read it.
pub struct PagePermit(#[allow(dead_code, reason = "held until it is dropped")] OwnedSemaphorePermit);

impl Desk {
    /// Starts the thread; it ends with this.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn new() -> io::Result<Self> {
        let (work, orders) = sync_channel::<PageJob>(PAGES);
        start("admin-pages", move || orders.into_iter().for_each(|work| _ = survives(work)))?;
        Ok(Desk { work, pages: Arc::new(Semaphore::new(PAGES)) })
    }

    /// Makes a page, when its turn has come.
    pub async fn make(
        &self,
        page: impl FnOnce() -> Response<AnswerBody> + Send + 'static,
    ) -> (Response<AnswerBody>, Option<PagePermit>) {
        let failed = || response::fail(&Error::new(Kind::Internal, "the page cannot be made"));
        // Never closed.
        let place = self.pages.clone().acquire_owned().await.ok().map(PagePermit);
        let (made, page_made) = oneshot::channel();
        // There is room: each page has a place.
        let sent = self.work.try_send(Box::new(move || drop(made.send(page()))));
        let response = if sent.is_ok() { page_made.await.unwrap_or_else(|_| failed()) } else { failed() };
        (response, place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pages_are_made_after_one_that_panics() {
        let desk = Desk::new().expect("a thread");
        let (failed, _) = desk.make(|| panic!("a fault")).await;
        let (made, _) = desk.make(|| Response::new(AnswerBody::Bytes(Default::default()))).await;
        assert_eq!((failed.status().as_u16(), made.status().as_u16()), (500, 200));
    }
}
