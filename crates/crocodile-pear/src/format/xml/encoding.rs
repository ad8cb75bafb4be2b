//! Decodes the bytes of a document to characters (XML 1.0, 4.3.3 and appendix F; RFC 7303, 3).

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

use super::name::is_character;

/// Decodes a document and normalises its line ends. A byte order mark has priority, then the content type, then the
/// declaration.
pub fn decode<'a>(bytes: &'a [u8], charset: Option<&str>) -> Result<Cow<'a, str>, &'static str> {
    let text = match Encoding::for_bom(bytes) {
        Some((encoding, length)) => {
            let text = strictly(encoding, bytes.get(length..).unwrap_or_default())?;
            let declared = declared(text.as_bytes()).map(str::to_ascii_lowercase);
            let fits = match &declared {
                None => true,
                Some(label) if encoding == UTF_8 => label == "utf-8" || label == "utf8",
                Some(label) => label.starts_with("utf-16") || label == "iso-10646-ucs-2",
            };
            // In RFC 7303 the content type has priority over the declaration.
            if !fits && charset.is_none() {
                return Err("its byte order mark is of another encoding than the one declared");
            }
            text
        }
        None => match charset.or_else(|| declared(bytes)) {
            None => strictly(UTF_8, bytes)?,
            Some(label) => labelled(label, bytes)?,
        },
    };
    if !text.chars().all(is_character) {
        return Err("it has characters that XML does not allow");
    }
    Ok(if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n").into() } else { text })
}

fn labelled<'a>(label: &str, bytes: &'a [u8]) -> Result<Cow<'a, str>, &'static str> {
    // On the web, ISO-8859-1 means windows-1252; in XML it does not.
    if label.eq_ignore_ascii_case("iso-8859-1") {
        return Ok(bytes.iter().map(|byte| char::from(*byte)).collect::<String>().into());
    }
    if label.eq_ignore_ascii_case("us-ascii") && !bytes.is_ascii() {
        return Err("it is not in the encoding that it declares");
    }
    let encoding = Encoding::for_label_no_replacement(label.as_bytes()).ok_or("its encoding is not known")?;
    if encoding == UTF_16LE || encoding == UTF_16BE {
        return Err("UTF-16 begins with a byte order mark");
    }
    strictly(encoding, bytes)
}

fn strictly<'a>(encoding: &'static Encoding, bytes: &'a [u8]) -> Result<Cow<'a, str>, &'static str> {
    let decoded = encoding.decode_without_bom_handling_and_without_replacement(bytes);
    decoded.ok_or("it is not in the encoding that it declares")
}

/// The encoding that the declaration names. The parser checks it later.
fn declared(bytes: &[u8]) -> Option<&str> {
    let head = bytes.strip_prefix(b"<?xml")?;
    let head = &head[..memchr::memmem::find(head, b"?>")?];
    let head = std::str::from_utf8(head).ok()?;
    let rest = head.get(head.find("encoding")? + "encoding".len()..)?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start();
    let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    rest.get(1..)?.split_once(quote).map(|(label, _)| label)
}
