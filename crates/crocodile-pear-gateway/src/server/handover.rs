//! A handover: another process of the gateway takes the listening sockets, so that an upgrade refuses no connection.
//!
//! At SIGUSR2 the process starts its program again, which may be a newer version by now, and sends it the sockets over its
//! standard input. Both listen until the successor is ready; then this one accepts no more and lets its requests end. A process
//! that was told to stop hands over to none.

mod doors;
mod post;

use std::env;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, id};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use self::doors::Doors;
use self::post::{SocketEnd, pair};
use super::shutdown::{Phase, Shutdown};
use super::unix::SocketFile;
use crate::runtime::service_manager::notify;
use crate::runtime::threads::{event_loop, start};

/// The variable that tells a process that its predecessor is at its standard input.
const VARIABLE: &str = "CROCODILE_PEAR_PREDECESSOR";

/// The number of a container's first process. Everything in the container ends with it.
const FIRST: u32 = 1;

/// The successor's word when it could serve, and the answer to it.
const READY: &[u8] = b"ready";
const BEGIN: &[u8] = b"begin";

/// How long the successor may take to read its configuration, and either process to answer the other.
const LIMIT: Duration = Duration::from_secs(60);

/// The sockets that this process was given, and copies of those that it listens at.
#[derive(Debug, Default)]
pub struct Handover {
    given: Mutex<Doors>,
    own: Mutex<Doors>,
    predecessor: Mutex<Option<SocketEnd>>,
    /// Found at the start: later its file may be another one.
    program: Option<PathBuf>,
}

impl Handover {
    /// Takes what a predecessor gives, if there is one.
    ///
    /// # Errors
    /// If the predecessor ends before it has given everything, or is another user's process.
    pub fn receive() -> io::Result<Arc<Self>> {
        let program = env::current_exe().ok();
        if env::var_os(VARIABLE).is_none() {
            return Ok(Arc::new(Handover { program, ..Handover::default() }));
        }
        let predecessor = SocketEnd::of(io::stdin())?;
        predecessor.verify()?;
        predecessor.limit(LIMIT)?;
        let given = Doors::receive(&predecessor)?;
        Ok(Arc::new(Handover {
            given: given.into(),
            own: Mutex::default(),
            predecessor: Some(predecessor).into(),
            program,
        }))
    }

    /// The sockets that were given under this name; the first ones, if there are several.
    pub(super) fn take(&self, name: &str) -> Vec<OwnedFd> {
        lock(&self.given).take(name)
    }

    /// Keeps copies of sockets for a successor, and the file that must outlive this process then.
    pub(super) fn keep(&self, name: String, sockets: Vec<OwnedFd>, file: Option<&Arc<SocketFile>>) {
        lock(&self.own).add(name, sockets, file);
    }

    /// Tells the predecessor or else the service manager that this process is ready. Sockets that nothing took are closed.
    ///
    /// # Errors
    /// If the predecessor has ended meanwhile, or is about to: whoever stopped it wants no successor.
    pub fn ready(&self) -> io::Result<()> {
        match lock(&self.predecessor).take() {
            Some(predecessor) => {
                lock(&self.own).files().filter(|file| file.is_there()).try_for_each(|file| file.permit())?;
                predecessor.send(READY, &[])?;
                predecessor.expect(BEGIN)?;
                lock(&self.own).files().for_each(|file| file.own(true));
                *lock(&self.given) = Doors::default();
                Ok(())
            }
            None => {
                notify("READY=1");
                Ok(())
            }
        }
    }

    /// Hands over at SIGUSR2: then the clients' listeners drain, and `leave` is called. When they drain for another reason, the copies
    /// are closed.
    ///
    /// # Errors
    /// If the signal cannot be listened for.
    pub fn follow(self: Arc<Self>, clients: Shutdown, leave: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let runtime = event_loop()?;
        let mut asked = {
            let _within = runtime.enter();
            signal(SignalKind::user_defined2())?
        };
        let mut phase = clients.follow();
        start("handover", move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        biased;
                        _ = phase.wait_for(|phase| *phase >= Phase::Draining) => break,
                        asked = asked.recv() => if asked.is_none() { break },
                    }
                    match self.give(&clients) {
                        Ok(process) => {
                            tracing::info!(process, "handed over to another process; requests in flight end here");
                            notify(&format!("MAINPID={process}\nREADY=1"));
                            leave();
                            clients.begin();
                            break;
                        }
                        Err(error) => {
                            tracing::error!("no other process took over: {error}; this one continues to serve");
                        }
                    }
                }
                *lock(&self.own) = Doors::default();
            });
        })?;
        Ok(())
    }

    /// Starts the successor, gives it the sockets, and waits until it could serve. Returns its number.
    fn give(&self, clients: &Shutdown) -> io::Result<u32> {
        if id() == FIRST {
            return Err(io::Error::other("a container ends with its first process"));
        }
        let program = self.program.as_ref().ok_or_else(|| io::Error::other("the file of the program is not known"))?;
        let (here, there) = pair()?;
        here.limit(LIMIT)?;
        let mut command = Command::new(program);
        command.args(env::args_os().skip(1)).env(VARIABLE, id().to_string()).stdin(there);
        let mut child = command.spawn()?;
        // Its end of the pair is closed here: that the child has ended is seen by the other end.
        drop(command);
        match self.introduce(&here, clients) {
            Ok(()) => Ok(child.id()),
            Err(error) => Err(stop(&mut child, error)),
        }
    }

    fn introduce(&self, successor: &SocketEnd, clients: &Shutdown) -> io::Result<()> {
        lock(&self.own).send(successor)?;
        successor.expect(READY)?;
        if clients.is_announced() {
            return Err(io::Error::other("this one was told to stop"));
        }
        let own = lock(&self.own);
        own.files().for_each(|file| file.own(false));
        successor.send(BEGIN, &[]).inspect_err(|_| own.files().for_each(|file| file.own(true)))
    }
}

/// Ends a successor that did not take over, and says why it did not.
fn stop(child: &mut Child, error: io::Error) -> io::Error {
    let late = error.kind() == io::ErrorKind::WouldBlock;
    let _ = child.kill();
    match child.wait() {
        _ if late => io::Error::other(format!("it was not ready within {LIMIT:?}")),
        Ok(status) if status.code().is_some() => io::Error::other(format!("it ended with {status}")),
        _ => error,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
