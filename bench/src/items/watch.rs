//! A thread counts threads, connections and the run queue while the clients run. Prometheus scrapes these figures, too.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::Result;
use crate::process;

/// How often it looks.
const EVERY: Duration = Duration::from_millis(50);

/// The maxima of a run.
#[derive(Clone, Copy, Default)]
pub struct Seen {
    /// Threads of the server, with those of its children.
    pub threads: u64,
    /// Processes of PostgreSQL that serve a client.
    pub connections: u64,
    /// Threads of the whole machine that ran or could have run.
    pub queue: u64,
}

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    server: AtomicU32,
    clients: Arc<AtomicU64>,
    now: Mutex<Seen>,
    most: Mutex<Seen>,
}

pub struct Watch {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl Watch {
    /// Looks at this PostgreSQL, and at the server that `reset` names.
    pub fn begin(postgres: u32) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let seen = shared.clone();
        thread::spawn(move || {
            while !seen.over.load(Ordering::Relaxed) {
                let now = seen.look(postgres);
                *seen.now.lock().unwrap_or_else(PoisonError::into_inner) = now;
                let mut most = seen.most.lock().unwrap_or_else(PoisonError::into_inner);
                *most = Seen {
                    threads: most.threads.max(now.threads),
                    connections: most.connections.max(now.connections),
                    queue: most.queue.max(now.queue),
                };
                drop(most);
                thread::sleep(EVERY);
            }
        });
        let told = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(std::result::Result::ok) {
                if told.over.load(Ordering::Relaxed) {
                    return;
                }
                // A scrape that breaks off is Prometheus's business.
                let _ = told.tell(stream);
            }
        });
        Ok(Self { shared, address })
    }

    /// Where Prometheus may ask.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many clients there are.
    pub fn clients(&self) -> Arc<AtomicU64> {
        self.shared.clients.clone()
    }

    /// Begins anew, with this server.
    pub fn reset(&self, server: u32) {
        self.shared.server.store(server, Ordering::Relaxed);
        *self.shared.most.lock().unwrap_or_else(PoisonError::into_inner) = Seen::default();
    }

    /// The most since then.
    pub fn most(&self) -> Seen {
        *self.shared.most.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        // The thread that tells waits for somebody.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn look(&self, postgres: u32) -> Seen {
        let threads = |id: u32| process::sample(id).map_or(0, |sample| sample.threads);
        let server = self.server.load(Ordering::Relaxed);
        let server = if server == 0 { Vec::new() } else { process::family(server).unwrap_or_default() };
        // It is named by whom it serves.
        let serves =
            |id: &u32| fs::read_to_string(format!("/proc/{id}/cmdline")).is_ok_and(|name| name.contains("127.0.0.1("));
        Seen {
            threads: server.into_iter().map(threads).sum(),
            connections: process::family(postgres).unwrap_or_default().iter().filter(|&id| serves(id)).count() as u64,
            queue: running().unwrap_or_default(),
        }
    }

    fn tell(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        let _ = stream.read(&mut [0; 4096])?;
        let now = *self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let body = format!(
            "items_clients {}\nitems_server_threads {}\nitems_postgres_connections {}\nitems_run_queue {}\n",
            self.clients.load(Ordering::Relaxed),
            now.threads,
            now.connections,
            now.queue
        );
        let head =
            format!("content-type: text/plain; version=0.0.4\r\ncontent-length: {}\r\nconnection: close", body.len());
        write!(stream, "HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}")
    }
}

/// The run queue of all cores, as the kernel counts it; this thread is not in it.
fn running() -> Option<u64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let running: u64 = text.lines().find_map(|line| line.strip_prefix("procs_running ")?.trim().parse().ok())?;
    Some(running.saturating_sub(1))
}
