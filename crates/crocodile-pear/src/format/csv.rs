//! CSV (RFC 4180): the first row has the names of the columns; each other row is an object of strings.

mod rules;

use bytes::Bytes;
use csv_core::ReadRecordResult;

pub use self::rules::{CsvRules, Formulas};
use crate::error::{Error, Kind};
use crate::json::value::{self, Shape, Value};
use crate::json::{self, Raw, SIZE, write_string};
use crate::offload::Made;

/// Largest number of columns: each row has all of them.
const COLUMNS: usize = 1024;

static NOTHING: Value = value::null();

/// Reads the rows as a list of objects.
///
/// # Errors
/// Same as [`RowReader::next`]; also `Kind::Oversized` if the repeated column names make the list larger than 64 MiB.
pub fn read(text: &str, delimiter: u8) -> Result<Raw, Error> {
    let mut rows = RowReader::new(SIZE, delimiter);
    rows.push(Bytes::copy_from_slice(text.as_bytes()));
    let (mut out, mut made) = (b"[".to_vec(), Made::default());
    loop {
        let row = match rows.next()? {
            Some(row) => row,
            None => match rows.finish()? {
                Some(row) => row,
                None => break,
            },
        };
        if out.len() > SIZE {
            return Err(Error::new(Kind::Oversized, "the rows become larger than 64 MiB"));
        }
        made.add(row.len());
        out.extend_from_slice(&row);
        out.push(b',');
    }
    if out.len() > 1 {
        out.pop();
    }
    out.push(b']');
    Ok(Raw::sound(out.into(), 2))
}

/// Reads rows that arrive in pieces, in UTF-8. It buffers one row, which becomes at most `bound` bytes of JSON.
pub struct RowReader {
    core: Box<csv_core::Reader>,
    bound: usize,
    chunk: Bytes,
    at: usize,
    /// The fields of the current row, joined, and the end of each.
    fields: Vec<u8>,
    ends: Vec<usize>,
    /// How many entries of both are used.
    used: (usize, usize),
    names: Option<Vec<String>>,
}

impl RowReader {
    /// A reader at the beginning, of fields with this byte between them.
    pub fn new(bound: usize, delimiter: u8) -> Self {
        let (chunk, fields, ends) = (Bytes::new(), vec![0; 1024], vec![0; 64]);
        RowReader {
            core: Box::new(csv_core::ReaderBuilder::new().delimiter(delimiter).build()),
            bound,
            chunk,
            at: 0,
            fields,
            ends,
            used: (0, 0),
            names: None,
        }
    }

    /// Takes the next piece. The caller must have read the previous piece to its end with `next`.
    pub fn push(&mut self, chunk: Bytes) {
        (self.chunk, self.at) = (chunk, 0);
    }

    /// The next complete row, as JSON; `None` when it needs more bytes.
    ///
    /// # Errors
    /// `Malformed` for a row whose length differs from the first, for columns with the same name and for invalid UTF-8;
    /// `Oversized` for a row larger than `bound`.
    #[allow(clippy::should_implement_trait, reason = "an iterator would end for good where more can be pushed")]
    pub fn next(&mut self) -> Result<Option<Bytes>, Error> {
        // The CSV reader takes empty input as the end.
        while self.at < self.chunk.len() {
            if let Some(row) = self.step()? {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Ends the body: nothing more comes. The last row may lack its line end.
    ///
    /// # Errors
    /// Same as [`RowReader::next`].
    pub fn finish(&mut self) -> Result<Option<Bytes>, Error> {
        self.push(Bytes::new());
        let row = self.step()?;
        if row.is_none() && self.used != (0, 0) { self.step() } else { Ok(row) }
    }

    fn step(&mut self) -> Result<Option<Bytes>, Error> {
        let (fields, ends) = (&mut self.fields[self.used.0..], &mut self.ends[self.used.1..]);
        let (result, read, wrote, ended) = self.core.read_record(&self.chunk[self.at..], fields, ends);
        self.at += read;
        self.used = (self.used.0 + wrote, self.used.1 + ended);
        match result {
            ReadRecordResult::OutputFull if self.fields.len() > self.bound => Err(self.oversized()),
            ReadRecordResult::OutputFull => {
                self.fields.resize(self.fields.len() * 2, 0);
                if self.chunk.is_empty() { self.step() } else { Ok(None) }
            }
            ReadRecordResult::OutputEndsFull if self.ends.len() > COLUMNS => {
                Err(refuse("a row of more than 1024 fields", self.core.line()))
            }
            ReadRecordResult::OutputEndsFull => {
                self.ends.resize(self.ends.len() * 2, 0);
                if self.chunk.is_empty() { self.step() } else { Ok(None) }
            }
            ReadRecordResult::Record => self.record(),
            ReadRecordResult::InputEmpty | ReadRecordResult::End => Ok(None),
        }
    }

    /// Handles a complete row.
    fn record(&mut self) -> Result<Option<Bytes>, Error> {
        let (_, count) = std::mem::take(&mut self.used);
        // The reader is already after the end of the row.
        let line = self.core.line().saturating_sub(1).max(1);
        let mut fields = Vec::with_capacity(count);
        let mut start = 0;
        for end in &self.ends[..count] {
            let field = std::str::from_utf8(&self.fields[start..*end]);
            fields.push(field.map_err(|_| refuse("a row has bytes that are not UTF-8", line))?);
            start = *end;
        }
        let Some(names) = &self.names else {
            self.names = Some(header(&fields, line)?);
            return Ok(None);
        };
        if fields.len() != names.len() {
            let reason = format!("a row of {} fields where the first has {}", fields.len(), names.len());
            return Err(refuse(&reason, line));
        }
        let row = object(names, &fields);
        if row.len() > self.bound { Err(self.oversized()) } else { Ok(Some(row)) }
    }

    fn oversized(&self) -> Error {
        Error::new(Kind::Oversized, format!("an item is larger than {} bytes", self.bound))
    }
}

/// The names of the columns.
fn header(fields: &[&str], line: u64) -> Result<Vec<String>, Error> {
    let mut sorted = fields.to_vec();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(refuse("two columns have the same name", line));
    }
    Ok(fields.iter().map(|name| (*name).to_owned()).collect())
}

fn object(names: &[String], fields: &[&str]) -> Bytes {
    let mut out = Vec::new();
    for (index, (name, field)) in names.iter().zip(fields).enumerate() {
        out.push(if index == 0 { b'{' } else { b',' });
        write_string(name, &mut out);
        out.push(b':');
        write_string(field, &mut out);
    }
    out.push(b'}');
    out.into()
}

fn refuse(reason: &str, line: u64) -> Error {
    Error::new(Kind::Malformed, format!("not valid CSV: {reason} (line {line})"))
}

/// Whether a spreadsheet takes a text for a formula.
pub fn is_formula(text: &str) -> bool {
    text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'])
}

/// Appends the items of a list as rows. Without `columns`, the columns are the fields of all objects, in order of first
/// occurrence.
///
/// # Errors
/// Same as [`json::write`], and `Kind::Expression` for more than 1,024 columns.
pub fn write(value: &Value, rules: &CsvRules, out: &mut Vec<u8>) -> Result<(), Error> {
    let rows = value::as_list(value).unwrap_or(std::slice::from_ref(value));
    RowWriter::new(rules).write_first(rows, out)
}

/// Writes rows, one item after the other.
#[derive(Clone)]
pub struct RowWriter {
    names: indexmap::IndexSet<String>,
    keys: Vec<Value>,
    /// Whether the operator chose the columns; other fields are then left out.
    chosen: bool,
    begun: bool,
    formulas: Formulas,
}

impl RowWriter {
    /// A writer of these columns; without any, of the fields of the first items.
    pub fn new(CsvRules { columns, formulas }: &CsvRules) -> Self {
        let names = columns.iter().cloned().collect();
        RowWriter { names, keys: Vec::new(), chosen: !columns.is_empty(), begun: false, formulas: *formulas }
    }

    /// Whether the columns are still unknown until the first items come.
    pub fn is_unnamed(&self) -> bool {
        !self.chosen && !self.begun
    }

    /// Appends the first items. They define the columns, unless the operator chose them.
    ///
    /// # Errors
    /// Same as [`RowWriter::write`], and `Kind::Expression` for more than 1,024 columns.
    pub fn write_first(&mut self, items: &[Value], out: &mut Vec<u8>) -> Result<(), Error> {
        let objects = items.iter().filter_map(value::as_object);
        for fields in objects.filter(|_| !self.chosen) {
            self.names.extend(fields.keys().filter_map(value::as_str).map(str::to_owned));
            if self.names.len() > COLUMNS {
                return Err(Error::new(Kind::Expression, "the rows have more than 1024 columns"));
            }
        }
        self.begin(out)?;
        items.iter().try_for_each(|item| self.write(item, out))
    }

    /// Appends an item; before the first item, the names of the columns.
    ///
    /// # Errors
    /// Same as [`json::write`], and `Kind::Expression` for a field without a column, unless the operator chose the
    /// columns.
    pub fn write(&mut self, item: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
        self.begin(out)?;
        if out.len() > SIZE {
            return Err(Error::new(Kind::Expression, "the value is too large to write"));
        }
        let Some(fields) = value::as_object(item) else {
            return self.row(value::as_list(item).unwrap_or(std::slice::from_ref(item)).iter(), out);
        };
        if !self.chosen
            && let Some(stranger) = fields.keys().filter_map(value::as_str).find(|name| !self.names.contains(*name))
        {
            let reason =
                format!("an item has a field `{stranger:.100}`, and the first ones had none: name it in `columns`");
            return Err(Error::new(Kind::Expression, reason));
        }
        self.row(self.keys.iter().map(|key| fields.get(key).unwrap_or(&NOTHING)), out)
    }

    /// Appends the names of the columns if there was no item.
    ///
    /// # Errors
    /// Same as [`json::write`].
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        self.begin(out)
    }

    fn begin(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        if std::mem::replace(&mut self.begun, true) || self.names.is_empty() {
            return Ok(());
        }
        self.keys = self.names.iter().map(|name| value::string(name)).collect();
        self.row(self.keys.iter(), out)
    }

    fn row<'a>(&self, fields: impl Iterator<Item = &'a Value>, out: &mut Vec<u8>) -> Result<(), Error> {
        for (index, field) in fields.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            let start = out.len();
            match value::shape(field) {
                Shape::Null => {}
                Shape::Text(text) => {
                    let formula = self.formulas == Formulas::Quote && is_formula(&String::from_utf8_lossy(text));
                    out.extend_from_slice(if formula { b"'" } else { b"" });
                    out.extend_from_slice(text);
                }
                _ => json::write(field, out)?,
            }
            if out[start..].iter().any(|byte| matches!(byte, b'"' | b',' | b'\r' | b'\n')) {
                let text = String::from_utf8_lossy(&out[start..]).replace('"', "\"\"");
                out.truncate(start);
                out.extend_from_slice(format!("\"{text}\"").as_bytes());
            }
        }
        out.extend_from_slice(b"\r\n");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(columns: &[&str], formulas: Formulas) -> CsvRules {
        CsvRules { columns: columns.iter().map(|&name| name.to_owned()).collect(), formulas }
    }

    #[test]
    fn on_request_a_text_is_no_formula() {
        let text = r#"[{"=a":"=1+1","b":-5,"c":"-5"},{"=a":"@x\ny","b":"\t=1","c":"\uff1d1"},["+1","a=1"]]"#;
        let value = json::read(&text.into()).expect("JSON");
        let mut out = Vec::new();
        write(&value, &rules(&[], Formulas::Quote), &mut out).expect("written");
        let wanted = "'=a,b,c\r\n'=1+1,-5,'-5\r\n\"'@x\ny\",'\t=1,'\u{ff1d}1\r\n'+1,a=1\r\n";
        assert_eq!(String::from_utf8_lossy(&out), wanted);
    }

    #[test]
    fn rows_are_objects() {
        let rows = read("id,\"the name\"\r\n1,\"a \"\"b\"\", c\"\r\n2,\"x\ny\"\r\n", b',').expect("sound");
        let expected = r#"[{"id":"1","the name":"a \"b\", c"},{"id":"2","the name":"x\ny"}]"#;
        assert_eq!(&rows.bytes()[..], expected.as_bytes());
        assert_eq!(&read("a,b\n", b',').expect("sound").bytes()[..], b"[]");
        assert_eq!(&read("", b',').expect("sound").bytes()[..], b"[]");
        assert_eq!(
            read("a,b\n1\n", b',').expect_err("short").detail(),
            "not valid CSV: a row of 1 fields where the first has 2 (line 2)"
        );
        assert!(read("a,a\n", b',').is_err());
    }

    #[test]
    fn objects_are_rows() {
        let value = json::read(&r#"[{"a":1.0,"b":"x,\"y"},{"c":[1],"a":null},[1,2],"z"]"#.into()).expect("JSON");
        let mut out = Vec::new();
        write(&value, &rules(&[], Formulas::Keep), &mut out).expect("written");
        assert_eq!(String::from_utf8_lossy(&out), "a,b,c\r\n1.0,\"x,\"\"y\",\r\n,,[1]\r\n1,2\r\nz\r\n");
    }

    #[test]
    fn long_names_are_not_repeated_without_end() {
        let text = format!("{}\n{}", "n".repeat(1 << 20), "1\n".repeat(100_000));
        assert_eq!(read(&text, b',').expect_err("too large").kind(), Kind::Oversized);
    }

    #[test]
    fn rows_come_out_of_pieces() {
        let text = "id,\"the name\"\r\n1,\"a \"\"b\"\",\r\n c\"\r\n\r\n2,é";
        for size in 1..text.len() {
            let (mut rows, mut out) = (RowReader::new(100, b','), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                rows.push(Bytes::copy_from_slice(piece));
                while let Some(row) = rows.next().expect("sound") {
                    out.push(row);
                }
            }
            out.extend(rows.finish().expect("sound"));
            assert_eq!(out, [r#"{"id":"1","the name":"a \"b\",\r\n c"}"#, r#"{"id":"2","the name":"é"}"#], "{size}");
        }
        let long = format!("a\n{}", "x".repeat(10_000));
        let mut rows = RowReader::new(100, b',');
        rows.push(long.into());
        assert_eq!(rows.next().expect_err("too large").kind(), Kind::Oversized);
    }

    #[test]
    fn columns_are_those_of_the_first_items_or_the_chosen_ones() {
        let item = |text: &'static str| json::read(&text.into()).expect("JSON");
        let (mut writer, mut out) = (RowWriter::new(&rules(&[], Formulas::Keep)), Vec::new());
        writer.write_first(&[item(r#"{"a":1}"#), item(r#"{"b":2}"#)], &mut out).expect("written");
        writer.write(&item(r#"{"b":3}"#), &mut out).expect("written");
        assert_eq!(String::from_utf8_lossy(&out), "a,b\r\n1,\r\n,2\r\n,3\r\n");
        assert!(writer.write(&item(r#"{"c":3}"#), &mut out).expect_err("unknown").detail().contains("`columns`"));
        let (mut writer, mut out) = (RowWriter::new(&rules(&["b", "x"], Formulas::Keep)), Vec::new());
        writer.write(&item(r#"{"a":1,"b":2}"#), &mut out).expect("written");
        assert_eq!(String::from_utf8_lossy(&out), "b,x\r\n2,\r\n");
    }
}
