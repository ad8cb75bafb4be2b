//! CSV (RFC 4180): the first row names the columns, each other one is an object of strings.

use super::json::{self, Raw, SIZE, write_string};
use crate::error::{Error, Kind};
use crate::jq::value::{self, Shape, Value};

/// Columns of what is written: each row has all of them.
const COLUMNS: usize = 1024;

static NOTHING: Value = value::null();

/// Reads the rows as a list of objects.
///
/// # Errors
/// `Kind::Malformed` for rows of other lengths than the first and for columns of the same name; `Kind::Oversized` where the names of the
/// columns make the list larger than 64 MiB.
pub fn read(text: &str) -> Result<Raw, Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let names = reader.headers().map_err(|error| refuse(&error))?.clone();
    let mut sorted: Vec<&str> = names.iter().collect();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(Error::new(Kind::Malformed, "not valid CSV: two columns have the same name"));
    }
    let mut out = b"[".to_vec();
    let mut row = csv::StringRecord::new();
    while reader.read_record(&mut row).map_err(|error| refuse(&error))? {
        if out.len() > SIZE {
            return Err(Error::new(Kind::Oversized, "the rows become larger than 64 MiB"));
        }
        for (index, (name, field)) in names.iter().zip(&row).enumerate() {
            out.push(if index == 0 { b'{' } else { b',' });
            write_string(name, &mut out);
            out.push(b':');
            write_string(field, &mut out);
        }
        out.extend_from_slice(b"},");
    }
    if out.len() > 1 {
        out.pop();
    }
    out.push(b']');
    Ok(Raw::sound(out.into(), 2))
}

/// Appends the items of a list as rows. The columns are the fields of all objects, in the order in which they first come.
///
/// # Errors
/// As [`json::write`], and `Kind::Expression` for more than 1,024 columns.
pub fn write(value: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    let rows = value::as_list(value).unwrap_or(std::slice::from_ref(value));
    let mut columns = indexmap::IndexSet::new();
    for fields in rows.iter().filter_map(value::as_object) {
        columns.extend(fields.keys());
        if columns.len() > COLUMNS {
            return Err(Error::new(Kind::Expression, "the rows have more than 1024 columns"));
        }
    }
    if !columns.is_empty() {
        row(columns.iter().copied(), out)?;
    }
    for item in rows {
        match (value::as_object(item), value::as_list(item)) {
            (Some(fields), _) => row(columns.iter().map(|name| fields.get(*name).unwrap_or(&NOTHING)), out)?,
            (_, Some(items)) => row(items.iter(), out)?,
            _ => row(std::iter::once(item), out)?,
        }
        if out.len() > SIZE {
            return Err(Error::new(Kind::Expression, "the value is too large to write"));
        }
    }
    Ok(())
}

fn row<'a>(fields: impl Iterator<Item = &'a Value>, out: &mut Vec<u8>) -> Result<(), Error> {
    for (index, field) in fields.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let start = out.len();
        match value::shape(field) {
            Shape::Null => {}
            Shape::Text(text) => out.extend_from_slice(text),
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

fn refuse(error: &csv::Error) -> Error {
    let line = error.position().map_or(1, csv::Position::line);
    let reason = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("a row of {len} fields where the first has {expected_len}")
        }
        _ => "a row that cannot be read".to_owned(),
    };
    Error::new(Kind::Malformed, format!("not valid CSV: {reason} (line {line})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_objects() {
        let rows = read("id,\"the name\"\r\n1,\"a \"\"b\"\", c\"\r\n2,\"x\ny\"\r\n").expect("sound");
        let expected = r#"[{"id":"1","the name":"a \"b\", c"},{"id":"2","the name":"x\ny"}]"#;
        assert_eq!(&rows.bytes()[..], expected.as_bytes());
        assert_eq!(&read("a,b\n").expect("sound").bytes()[..], b"[]");
        assert_eq!(&read("").expect("sound").bytes()[..], b"[]");
        assert_eq!(
            read("a,b\n1\n").expect_err("short").detail(),
            "not valid CSV: a row of 1 fields where the first has 2 (line 2)"
        );
        assert!(read("a,a\n").is_err());
    }

    #[test]
    fn objects_are_rows() {
        let value = json::read(&r#"[{"a":1.0,"b":"x,\"y"},{"c":[1],"a":null},[1,2],"z"]"#.into()).expect("JSON");
        let mut out = Vec::new();
        write(&value, &mut out).expect("written");
        assert_eq!(String::from_utf8_lossy(&out), "a,b,c\r\n1.0,\"x,\"\"y\",\r\n,,[1]\r\n1,2\r\nz\r\n");
    }

    #[test]
    fn long_names_are_not_repeated_without_end() {
        let text = format!("{}\n{}", "n".repeat(1 << 20), "1\n".repeat(100_000));
        assert_eq!(read(&text).expect_err("too large").kind(), Kind::Oversized);
    }
}
