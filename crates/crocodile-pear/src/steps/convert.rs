//! `convert`: the answer in another format.

use std::sync::Arc;

use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, VARY};

use crate::choice;
use crate::error::{Error, Kind};
use crate::flow::{Answer, Body, Flow, Outcome};
use crate::format::{self, csv, json, msgpack, xml};
use crate::jq::{Data, value};
use crate::problem::Problems;
use crate::scope::Scope;
use crate::spec::{Decode, Definitions, Json, Located, Node};
use crate::step::{Compile, Shape, Spec, Step};

/// What is read of the answer at most.
const MAX_BODY: usize = 16 << 20;

/// The formats that the end-point has, the preferred one first.
#[derive(Clone, Debug)]
pub struct Convert(Located<Vec<Form>>);

choice! {
    /// The format of an answer.
    pub enum Form {
        /// `application/json`.
        Json = "json",
        /// The items of a list as lines of JSON, `application/x-ndjson`.
        Ndjson = "ndjson",
        /// The items of a list as server-sent events, `text/event-stream`.
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
    /// The media types by which clients ask for it; the first is the one it is sent as.
    fn media(self) -> &'static [&'static str] {
        match self {
            Form::Json => &["application/json"],
            Form::Ndjson => &["application/x-ndjson", "application/ndjson"],
            Form::Sse => &["text/event-stream"],
            Form::Csv => &["text/csv"],
            Form::Xml => &["application/xml", "text/xml"],
            Form::Msgpack => &["application/msgpack", "application/vnd.msgpack", "application/x-msgpack"],
        }
    }

    fn write(self, data: Data, out: &mut Vec<u8>) -> Result<(), Error> {
        let value = match (self, data) {
            (Form::Json, data) => return data.write(out),
            (_, data) => data.into_value(),
        };
        match self {
            Form::Json | Form::Xml => xml::write(&value, out),
            Form::Csv => csv::write(&value, out),
            Form::Msgpack => msgpack::write(&value, out),
            Form::Ndjson | Form::Sse => {
                let (before, after): (&[u8], &[u8]) =
                    if self == Form::Sse { (b"data: ", b"\n\n") } else { (b"", b"\n") };
                for item in value::as_list(&value).unwrap_or(std::slice::from_ref(&value)) {
                    out.extend_from_slice(before);
                    json::write(item, out)?;
                    out.extend_from_slice(after);
                }
                Ok(())
            }
        }
    }
}

impl Decode for Convert {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let forms = match node.as_list() {
            Some(_) => Vec::decode(node, problems)?,
            None => vec![Form::decode(node, problems)?],
        };
        if forms.is_empty() {
            return problems.error(
                node.span,
                "`convert` without a format",
                "write `convert: [json, xml]`, the preferred one first",
            );
        }
        Some(Convert(Located::new(forms, node.span)))
    }

    fn schema(definitions: &mut Definitions) -> Json {
        let form = Form::schema(definitions);
        serde_json::json!({
            "anyOf": [form, {"type": "array", "items": form, "minItems": 1}],
            "description": "Gives the answer in another format. Of a list of formats the client's `Accept` chooses (RFC 9110, \
                12.5.1), the first where it does not care; a client that takes none of them is told 406 before any call is made. \
                The answer is read whole, at most 16 MiB, unless it is JSON and stays JSON. One with another status than 2xx passes as it is.",
        })
    }
}

impl Spec for Convert {
    fn compile(self, cx: &mut Compile<'_>) -> Option<Box<dyn Step>> {
        let words: Vec<&str> = self.0.value.iter().map(|form| form.word()).collect();
        cx.explain(
            format!("convert to {}", words.join(" or ")),
            Some("the answer is read whole before it is converted"),
            0,
        );
        if cx.shape != Shape::One {
            let remedy = "put `merge` or `concatenate` before it";
            return cx.problems.error(self.0.span, "`convert` takes one answer, and here are several", remedy);
        }
        Some(Box::new(Converting(self.0.value)))
    }
}

struct Converting(Vec<Form>);

impl Step for Converting {
    fn run(&self, flow: Flow, scope: &Arc<Scope>) -> Flow {
        let negotiated = self.0.len() > 1;
        let Some(form) = choose(&self.0, scope.headers()) else {
            let words: Vec<&str> = self.0.iter().map(|form| form.media()[0]).collect();
            let error = Error::new(Kind::NotAcceptable, format!("there is {}", words.join(", ")));
            return Flow::one(scope.next_producer(), std::future::ready(Some(Err(error.at_step("convert")))));
        };
        flow.map(move |producer| producer.then(move |outcome| convert(outcome, form, negotiated)))
    }
}

async fn convert(outcome: Outcome, form: Form, negotiated: bool) -> Outcome {
    let answer = match outcome? {
        Ok(answer) if answer.status.is_success() => answer,
        other => return Some(other),
    };
    let converted = converted(answer, form).await.map_err(|error| error.at_step("convert"));
    Some(converted.map(|mut answer| {
        if negotiated {
            answer.headers.append(VARY, HeaderValue::from_static("accept"));
        }
        answer
    }))
}

async fn converted(answer: Answer, form: Form) -> Result<Answer, Error> {
    if form == Form::Json && format::is_json(&answer) {
        return Ok(answer);
    }
    let (status, names, mut headers) = (answer.status, answer.names.clone(), answer.headers.clone());
    let upstream = answer.upstream.clone();
    let data = format::data(answer, MAX_BODY).await?;
    let mut out = Vec::new();
    form.write(data, &mut out)?;
    // They describe the body that was read.
    for name in [CONTENT_LENGTH, ETAG] {
        headers.remove(name);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(form.media()[0]));
    Ok(Answer { status, headers, body: Body::Bytes(out.into()), names, upstream })
}

/// The format that the client likes best; of several the first.
fn choose(forms: &[Form], headers: &HeaderMap) -> Option<Form> {
    let accept: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let accept = accept.join(",");
    if forms.len() == 1 || accept.trim().is_empty() {
        return forms.first().copied();
    }
    let liking = |form: Form| form.media().iter().map(|media| quality(&accept, media)).max().unwrap_or(0);
    let best = forms.iter().map(|form| liking(*form)).max().filter(|best| *best > 0)?;
    forms.iter().copied().find(|form| liking(*form) == best)
}

/// How much a client likes a media type, in thousandths: what it says most specifically counts (RFC 9110, 12.5.1).
fn quality(accept: &str, media: &str) -> u16 {
    let (kind, _) = media.split_once('/').unwrap_or((media, ""));
    let ranges = accept.split(',').filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next()?.to_ascii_lowercase();
        let rank = match name.as_str() {
            "*/*" => 1,
            name if name.strip_suffix("/*") == Some(kind) => 2,
            name if name == media => 3,
            _ => return None,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let weight = weight.map_or(1.0, |weight| weight.parse::<f32>().unwrap_or(0.0));
        Some((rank, (weight.clamp(0.0, 1.0) * 1000.0) as u16))
    });
    ranges.max().map_or(0, |(_, quality)| quality)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(accept: &'static str) -> Option<Form> {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
        choose(&[Form::Json, Form::Xml, Form::Csv], &headers)
    }

    #[test]
    fn the_client_chooses_among_the_formats() {
        assert_eq!(chosen(""), Some(Form::Json));
        assert_eq!(chosen("*/*"), Some(Form::Json));
        assert_eq!(chosen("text/xml"), Some(Form::Xml));
        assert_eq!(chosen("text/*"), Some(Form::Xml));
        assert_eq!(chosen("text/*;q=0.5, application/json;q=0.4"), Some(Form::Xml));
        assert_eq!(chosen("application/xml;q=0.9, text/csv, */*;q=0.1"), Some(Form::Csv));
        assert_eq!(chosen("application/json;q=0, */*;q=0.2"), Some(Form::Xml));
        assert_eq!(chosen("text/html"), None);
        assert_eq!(chosen("application/json;q=0"), None);
        assert_eq!(chosen("TEXT/CSV; header=present; q=1.000"), Some(Form::Csv));
    }
}
