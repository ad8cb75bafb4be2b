//! The formats that an answer can leave in, as a whole or item by item.

use bytes::Bytes;

use crate::choice;
use crate::error::Error;
use crate::format::{csv, msgpack, sse, xml};
use crate::json;
use crate::json::{Data, Value, value};

choice! {
    /// The format of an answer.
    pub enum Form {
        /// `application/json`.
        Json = "json",
        /// The items of a list as lines of JSON, `application/x-ndjson`.
        Ndjson = "ndjson",
        /// The items of a list as server-sent events, `text/event-stream`; an object of `data` and `event`, `id` or `retry` is that event.
        Sse = "sse",
        /// The items of a list as rows, `text/csv`: the first names the columns; what is no text stands in them as JSON.
        Csv = "csv",
        /// `application/xml`: `@name` is an attribute, `#text` the text, a list an element that comes several times.
        Xml = "xml",
        /// `application/msgpack`.
        Msgpack = "msgpack",
    }
}

impl Form {
    /// The media types by which clients request it; the first is the usual one.
    pub fn media(self) -> &'static [&'static str] {
        match self {
            Form::Json => &["application/json"],
            Form::Ndjson => &["application/x-ndjson", "application/ndjson"],
            Form::Sse => &["text/event-stream"],
            Form::Csv => &["text/csv"],
            Form::Xml => &["application/xml", "text/xml"],
            Form::Msgpack => &["application/msgpack", "application/vnd.msgpack", "application/x-msgpack"],
        }
    }

    /// Whether its content type names a character set: the others declare it in the body, or have only one.
    pub fn names_charset(self) -> bool {
        matches!(self, Form::Csv | Form::Xml)
    }

    /// Whether a list can be sent item by item: MessagePack begins with the number of items.
    pub fn streams(self) -> bool {
        self != Form::Msgpack
    }

    /// Appends a whole answer.
    ///
    /// # Errors
    /// The errors of the writers of the formats.
    pub fn write(self, data: Data, rows: &csv::CsvRules, out: &mut Vec<u8>) -> Result<(), Error> {
        let value = match (self, data) {
            (Form::Json, data) => return Ok(data.write(out)?),
            (_, data) => data.into_value(),
        };
        match self {
            Form::Json | Form::Xml => xml::write(&value, out),
            Form::Csv => csv::write(&value, rows, out),
            Form::Msgpack => msgpack::write(&value, out),
            Form::Ndjson | Form::Sse => {
                let items = value::as_list(&value).unwrap_or(std::slice::from_ref(&value));
                items.iter().try_for_each(|item| self.line(item, out))
            }
        }
    }

    fn line(self, item: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
        if self == Form::Sse {
            sse::write(&json::to_bytes(item)?, out);
            return Ok(());
        }
        json::write(item, out)?;
        out.push(b'\n');
        Ok(())
    }
}

/// Writes a list item by item.
#[derive(Clone)]
pub struct ListWriter {
    form: Form,
    begun: bool,
    rows: csv::RowWriter,
}

impl ListWriter {
    /// At the beginning.
    pub fn new(form: Form, rows: &csv::CsvRules) -> Self {
        ListWriter { form, begun: false, rows: csv::RowWriter::new(rows) }
    }

    /// Whether several items are wanted before the first one can be written.
    pub fn looks_ahead(&self) -> bool {
        self.form == Form::Csv && self.rows.is_unnamed()
    }

    /// Appends the first items, as checked JSON.
    ///
    /// # Errors
    /// The errors of [`ListWriter::write`].
    pub fn write_first(&mut self, items: &[Bytes], out: &mut Vec<u8>) -> Result<(), Error> {
        let items: Vec<Value> = items.iter().map(json::read).collect::<Result<_, _>>()?;
        self.rows.write_first(&items, out)
    }

    /// Appends an item that is checked JSON.
    ///
    /// # Errors
    /// The errors of the writers of the formats.
    pub fn write(&mut self, item: &Bytes, out: &mut Vec<u8>) -> Result<(), Error> {
        let first = !std::mem::replace(&mut self.begun, true);
        match self.form {
            Form::Json | Form::Msgpack => {
                out.push(if first { b'[' } else { b',' });
                out.extend_from_slice(item);
            }
            Form::Ndjson => {
                json::compact(item, out);
                out.push(b'\n');
            }
            Form::Sse => sse::write(item, out),
            Form::Csv => self.rows.write(&json::read(item)?, out)?,
            Form::Xml => {
                if first {
                    xml::begin(out);
                }
                xml::item(&json::read(item)?, out)?;
            }
        }
        Ok(())
    }

    /// Appends what ends the list.
    ///
    /// # Errors
    /// The errors of [`ListWriter::write`].
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self.form {
            Form::Json | Form::Msgpack => out.extend_from_slice(if self.begun { b"]" } else { b"[]" }),
            Form::Ndjson | Form::Sse => {}
            Form::Csv => self.rows.finish(out)?,
            Form::Xml => {
                if !self.begun {
                    xml::begin(out);
                }
                xml::end(out);
            }
        }
        Ok(())
    }
}
