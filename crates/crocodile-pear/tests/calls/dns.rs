//! Names: asked for off the way, followed when they move, kept when nobody answers.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crocodile_pear::unstable::error::Kind;
use crocodile_pear::unstable::upstream::{ReadyUpstream, Resolver};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpStream, UdpSocket};

use crate::call::{fetch, get, upstream};
use crate::peers::asked::Asked;
use crate::peers::served::{Served, bind};
use crate::peers::shop::answer;

/// A name server; `None`: it does not answer.
#[derive(Clone)]
struct Names(Arc<Mutex<Option<Vec<Ipv4Addr>>>>);

impl Names {
    async fn new(addresses: &[Ipv4Addr]) -> (Self, SocketAddr) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = socket.local_addr().unwrap();
        let names = Names(Arc::new(Mutex::new(Some(addresses.to_vec()))));
        let answers = names.clone();
        tokio::spawn(async move {
            let mut buffer = [0; 1024];
            loop {
                let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
                let answers = answers.0.lock().unwrap().clone();
                if let Some(addresses) = answers {
                    socket.send_to(&resolve(&buffer[..length], &addresses), from).await.unwrap();
                }
            }
        });
        (names, address)
    }

    fn set(&self, addresses: Option<&[Ipv4Addr]>) {
        *self.0.lock().unwrap() = addresses.map(<[_]>::to_vec);
    }
}

/// RFC 1035, 4.1; every address for one second.
fn resolve(query: &[u8], addresses: &[Ipv4Addr]) -> Vec<u8> {
    let end = 12 + query[12..].iter().position(|&byte| byte == 0).unwrap() + 5;
    let wanted: &[Ipv4Addr] = if query[end - 3] == 1 { addresses } else { &[] };
    let mut answer = vec![query[0], query[1], 0x81, 0x80, 0, 1, 0, wanted.len() as u8, 0, 0, 0, 0];
    answer.extend_from_slice(&query[12..end]);
    for address in wanted {
        answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
        answer.extend_from_slice(&address.octets());
    }
    answer
}

/// Answers a call with its own address, on a connection that is not kept.
async fn serve(stream: TcpStream) -> io::Result<()> {
    let own = stream.local_addr()?.ip().to_string();
    let mut stream = BufReader::new(stream);
    Asked::receive(&mut stream).await?;
    stream.write_all(&answer(200, "connection: close\r\n", own)).await
}

const FIRST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const SECOND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Nobody listens there.
const DEAD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// Two servers on one port, and the upstream of that port under a name.
async fn stage(addresses: &[Ipv4Addr]) -> (Names, Arc<ReadyUpstream>) {
    let port = Served::begin_on(bind((FIRST, 0).into()), serve).stay().port();
    Served::begin_on(bind((SECOND, port).into()), serve).stay();
    let (names, server) = Names::new(addresses).await;
    let set = |settings: &mut crocodile_pear::unstable::upstream::UpstreamSettings| {
        settings.resolver = Some(Resolver::at(vec![server]));
    };
    (names, upstream(&format!("http://books.test:{port}"), set))
}

async fn until(upstream: &Arc<ReadyUpstream>, wanted: &str) {
    let asking = async { while fetch(upstream, get("/")).await.unwrap() != wanted {} };
    tokio::time::timeout(Duration::from_secs(20), asking).await.expect("the name has moved");
}

#[tokio::test]
async fn a_name_that_moves_is_followed_and_an_outage_changes_nothing() {
    let (names, upstream) = stage(&[FIRST]).await;
    assert_eq!(fetch(&upstream, get("/")).await.unwrap(), "127.0.0.1");
    names.set(Some(&[SECOND]));
    until(&upstream, "127.0.0.2").await;
    names.set(None);
    for _ in 0..50 {
        assert_eq!(fetch(&upstream, get("/")).await.unwrap(), "127.0.0.2");
    }
}

#[tokio::test]
async fn several_addresses_share_the_calls_and_a_dead_one_costs_nothing() {
    let (_names, upstream) = stage(&[FIRST, DEAD, SECOND]).await;
    let mut seen = Vec::new();
    for _ in 0..9 {
        seen.push(fetch(&upstream, get("/")).await.unwrap());
    }
    assert!(seen.iter().any(|body| body == "127.0.0.1") && seen.iter().any(|body| body == "127.0.0.2"), "{seen:?}");
}

#[tokio::test]
async fn a_name_without_addresses_is_told() {
    let (_names, upstream) = stage(&[]).await;
    let error = fetch(&upstream, get("/")).await.unwrap_err();
    assert_eq!((error.kind(), error.detail()), (Kind::Unreachable, "no address"));
}
