//! A server of keys, as an issuer has one.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use crate::stage::shop::{Asked, Shop, answer, close};

/// The issuer's answer: a status and a body; status 0 closes the connection without an answer.
type Answer = (u16, String);

/// An issuer that keeps what it was sent.
pub struct Issuer {
    pub address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    answer: Mutex<Answer>,
    seen: Mutex<Vec<String>>,
    /// The `authorization` without which the answer is 401.
    needed: Mutex<Option<String>>,
}

impl Issuer {
    pub fn start(body: impl Into<String>) -> Self {
        let state = Arc::new(State { answer: Mutex::new((200, body.into())), ..State::default() });
        let own = state.clone();
        let shop = Shop::open(move |asked, stream| own.serve(asked, stream));
        Issuer { address: shop.address, state }
    }

    pub fn url(&self) -> String {
        format!("http://{}/keys?tenant=1", self.address)
    }

    pub fn answers(&self, status: u16, body: impl Into<String>) {
        *self.state.answer.lock().unwrap() = (status, body.into());
    }

    /// Answers with 401 from now on, but for this `authorization`.
    pub fn needs(&self, authorization: &str) {
        *self.state.needed.lock().unwrap() = Some(authorization.to_owned());
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        self.state.seen.lock().unwrap().len()
    }

    /// The last request that the issuer was sent.
    pub fn last(&self) -> String {
        self.state.seen.lock().unwrap().last().cloned().unwrap_or_default()
    }
}

impl State {
    fn serve(&self, asked: &Asked, stream: &mut TcpStream) -> std::io::Result<()> {
        let (status, body) = self.answer.lock().unwrap().clone();
        let needed = self.needed.lock().unwrap().clone();
        let refused = needed.is_some_and(|needed| asked.field("authorization") != needed);
        self.seen.lock().unwrap().push(format!("{}{}", asked.head, String::from_utf8_lossy(&asked.body)));
        match status {
            0 => close(),
            _ => stream.write_all(&answer(
                if refused { 401 } else { status },
                "content-type: application/json\r\n",
                body,
            )),
        }
    }
}
