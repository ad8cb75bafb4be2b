//! Connections that are each served on a thread of their own, by calls that block.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::served::{ANY, bind};

/// A listener. It ends with the process: nobody knows its port once the test is over.
#[derive(Clone)]
pub struct Accepting {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Accepting {
    /// Serves each connection so, and closes it then. A request that cannot be read is printed: the test may wait for it.
    pub fn begin(serve: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> Self {
        let listener = bind(ANY.into());
        let address = listener.local_addr().expect("it is bound");
        let (connections, serve) = (Arc::new(AtomicUsize::new(0)), Arc::new(serve));
        let counted = connections.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                let serve = serve.clone();
                thread::spawn(move || match stream.set_nodelay(true).and_then(|()| serve(stream)) {
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => eprintln!("{address}: {error}"),
                    // Who leaves early is a part of many scenes.
                    _ => {}
                });
            }
        });
        Accepting { address, connections }
    }

    /// How many connections came.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}
