//! A request as a server of a test reads it, with calls that block and with those that do not.

use std::io::{self, BufRead, ErrorKind};

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// A call, names of its fields in lower case.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The head as it came, up to the empty line and with it.
    pub head: String,
    pub method: String,
    pub target: String,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Asked {
    /// The value of a field; empty, if there is none.
    pub fn field(&self, name: &str) -> &str {
        self.find(name).unwrap_or_default()
    }

    /// The value of a field.
    pub fn find(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// `METHOD target`
    pub fn call(&self) -> String {
        format!("{} {}", self.method, self.target)
    }

    /// Reads the next one, to the end of its body; nothing where the connection ends instead.
    pub fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if reader.read_until(b'\n', &mut head)? == 0 {
                return ended(&head);
            }
        }
        let mut asked = Self::parse(head)?;
        if asked.find("transfer-encoding").is_some() {
            asked.body = chunks(reader)?;
        } else {
            asked.body = vec![0; asked.length()?];
            reader.read_exact(&mut asked.body)?;
        }
        Ok(Some(asked))
    }

    /// The same on a runtime, for bodies that say their length.
    pub async fn receive(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Self>> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if reader.read_until(b'\n', &mut head).await? == 0 {
                return ended(&head);
            }
        }
        let mut asked = Self::parse(head)?;
        if asked.find("transfer-encoding").is_some() {
            return Err(invalid("no chunks are read here", asked.head.as_bytes()));
        }
        asked.body = vec![0; asked.length()?];
        reader.read_exact(&mut asked.body).await?;
        Ok(Some(asked))
    }

    fn parse(head: Vec<u8>) -> io::Result<Self> {
        let head = String::from_utf8(head).map_err(|error| invalid("not UTF-8", error.as_bytes()))?;
        let mut lines = head.trim_end().split("\r\n");
        let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
        let [method, target, "HTTP/1.0" | "HTTP/1.1"] = words[..] else {
            return Err(invalid("no request line", head.as_bytes()));
        };
        let field = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_lowercase(), value.trim().to_owned()))
        };
        let fields: Option<Vec<_>> = lines.map(field).collect();
        let Some(fields) = fields else { return Err(invalid("a line that is no field", head.as_bytes())) };
        let (method, target) = (method.to_owned(), target.to_owned());
        Ok(Asked { head, method, target, fields, body: Vec::new() })
    }

    fn length(&self) -> io::Result<usize> {
        match self.find("content-length").map(str::parse) {
            None => Ok(0),
            Some(length) => length.map_err(|_| invalid("no length", self.head.as_bytes())),
        }
    }
}

fn ended(head: &[u8]) -> io::Result<Option<Asked>> {
    if head.is_empty() { Ok(None) } else { Err(ErrorKind::UnexpectedEof.into()) }
}

fn invalid(what: &str, bytes: &[u8]) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("{what} in a request: {}", bytes.escape_ascii()))
}

/// A body in chunks; its trailer is left out.
fn chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = line(reader)?;
        let size = std::str::from_utf8(&line).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let begin = body.len();
        body.resize(begin + size.ok_or_else(|| invalid("no size of a chunk", &line))?, 0);
        if begin == body.len() {
            break;
        }
        reader.read_exact(&mut body[begin..])?;
        self::line(reader)?;
    }
    while !line(reader)?.is_empty() {}
    Ok(body)
}

fn line(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    let end = line.strip_suffix(b"\r\n").map(<[u8]>::len);
    line.truncate(end.ok_or_else(|| invalid("no end of a line", &line))?);
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_one_after_the_other() {
        let wire = b"PUT /a?b HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc\
            POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n1\r\n!\r\n0\r\nx: y\r\n\r\n";
        let mut reader = &wire[..];
        let first = Asked::read(&mut reader).unwrap().unwrap();
        assert_eq!((&*first.call(), first.field("host"), &first.body[..]), ("PUT /a?b", "h", &b"abc"[..]));
        assert_eq!(Asked::read(&mut reader).unwrap().unwrap().body, b"xyz!");
        assert!(Asked::read(&mut reader).unwrap().is_none());
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let told = Asked::read(&mut &b"hello\r\n\r\n"[..]).unwrap_err().to_string();
        assert_eq!(told, r"no request line in a request: hello\r\n\r\n");
    }
}
