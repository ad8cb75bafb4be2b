//! A name server of a test's own, which behaves as the test says.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::pause;

/// The answer of the server to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manner {
    /// These addresses, for a second.
    Addresses(Vec<IpAddr>),
    /// Nobody answers.
    Silence,
    /// This code: 2 is a failure of the server, 3 says that there is no such name, 5 refuses.
    Code(u8),
    /// Bytes that mean nothing.
    Garbage,
    /// The answer says that it is too long, and nobody answers over TCP.
    Truncated,
}

/// A name server.
#[derive(Clone)]
pub struct Names {
    /// Where it is asked.
    pub address: SocketAddr,
    manner: Arc<Mutex<Manner>>,
    own: Arc<Mutex<HashMap<String, Vec<IpAddr>>>>,
    asked: Arc<AtomicUsize>,
    delay: Arc<Mutex<Duration>>,
}

impl Names {
    /// Answers every name with these addresses; with nothing, if there are none.
    pub fn new(addresses: &[&str]) -> Self {
        Self::at((Ipv4Addr::LOCALHOST, 0).into(), addresses)
    }

    /// The same at this address.
    pub fn at(address: SocketAddr, addresses: &[&str]) -> Self {
        let socket = UdpSocket::bind(address).unwrap();
        let manner = Arc::new(Mutex::new(Manner::Silence));
        let address = socket.local_addr().unwrap();
        let names = Names { address, manner, own: Arc::default(), asked: Arc::default(), delay: Arc::default() };
        names.set(addresses);
        let server = names.clone();
        thread::spawn(move || {
            let mut query = [0; 1024];
            while let Ok((length, from)) = socket.recv_from(&mut query) {
                server.asked.fetch_add(1, Ordering::SeqCst);
                let Some(reply) = server.reply(&query[..length]) else { continue };
                let delay = *server.delay.lock().unwrap_or_else(PoisonError::into_inner);
                // Who asked may be gone.
                if delay.is_zero() {
                    let _ = socket.send_to(&reply, from);
                    continue;
                }
                let socket = socket.try_clone().unwrap();
                thread::spawn(move || {
                    pause(delay);
                    socket.send_to(&reply, from)
                });
            }
        });
        names
    }

    /// These addresses from now on; nobody answers, if there are none.
    pub fn set(&self, addresses: &[&str]) {
        self.behave(match addresses {
            [] => Manner::Silence,
            addresses => Manner::Addresses(parse(addresses)),
        });
    }

    /// Answers one name with these addresses.
    pub fn name(&self, name: &str, addresses: &[&str]) {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), parse(addresses));
    }

    /// Behaves so from now on.
    pub fn behave(&self, manner: Manner) {
        *self.manner.lock().unwrap_or_else(PoisonError::into_inner) = manner;
    }

    /// Each answer takes this long from now on.
    pub fn delay(&self, time: Duration) {
        *self.delay.lock().unwrap_or_else(PoisonError::into_inner) = time;
    }

    /// How many questions came.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn reply(&self, query: &[u8]) -> Option<Vec<u8>> {
        let (name, end) = question(query)?;
        let manner = self.manner.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
        let head = |flags: [u8; 2]| [&query[..2], &flags, &[0, 1, 0, 0, 0, 0, 0, 0], &query[12..end]].concat();
        match (manner, own) {
            (Manner::Addresses(_), Some(addresses)) | (Manner::Addresses(addresses), None) => {
                Some(answer(query, end, &addresses))
            }
            (Manner::Silence, _) => None,
            (Manner::Code(code), _) => Some(head([0x81, 0x80 | code])),
            (Manner::Garbage, _) => Some([&query[..2], &[0xff; 40][..]].concat()),
            (Manner::Truncated, _) => Some(head([0x83, 0x80])),
        }
    }
}

fn parse(addresses: &[&str]) -> Vec<IpAddr> {
    addresses.iter().map(|address| address.parse().unwrap()).collect()
}

/// The name that is asked for, and where the question ends.
fn question(query: &[u8]) -> Option<(String, usize)> {
    let (mut at, mut labels) = (12, Vec::new());
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            return Some((labels.join("."), at + 4)).filter(|(_, end)| *end <= query.len());
        }
        labels.push(String::from_utf8_lossy(query.get(at..at + length)?).to_ascii_lowercase());
        at += length;
    }
}

/// RFC 1035, 4.1, and RFC 3596.
fn answer(query: &[u8], end: usize, addresses: &[IpAddr]) -> Vec<u8> {
    let asked = query[end - 3];
    let fits = |address: &&IpAddr| asked == if address.is_ipv4() { 1 } else { 28 };
    let wanted: Vec<&IpAddr> = addresses.iter().filter(fits).collect();
    let mut answer = vec![query[0], query[1], 0x81, 0x80, 0, 1, 0, wanted.len() as u8, 0, 0, 0, 0];
    answer.extend_from_slice(&query[12..end]);
    for address in wanted {
        answer.extend_from_slice(&[0xc0, 12, 0, asked, 0, 1, 0, 0, 0, 1, 0]);
        match address {
            IpAddr::V4(four) => answer.extend([&[4][..], &four.octets()].concat()),
            IpAddr::V6(six) => answer.extend([&[16][..], &six.octets()].concat()),
        }
    }
    answer
}
