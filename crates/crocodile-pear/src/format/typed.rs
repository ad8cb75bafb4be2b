//! A value as a body of its content type: what a call or an answer sends.

use std::hash::{BuildHasher, RandomState};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::HeaderValue;

use super::declared::{Declared, by_type};
use super::{form, xml};
use crate::error::{Error, Kind};
use crate::json;
use crate::json::value::{self, Shape, Value, as_str, shape};

/// A body, and its content type where that says more than the written one.
pub struct TypedBody {
    pub bytes: Bytes,
    /// The content type with the boundary of a multipart body.
    pub content_type: Option<HeaderValue>,
}

/// Writes a value as the content type says: an object as a form, as parts or as XML, any value as JSON. A text is sent as it
/// is where the type is not JSON, and null is an empty body there.
///
/// # Errors
/// `Kind::Expression` for a value that the content type cannot hold.
pub fn write(value: &Value, content_type: Option<&[u8]>) -> Result<TypedBody, Error> {
    let declared = by_type(content_type);
    let plain = |bytes| TypedBody { bytes, content_type: None };
    if content_type.is_none() || declared == Declared::Json {
        return Ok(plain(json::to_bytes(value)?));
    }
    let media = content_type.unwrap_or_default();
    match shape(value) {
        Shape::Object(_) if declared == Declared::Form => form::write(value).map(|text| plain(text.into())),
        Shape::Object(_) if is_multipart(media) => multipart(value),
        Shape::Object(_) if declared == Declared::Xml => {
            let mut out = Vec::new();
            xml::write(value, &mut out).map(|()| plain(out.into()))
        }
        _ => text(value).map(plain),
    }
}

/// Whether a body of this type is a form of several parts.
pub(super) fn is_multipart(media: &[u8]) -> bool {
    media.get(..19).is_some_and(|start| start.eq_ignore_ascii_case(b"multipart/form-data"))
}

/// The bytes of a text, a number or a boolean.
///
/// # Errors
/// `Kind::Expression` for a list or an object.
pub fn text(value: &Value) -> Result<Bytes, Error> {
    match shape(value) {
        Shape::Null => Ok(Bytes::new()),
        Shape::Text(text) | Shape::Bytes(text) => Ok(Bytes::copy_from_slice(text)),
        Shape::List(_) | Shape::Object(_) => {
            let detail = format!("with its content type the body is a text, not {}", value::kind(value));
            Err(Error::new(Kind::Expression, detail))
        }
        _ => Ok(json::to_bytes(value)?),
    }
}

/// An object as `multipart/form-data` (RFC 7578): one part for each field, or for each item of a field that is a list.
fn multipart(value: &Value) -> Result<TypedBody, Error> {
    let fields = value::as_object(value).into_iter().flatten();
    let mut parts = Vec::new();
    for (name, value) in fields {
        let name = as_str(name).unwrap_or_default();
        match shape(value) {
            Shape::Null => {}
            Shape::List(items) => items.iter().try_for_each(|item| part(name, item).map(|one| parts.push(one)))?,
            _ => parts.push(part(name, value)?),
        }
    }
    let boundary = boundary(&parts);
    let mut out = Vec::with_capacity(parts.iter().map(|part| part.len() + 64).sum::<usize>() + 64);
    for part in &parts {
        out.extend_from_slice(format!("--{boundary}\r\n").as_bytes());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    let content_type = HeaderValue::from_str(&format!("multipart/form-data; boundary={boundary}")).ok();
    Ok(TypedBody { bytes: out.into(), content_type })
}

/// A boundary that no part contains. A retry sends the same bytes again, and so has the same.
fn boundary(parts: &[Vec<u8>]) -> String {
    let made = |salt: u64| {
        let key = RandomState::new();
        format!("part-{:016x}{:016x}", key.hash_one(salt), key.hash_one(!salt))
    };
    let within = |part: &[u8], text: &str| part.windows(text.len()).any(|window| window == text.as_bytes());
    let free = |text: &String| !parts.iter().any(|part| within(part, text));
    (0..).map(made).find(free).unwrap_or_default()
}

/// A part: a value, or a file as `{filename, content_type, text | base64}`.
fn part(name: &str, value: &Value) -> Result<Vec<u8>, Error> {
    let mut out = format!("content-disposition: form-data; name=\"{}\"", quoted(name)).into_bytes();
    let Some(fields) = value::as_object(value) else {
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(&text(value)?);
        return Ok(out);
    };
    let wrong = |detail: &str| Error::new(Kind::Expression, format!("the part `{name}` {detail}"));
    let mut content = None;
    let (mut filename, mut content_type) = (None, None);
    for (key, value) in fields {
        match as_str(key).unwrap_or_default() {
            "filename" => filename = as_str(value),
            "content_type" => content_type = as_str(value),
            "text" => content = Some(text(value)?),
            "base64" => {
                let coded = as_str(value).ok_or_else(|| wrong("has a `base64` that is not a text"))?;
                let bytes = STANDARD.decode(coded.trim()).map_err(|_| wrong("has a `base64` that is not valid"))?;
                content = Some(bytes.into());
            }
            other => {
                return Err(wrong(&format!("has `{other}`; a file is `{{filename, content_type, text or base64}}`")));
            }
        }
    }
    let content = content.ok_or_else(|| wrong("has neither `text` nor `base64`"))?;
    if let Some(filename) = filename {
        out.extend_from_slice(format!("; filename=\"{}\"", quoted(filename)).as_bytes());
    }
    if let Some(content_type) = content_type {
        let visible = content_type.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if !visible {
            return Err(wrong("has a `content_type` that is not allowed in a header"));
        }
        out.extend_from_slice(format!("\r\ncontent-type: {content_type}").as_bytes());
    }
    out.extend_from_slice(b"\r\n\r\n");
    out.extend_from_slice(&content);
    Ok(out)
}

/// A name in quotes, as browsers write it (WHATWG HTML, multipart form data): nothing in it ends the quotes or the line.
fn quoted(name: &str) -> String {
    name.replace('\r', "%0D").replace('\n', "%0A").replace('"', "%22")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(json: &str, content_type: &str) -> Result<(String, Option<String>), String> {
        let value = json::read(&json.to_owned().into()).expect("JSON");
        let made = write(&value, Some(content_type.as_bytes())).map_err(|error| error.detail().to_owned())?;
        let content_type = made.content_type.map(|value| value.to_str().expect("ASCII").to_owned());
        Ok((String::from_utf8(made.bytes.to_vec()).expect("UTF-8"), content_type))
    }

    #[test]
    fn a_value_is_written_as_its_content_type_says() {
        for (json, content_type, body) in [
            (r#"{"a":1}"#, "application/json", r#"{"a":1}"#),
            (r#""x""#, "application/problem+json", r#""x""#),
            (r#""<a/>""#, "text/xml; charset=utf-8", "<a/>"),
            (r#"{"a":{"b":1}}"#, "application/soap+xml", "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<a><b>1</b></a>"),
            (r#""x""#, "text/plain", "x"),
            ("1.50", "text/plain", "1.50"),
            ("null", "text/plain", ""),
            (r#"{"a":"x y","b":[1,2],"c":null}"#, "application/x-www-form-urlencoded", "a=x%20y&b=1&b=2"),
            (r#""a=1""#, "application/x-www-form-urlencoded", "a=1"),
        ] {
            assert_eq!(written(json, content_type), Ok((body.to_owned(), None)), "{json} as {content_type}");
        }
    }

    #[test]
    fn a_value_that_its_type_cannot_hold_is_an_error() {
        for (json, content_type) in [
            ("[1]", "text/plain"),
            (r#"{"a":1}"#, "text/plain"),
            (r#"{"a":{"b":1}}"#, "application/x-www-form-urlencoded"),
            (r#"{"a":{"base64":"?"}}"#, "multipart/form-data"),
            (r#"{"a":{"filename":"x"}}"#, "multipart/form-data"),
            (r#"{"a":{"text":"x","name":"y"}}"#, "multipart/form-data"),
            (r#"{"a":{"text":"x","content_type":"a\r\nb: c"}}"#, "multipart/form-data"),
        ] {
            assert!(written(json, content_type).is_err(), "{json} as {content_type}");
        }
    }

    #[test]
    fn parts_are_fields_and_files() {
        let json =
            r#"{"title":"A","file":{"filename":"a\"\r\n.txt","content_type":"text/plain","base64":"aGk="},"n":[1,2]}"#;
        let (body, content_type) = written(json, "multipart/form-data").expect("parts");
        let content_type = content_type.expect("a boundary");
        let boundary = content_type.strip_prefix("multipart/form-data; boundary=").expect("a boundary");
        let head = "content-disposition: form-data; name=";
        let wanted = format!(
            "--B\r\n{head}\"title\"\r\n\r\nA\r\n\
             --B\r\n{head}\"file\"; filename=\"a%22%0D%0A.txt\"\r\ncontent-type: text/plain\r\n\r\nhi\r\n\
             --B\r\n{head}\"n\"\r\n\r\n1\r\n--B\r\n{head}\"n\"\r\n\r\n2\r\n--B--\r\n"
        );
        assert_eq!(body.replace(boundary, "B"), wanted);
    }
}
