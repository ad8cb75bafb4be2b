//! Answers that were read as text where an expression expects JSON; usually an HTML page.

use std::sync::Arc;

use http::header::CONTENT_TYPE;

use super::declared::{Declared, declared};
use crate::error::{Error, Kind};
use crate::message::answer::Answer;
use crate::message::body::AnswerBody;

/// jq's messages for a string where it expects an object or a list.
const SIGNS: [&str; 4] =
    ["Cannot index string", "Cannot iterate over string", "string has no keys", "Cannot check whether string"];

/// The longest content type that an error repeats.
const LONGEST: usize = 100;

/// The origin of a text.
#[derive(Clone, Debug)]
pub struct Text {
    media: Option<String>,
    upstream: Arc<str>,
}

impl Text {
    /// For an answer that will be read as text, because of its content type or because it has none.
    pub fn from_answer(answer: &Answer) -> Option<Self> {
        let bytes = !matches!(answer.body, AnswerBody::Value(_) | AnswerBody::Json(_));
        if !bytes || !matches!(declared(answer), Declared::Other | Declared::Nothing) {
            return None;
        }
        Some(Text { media: media(answer), upstream: answer.upstream.clone()? })
    }

    /// Explains the error of an expression that ran on this text: if it did not expect a string, the content type is
    /// the cause.
    pub fn explain(&self, error: Error) -> Error {
        if error.kind() != Kind::Expression || !SIGNS.iter().any(|sign| error.detail().contains(sign)) {
            return error;
        }
        let media = self.media.as_deref().unwrap_or("text without a content type");
        let detail = format!("the answer of `{}` is {media}, not JSON: {}", self.upstream, error.detail());
        let explained = Error::new(Kind::Expression, detail).of_upstream(&self.upstream);
        match error.step() {
            Some(step) => explained.at_step(step.to_owned()),
            None => explained,
        }
    }
}

/// The error of an expression, with an explanation if the answer was read as text.
pub fn explain(text: Option<&Text>, error: Error) -> Error {
    match text {
        Some(text) => text.explain(error),
        None => error,
    }
}

/// The media type without parameters, if it is well-formed: clients will see it.
fn media(answer: &Answer) -> Option<String> {
    let media = answer.headers.get(CONTENT_TYPE)?.to_str().ok()?.split(';').next()?.trim().to_ascii_lowercase();
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || b"/+-._".contains(&byte);
    (media.len() <= LONGEST && media.contains('/') && media.bytes().all(sound)).then_some(media)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderValue, StatusCode};

    fn answer(media: Option<&'static str>) -> Answer {
        let media = media.map(|media| (CONTENT_TYPE, HeaderValue::from_static(media)));
        let answer = Answer::new(StatusCode::OK, HeaderMap::from_iter(media), AnswerBody::Bytes("<html>".into()));
        Answer { upstream: Some("shop".into()), ..answer }
    }

    fn explained(media: Option<&'static str>, detail: &'static str) -> String {
        let error = Error::new(Kind::Expression, detail).at_step("transform");
        explain(Text::from_answer(&answer(media)).as_ref(), error).to_string()
    }

    #[test]
    fn a_page_is_told_as_what_it_is() {
        let failed = "Cannot index string with \"a\"";
        let wanted = "transform: shop: the answer of `shop` is text/html, not JSON: Cannot index string with \"a\"";
        assert_eq!(explained(Some("Text/HTML; charset=utf-8"), failed), wanted);
        assert!(explained(None, failed).contains("is text without a content type, not JSON"));
        assert!(explained(Some("a b"), failed).contains("is text without a content type, not JSON"));
    }

    #[test]
    fn other_faults_are_not_the_content_type_s() {
        let failed = "Cannot index string with \"a\"";
        assert_eq!(explained(Some("application/json"), failed), format!("transform: {failed}"));
        assert_eq!(explained(Some("text/html"), "Cannot index number"), "transform: Cannot index number");
    }
}
