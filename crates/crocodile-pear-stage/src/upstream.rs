//! An upstream that does what its script says, and notes what it was asked.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crocodile_pear::unstable::config::spec::Entries;
use socket2::SockRef;

use crate::PATIENCE;
use crate::gates::Gates;
use crate::script::{Act, Acts, Payload, Received, check_fields};

/// A scripted upstream on a socket of its own.
pub struct Upstream {
    /// Where it listens.
    pub address: SocketAddr,
    notes: Arc<Mutex<Notes>>,
}

/// The events at an upstream.
#[derive(Default)]
struct Notes {
    connections: usize,
    calls: Vec<Noted>,
    faults: Vec<String>,
}

#[derive(Clone, Debug, Default)]
struct Noted {
    call: String,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
    trailers: Vec<(String, String)>,
}

impl Upstream {
    /// Listens, and plays its part for every call.
    pub fn start(script: &Entries<Acts>, gates: &Gates) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let notes = Arc::new(Mutex::new(Notes::default()));
        let part = Part { script: Arc::new(script.clone()), gates: gates.clone(), notes: notes.clone(), address };
        // It ends with the process: nobody knows its port once the gateway has ended.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let part = part.clone();
                part.note(|notes| notes.connections += 1);
                thread::spawn(move || part.play(stream));
            }
        });
        Ok(Upstream { address, notes })
    }

    /// Checks that it was asked just this.
    pub fn check(&self, wanted: &[Received]) -> Result<(), String> {
        let mut calls = self.notes.lock().unwrap_or_else(PoisonError::into_inner).calls.clone();
        for wanted in wanted {
            let Some(at) = calls.iter().position(|noted| noted.call == wanted.call) else {
                let others: Vec<&str> = calls.iter().map(|noted| &*noted.call).collect();
                return Err(format!("no call was `{}`; there were {others:?}", wanted.call));
            };
            let noted = calls.remove(at);
            if let Some(fields) = &wanted.headers {
                check_fields(&noted.fields, fields).map_err(|wrong| format!("{}: {wrong}", noted.call))?;
            }
            if let Some(body) = &wanted.body
                && body.bytes()? != noted.body
            {
                return Err(format!("{}: the body was {}", noted.call, noted.body.escape_ascii()));
            }
            if let Some(trailers) = &wanted.trailers {
                check_fields(&noted.trailers, trailers).map_err(|wrong| format!("{}: {wrong}", noted.call))?;
            }
        }
        match calls.first() {
            None => Ok(()),
            Some(noted) => Err(format!("`{}` was called as well", noted.call)),
        }
    }

    /// How many connections came.
    pub fn connections(&self) -> usize {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).connections
    }

    /// The requests and acts that did not go by the script.
    pub fn faults(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).faults.clone()
    }
}

#[derive(Clone)]
struct Part {
    script: Arc<Entries<Acts>>,
    gates: Gates,
    notes: Arc<Mutex<Notes>>,
    address: SocketAddr,
}

/// Why a connection is over.
enum Over {
    Ended,
    Fault(String),
}

impl From<io::Error> for Over {
    // Whoever leaves early is no fault of the script's.
    fn from(_: io::Error) -> Self {
        Over::Ended
    }
}

impl From<String> for Over {
    fn from(fault: String) -> Self {
        Over::Fault(fault)
    }
}

impl Part {
    fn note<T>(&self, note: impl FnOnce(&mut Notes) -> T) -> T {
        note(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn play(&self, stream: TcpStream) {
        let _ = stream.set_read_timeout(Some(PATIENCE * 2));
        let _ = stream.set_nodelay(true);
        let mut reader = BufReader::new(stream);
        loop {
            match self.call(&mut reader) {
                Ok(()) => {}
                Err(Over::Ended) => return,
                Err(Over::Fault(fault)) => return self.note(|notes| notes.faults.push(fault)),
            }
        }
    }

    /// Plays one call, from its head to the end of its acts.
    fn call(&self, reader: &mut BufReader<TcpStream>) -> Result<(), Over> {
        let (call, fields) = head(reader)?;
        let mut rest = Rest::of(&fields);
        let index = self.note(|notes| {
            notes.calls.push(Noted { call: call.clone(), fields, ..Noted::default() });
            notes.calls.len() - 1
        });
        let Some(acts) = self.acts(&call) else {
            return Err(Over::Fault(format!("nobody said what `{call}` answers")));
        };
        for act in &acts.0 {
            self.act(act, &call, index, &mut rest, reader)?;
        }
        Ok(())
    }

    /// The acts for a call: by method and target, by target, by path, or for anything else.
    fn acts(&self, call: &str) -> Option<&Acts> {
        let target = call.split_once(' ').map_or("", |(_, target)| target);
        let path = target.split('?').next().unwrap_or_default();
        [call, target, path, "*"].into_iter().find_map(|key| self.script.get(key)).map(|(_, acts)| acts)
    }

    fn act(
        &self,
        act: &Act,
        call: &str,
        index: usize,
        rest: &mut Rest,
        reader: &mut BufReader<TcpStream>,
    ) -> Result<(), Over> {
        let mut hear = |least: usize, reader: &mut BufReader<TcpStream>| -> Result<(), Over> {
            while self.note(|notes| notes.calls[index].body.len()) < least {
                match rest.read(reader)? {
                    BodyPart::Data(bytes) => self.note(|notes| notes.calls[index].body.extend(bytes)),
                    BodyPart::End(trailers) => {
                        self.note(|notes| notes.calls[index].trailers.extend(trailers));
                        return Ok(());
                    }
                }
            }
            Ok(())
        };
        if let Some(least) = act.reads {
            hear(least, reader)?;
        }
        if let Some(gate) = &act.wait {
            // A gate that stays shut is the scenario's way to hang.
            self.gates.pass(gate).map_err(|_| Over::Ended)?;
        }
        if let Some(gate) = &act.open {
            self.gates.open(gate);
        }
        if act.reads.is_none()
            && (act.status.is_some() || act.raw.is_some() || act.body.is_some() || act.chunks.is_some())
        {
            hear(usize::MAX, reader)?;
        }
        if act.status.is_some() || act.body.is_some() || act.chunks.is_some() || act.headers.is_some() {
            reader.get_mut().write_all(&answer(act, call, self.address)?)?;
        }
        if let Some(raw) = &act.raw {
            let written = write(raw, reader.get_mut());
            // Who leaves while there is still something to say has left.
            if let (Err(Over::Ended), Some(gate)) = (&written, &act.left) {
                self.gates.open(gate);
            }
            written?;
        }
        match act.end.as_deref() {
            None => {}
            Some("fin") => {
                reader.get_ref().shutdown(Shutdown::Both)?;
                act.over.iter().for_each(|gate| self.gates.open(gate));
                return Err(Over::Ended);
            }
            Some("rst") => {
                SockRef::from(reader.get_ref()).set_linger(Some(Duration::ZERO))?;
                return Err(Over::Ended);
            }
            Some(other) => return Err(Over::Fault(format!("no end is `{other}`"))),
        }
        if let Some(gate) = &act.left {
            // What is still said is not listened to; an end and a reset are the same here.
            while reader.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
            self.gates.open(gate);
            return Err(Over::Ended);
        }
        Ok(())
    }
}

/// Writes what may be too much to hold.
fn write(payload: &Payload, stream: &mut TcpStream) -> Result<(), Over> {
    let (part, times) = payload.parts()?;
    let at_once = (64 * 1024 / part.len().max(1)).clamp(1, times.max(1));
    let block = part.repeat(at_once);
    for _ in 0..times / at_once {
        stream.write_all(&block)?;
    }
    stream.write_all(&part.repeat(times % at_once))?;
    Ok(())
}

/// The bytes of an answer that is told by its parts.
fn answer(act: &Act, call: &str, own: SocketAddr) -> Result<Vec<u8>, String> {
    let mut out = format!("HTTP/1.1 {} Scripted\r\n", act.status.unwrap_or(200)).into_bytes();
    let fields = act.headers.iter().flatten();
    for (name, (_, value)) in fields.clone() {
        if let Some(value) = value {
            let value = value.replace("${SELF}", &own.to_string());
            out.extend(format!("{name}: {value}\r\n").into_bytes());
        }
    }
    let has = |name: &str| fields.clone().any(|(known, _)| known.eq_ignore_ascii_case(name));
    if !has("content-type") && (act.body.is_some() || act.chunks.is_some()) {
        out.extend(b"content-type: application/json\r\n");
    }
    if let Some(chunks) = &act.chunks {
        out.extend(b"transfer-encoding: chunked\r\n\r\n");
        for chunk in chunks {
            let bytes = chunk.bytes()?;
            out.extend(format!("{:x}\r\n", bytes.len()).into_bytes());
            out.extend(bytes);
            out.extend(b"\r\n");
        }
        out.extend(b"0\r\n\r\n");
        return Ok(out);
    }
    let body = act.body.as_ref().map(Payload::bytes).transpose()?.unwrap_or_default();
    let bodiless = matches!(act.status, Some(204 | 304)) || has("content-length");
    if !bodiless {
        out.extend(format!("content-length: {}\r\n", body.len()).into_bytes());
    }
    out.extend(b"\r\n");
    if !call.starts_with("HEAD ") {
        out.extend(body);
    }
    Ok(out)
}

type Fields = Vec<(String, String)>;

fn line(reader: &mut impl BufRead) -> Result<String, Over> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    let line = line.strip_suffix(b"\r\n").ok_or(Over::Ended)?;
    Ok(String::from_utf8_lossy(line).into_owned())
}

fn head(reader: &mut impl BufRead) -> Result<(String, Fields), Over> {
    let first = line(reader)?;
    let call = first.strip_suffix(" HTTP/1.1").ok_or_else(|| format!("{first:?} is no request line"))?.to_owned();
    Ok((call, fields(reader)?))
}

/// Fields, up to the empty line behind them.
fn fields(reader: &mut impl BufRead) -> Result<Fields, Over> {
    let mut fields = Vec::new();
    loop {
        let line = line(reader)?;
        if line.is_empty() {
            return Ok(fields);
        }
        let (name, value) = line.split_once(':').ok_or_else(|| format!("{line:?} is no field"))?;
        fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// The part of a request's body that was read.
enum BodyPart {
    Data(Vec<u8>),
    /// The end, with the trailers.
    End(Fields),
}

/// The rest of a request's body.
enum Rest {
    Sized(usize),
    Chunked,
}

impl Rest {
    fn of(fields: &Fields) -> Self {
        let field = |name: &str| fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        match field("transfer-encoding") {
            Some(_) => Rest::Chunked,
            None => Rest::Sized(field("content-length").and_then(|length| length.parse().ok()).unwrap_or(0)),
        }
    }

    fn read(&mut self, reader: &mut BufReader<TcpStream>) -> Result<BodyPart, Over> {
        match self {
            Rest::Sized(0) => Ok(BodyPart::End(Fields::new())),
            Rest::Sized(left) => {
                let bytes = reader.fill_buf()?;
                let bytes = bytes[..bytes.len().min(*left)].to_vec();
                if bytes.is_empty() {
                    return Err(Over::Ended);
                }
                reader.consume(bytes.len());
                *left -= bytes.len();
                Ok(BodyPart::Data(bytes))
            }
            Rest::Chunked => {
                let size = line(reader)?;
                let size = usize::from_str_radix(&size, 16).map_err(|_| format!("{size:?} is no chunk size"))?;
                if size == 0 {
                    *self = Rest::Sized(0);
                    return fields(reader).map(BodyPart::End);
                }
                let mut bytes = vec![0; size];
                reader.read_exact(&mut bytes)?;
                line(reader)?;
                Ok(BodyPart::Data(bytes))
            }
        }
    }
}
