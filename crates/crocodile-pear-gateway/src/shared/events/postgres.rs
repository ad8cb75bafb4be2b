//! `LISTEN` on a PostgreSQL database.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::time::Duration;

use crocodile_pear::unstable::database::{Connected, DatabaseAddress, DatabaseConnection, error_text};
use futures_util::future::BoxFuture;
use tokio::time::{sleep, timeout};
use tokio_postgres::{AsyncMessage, Client, Error};

/// For a connection, its handshakes and `LISTEN`.
const ATTEMPT: Duration = Duration::from_secs(5);

/// Listens to a channel.
///
/// # Errors
/// Why it cannot be listened to, without secrets.
pub async fn listen(address: &DatabaseAddress, channel: &str, heartbeat: Duration) -> Result<PostgresListener, String> {
    match timeout(ATTEMPT, connect(address, channel, heartbeat)).await {
        Ok(Ok(listener)) => Ok(listener),
        Ok(Err(reason)) => Err(reason),
        Err(_) => Err(format!("it did not answer within {ATTEMPT:?}")),
    }
}

async fn connect(address: &DatabaseAddress, channel: &str, heartbeat: Duration) -> Result<PostgresListener, String> {
    let Connected { client, mut connection, pooled, .. } = address.connect(ATTEMPT).await?;
    if pooled {
        tracing::warn!(
            %address,
            channel,
            "a connection pooler is in front of the database; in transaction mode it passes no notifications on"
        );
    }
    let mut early = VecDeque::new();
    let listen = format!("LISTEN {}", quote(channel));
    tokio::select! {
        done = client.batch_execute(&listen) => done.map_err(|error| error_text(&error))?,
        ended = hold(&mut connection, &mut early) => return Err(error_text(&ended)),
    }
    Ok(PostgresListener { connection, early, check: Box::pin(check(client, heartbeat)) })
}

/// A connection that listens.
pub struct PostgresListener {
    connection: DatabaseConnection,
    /// Messages that came before `LISTEN` was answered.
    early: VecDeque<Vec<u8>>,
    /// Ends when the server does not answer.
    check: BoxFuture<'static, String>,
}

impl PostgresListener {
    /// # Errors
    /// Why the connection has ended.
    pub async fn next(&mut self) -> Result<Vec<u8>, String> {
        loop {
            if let Some(payload) = self.early.pop_front() {
                return Ok(payload);
            }
            let message = poll_fn(|cx| self.connection.poll_message(cx));
            match read_first(message, &mut self.check).await? {
                Some(Ok(AsyncMessage::Notification(notification))) => return Ok(notification.payload().into()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error_text(&error)),
                None => return Err("the server closed the connection".to_owned()),
            }
        }
    }
}

/// The next message, or why the check has failed. Messages in the socket are read before the check looks at the clock: on a thread that could
/// not run for as long as a heartbeat, the answer is there, and its time is over.
async fn read_first<T>(message: impl Future<Output = T>, check: &mut BoxFuture<'static, String>) -> Result<T, String> {
    tokio::select! {
        biased;
        message = message => Ok(message),
        failed = check => Err(failed),
    }
}

/// Reads until the connection ends, and keeps what it says.
async fn hold(connection: &mut DatabaseConnection, early: &mut VecDeque<Vec<u8>>) -> Error {
    loop {
        match poll_fn(|cx| connection.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notification(notification))) => early.push_back(notification.payload().into()),
            Some(Ok(_)) => {}
            Some(Err(error)) => return error,
            // What was asked on it fails, and says so.
            None => std::future::pending().await,
        }
    }
}

/// Asks the server from time to time: a connection that died in silence looks like one on which nothing happens.
async fn check(client: Client, every: Duration) -> String {
    loop {
        sleep(every).await;
        match timeout(every, client.simple_query("select 1")).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return error_text(&error),
            Err(_) => return format!("it did not answer within {every:?}"),
        }
    }
}

/// An identifier in SQL.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use futures_util::FutureExt;

    use super::super::postgres::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_waits_to_be_read_is_no_silence() {
        for _ in 0..50 {
            let (answer, answered) = tokio::sync::oneshot::channel::<()>();
            let heartbeat = Duration::from_secs(2);
            let mut check: BoxFuture<'static, String> = Box::pin(async move {
                match timeout(heartbeat, answered).await {
                    Ok(_) => std::future::pending().await,
                    Err(_) => "silent".to_owned(),
                }
            });
            // The query is under way.
            assert!((&mut check).now_or_never().is_none());
            // The thread rests for longer than the heartbeat. Then there is the answer, and a notification behind it.
            tokio::time::advance(heartbeat * 2).await;
            let mut answer = Some(answer);
            let read = poll_fn(|cx| {
                if let Some(answer) = answer.take() {
                    let _ = answer.send(());
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready("notification")
            });
            assert_eq!(read_first(read, &mut check).await, Ok("notification"));
        }
    }

    #[test]
    fn names_are_quoted() {
        assert_eq!(quote(r#"a"; drop table b; --"#), r#""a""; drop table b; --""#);
    }
}
