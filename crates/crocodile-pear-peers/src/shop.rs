//! A server that answers each request as a test says, and counts.

use std::io::{self, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::accept::Accepting;
pub use crate::asked::Asked;

/// A server that ends with the process.
pub struct Shop {
    pub address: SocketAddr,
    calls: Arc<AtomicUsize>,
    accepting: Accepting,
}

impl Shop {
    /// `answer` writes what it likes; a connection on which it fails is closed.
    pub fn open(answer: impl Fn(&Asked, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static) -> Self {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let accepting = Accepting::begin(move |mut stream| {
            let mut reader = BufReader::new(stream.try_clone()?);
            while let Some(asked) = Asked::read(&mut reader)? {
                counted.fetch_add(1, Ordering::SeqCst);
                answer(&asked, &mut stream)?;
            }
            Ok(())
        });
        Shop { address: accepting.address, calls, accepting }
    }

    /// How many calls came.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// How many connections came.
    pub fn connections(&self) -> usize {
        self.accepting.connections()
    }
}

/// A whole answer with its length and these lines of fields, in one piece: several would wait for each other's acknowledgements.
pub fn answer(status: u16, fields: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {status} Said\r\n{fields}content-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// For an answer that is not to be: it closes the connection.
pub fn close() -> io::Result<()> {
    Err(io::ErrorKind::ConnectionAborted.into())
}

/// A gate: waiters go on once it is open.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }

    pub fn is_open(&self) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn wait(&self) {
        let open = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.0.1.wait_while(open, |open| !*open));
    }
}
