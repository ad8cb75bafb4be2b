//! Statements in the server whose result is no longer needed: the server is asked to cancel them.

use std::time::Duration;

use super::pool::DatabaseLease;

/// How long a server may take to cancel, before its connection is closed.
const STOP: Duration = Duration::from_secs(1);

/// Begins to stop what runs on a connection. It is used again when nothing runs any more, but not where a transaction is open.
pub(super) fn begin(lease: DatabaseLease, transaction: bool) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn(stop(lease, transaction))),
        // Without a thread that could ask the server, it notices when it writes.
        Err(_) => lease.discard(),
    }
}

async fn stop(lease: DatabaseLease, transaction: bool) {
    let token = lease.client().cancel_token();
    let address = lease.pool().address.clone();
    let stopped = async {
        address.cancel(lease.host(), &token).await.ok()?;
        // Answered when everything before it is.
        lease.client().check_connection().await.ok()
    };
    match tokio::time::timeout(STOP, stopped).await {
        Ok(Some(())) if !transaction => drop(lease),
        _ => lease.discard(),
    }
}
