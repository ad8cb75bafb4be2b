//! Names of prepared statements on the wire. The client library counts them: `s1`, `s2`. Two gateways that share the
//! connections of a server, through a pooler, would get each other's statements. So each name gets the process in
//! front of it, or statements get no names at all: then each is parsed again where it runs, in the same turn.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// So much is read at once, where messages are looked at.
const READ: usize = 8 << 10;

/// More that waits for the socket is not taken.
const HELD: usize = 64 << 10;

/// How statements are named on a connection, set before the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Naming {
    /// With the process and a number.
    Named,
    /// Without names.
    Unnamed,
    /// The same, and each may only read: what is set for a session of a pooler would be set for other clients.
    UnnamedReads,
}

/// The naming of a connection that is open.
#[derive(Clone)]
pub(super) struct ConnectionNaming(Arc<AtomicU8>);

impl ConnectionNaming {
    pub(super) fn set(&self, naming: Naming) {
        self.0.store(naming as u8, Relaxed);
    }

    fn get(&self) -> Naming {
        match self.0.load(Relaxed) {
            0 => Naming::Named,
            1 => Naming::Unnamed,
            _ => Naming::UnnamedReads,
        }
    }
}

/// The prefix of the name of each statement: no other process has it.
static PROCESS: LazyLock<String> = LazyLock::new(|| {
    // Its keys are random; the number of the process is not known to them.
    let random = RandomState::new().hash_one(std::process::id());
    format!("cp{random:016x}{:02x}_", std::process::id() as u8)
});

/// A connection whose statements are renamed.
pub struct RenamedConnection<S> {
    inner: S,
    naming: ConnectionNaming,
    writer: MessageWriter,
    reader: MessageReader,
}

/// The messages that are sent.
#[derive(Default)]
struct MessageWriter {
    /// Whether the first message was sent, which has no type.
    begun: bool,
    /// The beginning of a message.
    partial: BytesMut,
    /// For the socket.
    out: BytesMut,
    /// The statements, by the name that the client library has for them.
    statements: HashMap<Vec<u8>, Unnamed>,
    /// How the messages up to the next `Sync` are answered.
    batch: Option<SyncBatch>,
}

/// A statement without a name.
struct Unnamed {
    /// The message that parses it.
    parse: Vec<u8>,
    /// Its columns, once they are known.
    columns: Option<Vec<u8>>,
}

/// How the messages up to a `Sync` are answered.
enum SyncBatch {
    /// The messages that the client library expects.
    Plain,
    /// The columns of this statement are told.
    Describes(Vec<u8>),
    /// Messages come that the client library does not expect, up to the columns of this statement.
    Runs(Vec<u8>),
    /// The statement has changed; nothing of its answer is good.
    Changed,
}

/// The messages that are received, where they are looked at.
#[derive(Default)]
struct MessageReader {
    inbox: BytesMut,
    /// For the client library.
    ready: BytesMut,
    /// So many bytes more belong to a message that is handed on.
    passing: usize,
    batches: VecDeque<SyncBatch>,
}

impl<S> RenamedConnection<S> {
    pub(super) fn new(inner: S) -> (Self, ConnectionNaming) {
        let naming = ConnectionNaming(Arc::new(AtomicU8::new(Naming::Named as u8)));
        let wire = RenamedConnection {
            inner,
            naming: naming.clone(),
            writer: MessageWriter::default(),
            reader: MessageReader::default(),
        };
        (wire, naming)
    }
}

/// A text up to its NUL, and the rest.
fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(0, bytes)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

fn message(out: &mut BytesMut, kind: u8, parts: &[&[u8]]) {
    out.put_u8(kind);
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.put_u32(length as u32 + 4);
    parts.iter().for_each(|part| out.put_slice(part));
}

impl MessageWriter {
    /// Takes bytes of the client library; whole messages are made ready.
    fn take(&mut self, sent: &[u8], naming: Naming, batches: &mut VecDeque<SyncBatch>) {
        let mut kept = std::mem::take(&mut self.partial);
        let mut bytes = sent;
        if !kept.is_empty() {
            kept.extend_from_slice(sent);
            bytes = &kept;
        }
        loop {
            let head = usize::from(self.begun);
            let Some(length) = bytes.get(head..head + 4) else { break };
            let length = head + u32::from_be_bytes(length.try_into().unwrap_or_default()) as usize;
            let Some(whole) = bytes.get(..length.max(head + 4)) else { break };
            bytes = &bytes[whole.len()..];
            if std::mem::replace(&mut self.begun, true) {
                self.rename(whole[0], whole, naming, batches);
            } else {
                self.out.extend_from_slice(whole);
            }
        }
        self.partial = BytesMut::from(bytes);
    }

    fn rename(&mut self, kind: u8, whole: &[u8], naming: Naming, batches: &mut VecDeque<SyncBatch>) {
        let done = match naming {
            Naming::Named => self.named(kind, whole),
            Naming::Unnamed | Naming::UnnamedReads => self.unnamed(kind, whole, naming, batches),
        };
        if done.is_none() {
            self.out.extend_from_slice(whole);
        }
    }

    /// Puts the process in front of a name; `None` if there is none in it.
    fn named(&mut self, kind: u8, whole: &[u8]) -> Option<()> {
        let body = &whole[5..];
        // In front of the name: the portal of a `Bind`, or what is described or closed.
        let before = match kind {
            b'P' => 0,
            b'B' => body.len() - text(body)?.1.len(),
            b'D' | b'C' if body.first() == Some(&b'S') => 1,
            _ => return None,
        };
        let (before, rest) = body.split_at(before);
        if text(rest)?.0.is_empty() {
            return None;
        }
        message(&mut self.out, kind, &[before, PROCESS.as_bytes(), rest]);
        Some(())
    }

    fn unnamed(&mut self, kind: u8, whole: &[u8], naming: Naming, batches: &mut VecDeque<SyncBatch>) -> Option<()> {
        let body = &whole[5..];
        match kind {
            b'P' => {
                let (name, rest) = text(body)?;
                let mut parse = BytesMut::new();
                message(&mut parse, b'P', &[b"\0", rest]);
                self.out.extend_from_slice(&parse);
                self.statements.insert(name.to_vec(), Unnamed { parse: parse.to_vec(), columns: None });
            }
            b'D' if body.first() == Some(&b'S') => {
                let (name, _) = text(&body[1..])?;
                message(&mut self.out, b'D', &[b"S\0"]);
                self.batch = Some(SyncBatch::Describes(name.to_vec()));
            }
            b'C' if body.first() == Some(&b'S') => {
                let (name, _) = text(&body[1..])?;
                self.statements.remove(name);
                message(&mut self.out, b'C', &[b"S\0"]);
            }
            b'B' => {
                let (portal, rest) = text(body)?;
                let (name, values) = text(rest)?;
                let statement = self.statements.get(name)?;
                if naming == Naming::UnnamedReads {
                    let only = b"\0select set_config('transaction_read_only', 'on', true)\0\0\0";
                    message(&mut self.out, b'P', &[only]);
                    message(&mut self.out, b'B', &[b"\0\0\0\0\0\0\0\0"]);
                    message(&mut self.out, b'E', &[b"\0\0\0\0\0"]);
                }
                self.out.extend_from_slice(&statement.parse);
                message(&mut self.out, b'D', &[b"S\0"]);
                message(&mut self.out, b'B', &[portal, b"\0\0", values]);
                self.batch = Some(SyncBatch::Runs(name.to_vec()));
            }
            b'S' => {
                batches.push_back(self.batch.take().unwrap_or(SyncBatch::Plain));
                return None;
            }
            b'Q' => {
                batches.push_back(SyncBatch::Plain);
                return None;
            }
            _ => return None,
        }
        Some(())
    }
}

/// The names and types of columns, as a message describes them.
fn columns(body: &[u8]) -> Option<Vec<u8>> {
    let mut known = Vec::new();
    let mut rest = body.get(2..)?;
    while !rest.is_empty() {
        let (name, after) = text(rest)?;
        known.extend_from_slice(name);
        known.push(0);
        // The table and the number of the column, its type, its size, modifier and format.
        known.extend_from_slice(after.get(6..10)?);
        rest = after.get(18..)?;
    }
    Some(known)
}

/// The error that the client library gets instead of rows of other columns than it knows.
const CHANGED: &[u8] = b"SERROR\0VERROR\0C08P01\0Mthe columns of a statement have changed\0\0";

impl MessageReader {
    /// Looks at what has come, and makes ready what is for the client library.
    fn look(&mut self, statements: &mut HashMap<Vec<u8>, Unnamed>) {
        loop {
            let passes = self.passing.min(self.inbox.len());
            self.ready.extend_from_slice(&self.inbox[..passes]);
            self.inbox.advance(passes);
            self.passing -= passes;
            let Some(head) = self.inbox.get(..5).filter(|_| self.passing == 0) else { return };
            let kind = head[0];
            let length = 1 + u32::from_be_bytes(head[1..].try_into().unwrap_or_default()).max(4) as usize;
            // What may come at any time: notices, settings, notifications.
            let aside = matches!(kind, b'N' | b'S' | b'A');
            let looks = !aside && !matches!(self.batches.front(), None | Some(SyncBatch::Plain));
            if !looks {
                if kind == b'Z' {
                    self.batches.pop_front();
                }
                self.passing = length;
                continue;
            }
            if self.inbox.len() < length {
                return;
            }
            let whole = self.inbox.split_to(length);
            let Some(batch) = self.batches.front_mut() else { return };
            match (&mut *batch, kind) {
                (_, b'Z') => {
                    self.batches.pop_front();
                }
                (SyncBatch::Changed, _) => continue,
                (SyncBatch::Describes(name), b'T' | b'n') => {
                    if let Some(statement) = statements.get_mut(name) {
                        statement.columns = if kind == b'T' { columns(&whole[5..]) } else { Some(Vec::new()) };
                    }
                }
                (_, b'E') => *batch = SyncBatch::Plain,
                (SyncBatch::Runs(_), b'1' | b'2' | b'D' | b'C' | b't') => continue,
                (SyncBatch::Runs(name), b'T' | b'n') => {
                    let now = if kind == b'T' { columns(&whole[5..]) } else { Some(Vec::new()) };
                    // A statement that was closed meanwhile is compared with nothing.
                    let same = statements.get(name).is_none_or(|statement| statement.columns == now);
                    if same {
                        *batch = SyncBatch::Plain;
                    } else {
                        *batch = SyncBatch::Changed;
                        message(&mut self.ready, b'E', &[CHANGED]);
                    }
                    continue;
                }
                _ => {}
            }
            self.ready.extend_from_slice(&whole);
        }
    }
}

impl<S: AsyncWrite + Unpin> RenamedConnection<S> {
    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.writer.out.is_empty() {
            let written = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.writer.out))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.writer.out.advance(written);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RenamedConnection<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.writer.out.len() > HELD {
            ready!(this.poll_out(cx))?;
        }
        this.writer.take(bytes, this.naming.get(), &mut this.reader.batches);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_out(cx))?;
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_out(cx))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for RenamedConnection<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.naming.get() == Naming::Named {
            return Pin::new(&mut this.inner).poll_read(cx, buf);
        }
        loop {
            if !this.reader.ready.is_empty() {
                let length = buf.remaining().min(this.reader.ready.len());
                buf.put_slice(&this.reader.ready[..length]);
                this.reader.ready.advance(length);
                return Poll::Ready(Ok(()));
            }
            let mut bytes = [0; READ];
            let mut read = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.reader.inbox.extend_from_slice(read.filled());
            this.reader.look(&mut this.writer.statements);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(messages: &[(u8, &[u8])]) -> Vec<u8> {
        let mut out = BytesMut::new();
        messages.iter().for_each(|(kind, body)| message(&mut out, *kind, &[body]));
        out.to_vec()
    }

    /// A writer whose first message was sent.
    fn begun() -> MessageWriter {
        MessageWriter { begun: true, ..MessageWriter::default() }
    }

    const PARSE: (u8, &[u8]) = (b'P', b"s1\0select 1\0\0\0");
    const BIND: (u8, &[u8]) = (b'B', b"\0s1\0\0\0\0\0\0\0");

    #[test]
    fn names_are_those_of_the_process() {
        let mut writer = begun();
        let sent = bytes(&[PARSE, (b'D', b"Ss1\0"), (b'S', b""), BIND, (b'D', b"P\0"), (b'C', b"Ss1\0")]);
        // However the bytes are divided.
        for byte in sent {
            writer.take(&[byte], Naming::Named, &mut VecDeque::new());
        }
        let name = format!("{}s1\0", *PROCESS);
        let wanted = bytes(&[
            (b'P', format!("{name}select 1\0\0\0").as_bytes()),
            (b'D', format!("S{name}").as_bytes()),
            (b'S', b""),
            (b'B', format!("\0{name}\0\0\0\0\0\0").as_bytes()),
            (b'D', b"P\0"),
            (b'C', format!("S{name}").as_bytes()),
        ]);
        assert_eq!(writer.out, wanted);
    }

    /// The columns of a statement: one, of this type.
    fn described(kind: u32) -> Vec<u8> {
        let mut body = vec![0, 1, b'n', 0];
        body.extend_from_slice(&[0; 6]);
        body.extend_from_slice(&kind.to_be_bytes());
        body.extend_from_slice(&[0; 8]);
        body
    }

    #[test]
    fn a_statement_without_a_name_is_parsed_where_it_runs() {
        let (mut writer, mut reader) = (begun(), MessageReader::default());
        writer.take(&bytes(&[PARSE, (b'D', b"Ss1\0"), (b'S', b"")]), Naming::Unnamed, &mut reader.batches);
        let columns = described(23);
        let said = bytes(&[(b'1', b""), (b't', b"\0\0"), (b'T', &columns), (b'Z', b"I")]);
        reader.inbox.extend_from_slice(&said);
        reader.look(&mut writer.statements);
        assert_eq!(reader.ready.split(), said);
        writer.out.clear();
        writer.take(&bytes(&[BIND, (b'E', b"\0\0\0\0\0"), (b'S', b"")]), Naming::UnnamedReads, &mut reader.batches);
        let kinds: Vec<u8> = kinds(&writer.out);
        assert_eq!(kinds, b"PBEPDBES");
        let before =
            bytes(&[(b'1', b""), (b'2', b""), (b'D', b"on"), (b'C', b"SELECT 1\0"), (b'1', b""), (b't', b"\0\0")]);
        let rows = bytes(&[(b'2', b""), (b'D', b"1"), (b'C', b"SELECT 1\0"), (b'Z', b"I")]);
        for byte in [before, bytes(&[(b'T', &columns)]), rows.clone()].concat() {
            reader.inbox.extend_from_slice(&[byte]);
            reader.look(&mut writer.statements);
        }
        assert_eq!(reader.ready, rows);
        assert!(reader.batches.is_empty());
    }

    #[test]
    fn rows_of_other_columns_are_never_given() {
        let (mut writer, mut reader) = (begun(), MessageReader::default());
        writer.take(&bytes(&[PARSE, (b'D', b"Ss1\0"), (b'S', b"")]), Naming::Unnamed, &mut reader.batches);
        reader.inbox.extend_from_slice(&bytes(&[(b'1', b""), (b't', b"\0\0"), (b'T', &described(23)), (b'Z', b"I")]));
        reader.look(&mut writer.statements);
        reader.ready.clear();
        writer.take(&bytes(&[BIND, (b'E', b"\0\0\0\0\0"), (b'S', b"")]), Naming::Unnamed, &mut reader.batches);
        let rows: [(u8, &[u8]); 4] = [(b'2', b""), (b'D', b"1"), (b'C', b"SELECT 1\0"), (b'Z', b"I")];
        let said = [bytes(&[(b'1', b""), (b't', b"\0\0"), (b'T', &described(700))]), bytes(&rows)].concat();
        reader.inbox.extend_from_slice(&said);
        reader.look(&mut writer.statements);
        assert_eq!(reader.ready, bytes(&[(b'E', CHANGED), (b'Z', b"I")]));
    }

    fn kinds(mut bytes: &[u8]) -> Vec<u8> {
        let mut kinds = Vec::new();
        while !bytes.is_empty() {
            kinds.push(bytes[0]);
            bytes = &bytes[1 + u32::from_be_bytes(bytes[1..5].try_into().expect("four")) as usize..];
        }
        kinds
    }
}
