//! An upstream that answers as a test says, and counts.

use std::io::{self, BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

/// It ends with the process.
pub struct Shop {
    pub address: SocketAddr,
    calls: Arc<AtomicUsize>,
}

/// A call, names of its fields in lower case.
pub struct Asked {
    pub method: String,
    pub target: String,
    pub fields: Vec<(String, String)>,
    /// As long as the head says.
    pub body: Vec<u8>,
}

impl Asked {
    /// The value of a field; empty, if there is none.
    pub fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str()).unwrap_or_default()
    }
}

impl Shop {
    /// `answer` writes what it likes; a connection on which it fails is closed.
    pub fn open(answer: impl Fn(&Asked, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (calls, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(answer));
        let counted = calls.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (counted, answer) = (counted.clone(), answer.clone());
                thread::spawn(move || serve(stream, &counted, &*answer));
            }
        });
        Shop { address, calls }
    }

    /// How many calls came.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

fn serve(
    mut stream: TcpStream,
    calls: &AtomicUsize,
    answer: &dyn Fn(&Asked, &mut TcpStream) -> io::Result<()>,
) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(asked) = head(&mut reader)? {
        calls.fetch_add(1, Ordering::SeqCst);
        answer(&asked, &mut stream)?;
    }
    Ok(())
}

fn head(reader: &mut impl BufRead) -> io::Result<Option<Asked>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split(' ').map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut fields = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        fields.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let mut asked = Asked { method, target, fields, body: Vec::new() };
    asked.body = vec![0; asked.field("content-length").parse().unwrap_or_default()];
    reader.read_exact(&mut asked.body)?;
    Ok(Some(asked))
}

/// Who waits at it goes on once it is open.
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
