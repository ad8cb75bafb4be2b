//! A server of keys, as an issuer has one.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;

/// What it answers: a status and a body; status 0 closes the connection without an answer.
type Answer = (u16, String);

/// It counts its requests, and keeps what it was sent.
#[derive(Clone)]
pub struct Issuer {
    pub address: SocketAddr,
    answer: Arc<Mutex<Answer>>,
    seen: Arc<Mutex<Vec<String>>>,
    /// The `authorization` without which the answer is 401.
    needed: Arc<Mutex<Option<String>>>,
}

impl Issuer {
    pub fn start(body: impl Into<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let issuer = Issuer {
            address,
            answer: Arc::new(Mutex::new((200, body.into()))),
            seen: Arc::default(),
            needed: Arc::default(),
        };
        let own = issuer.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let own = own.clone();
                thread::spawn(move || drop(own.serve(stream)));
            }
        });
        issuer
    }

    pub fn url(&self) -> String {
        format!("http://{}/keys?tenant=1", self.address)
    }

    pub fn answers(&self, status: u16, body: impl Into<String>) {
        *self.answer.lock().unwrap() = (status, body.into());
    }

    /// Answers with 401 from now on, but for this `authorization`.
    pub fn needs(&self, authorization: &str) {
        *self.needed.lock().unwrap() = Some(authorization.to_owned());
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// What it was sent last.
    pub fn last(&self) -> String {
        self.seen.lock().unwrap().last().cloned().unwrap_or_default()
    }

    fn serve(&self, mut stream: std::net::TcpStream) -> std::io::Result<()> {
        loop {
            let mut request = Vec::new();
            let mut byte = [0; 1];
            while !request.ends_with(b"\r\n\r\n") {
                stream.read_exact(&mut byte)?;
                request.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&request).to_lowercase();
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next()?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            stream.read_exact(&mut body)?;
            request.extend(body);
            let (mut status, body) = self.answer.lock().unwrap().clone();
            let needed = self.needed.lock().unwrap().clone();
            if needed.is_some_and(|needed| !head.contains(&format!("authorization: {}\r\n", needed.to_lowercase()))) {
                status = 401;
            }
            self.seen.lock().unwrap().push(String::from_utf8_lossy(&request).into_owned());
            if status == 0 {
                return Ok(());
            }
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
            )?;
        }
    }
}
