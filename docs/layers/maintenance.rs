//! `maintenance`: a time in which nothing is served.

use std::sync::Arc;
use std::time::Duration;

use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Decode, Definitions, Field, Json, Node};
use crocodile_pear::unstable::request::context::Scope;
use http::StatusCode;
use http::header::RETRY_AFTER;

use crate::http::response;
use crate::layer::{Compile, Layer, LayerPosition, Spec, Verdict};

/// How long it takes.
#[derive(Clone, Debug)]
pub struct Maintenance(Duration);

impl Decode for Maintenance {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        Duration::decode(node, problems).map(Maintenance)
    }

    fn schema(definitions: &mut Definitions) -> Json {
        Duration::schema(definitions)
    }
}

impl Spec for Maintenance {
    type Ready = Self;

    const AT_DOCUMENT: Option<Field> =
        Some(Field::new("maintenance", "Nothing is served; clients are told to come back after this time."));

    const AT_ENDPOINT: Option<Field> =
        Some(Field::new("maintenance", "It is not served, for this time; `off` serves it while others are not."));

    fn compile(&self, _: &mut Compile<'_>) -> Option<Arc<Self>> {
        Some(Arc::new(self.clone()))
    }

    fn around(ready: &Arc<Self>, _: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        Some(ready.clone())
    }
}

impl Layer for Maintenance {
    fn request<'a>(&'a self, _: &'a mut Scope) -> Verdict<'a> {
        let mut response = response::refuse(StatusCode::SERVICE_UNAVAILABLE, "closed for maintenance");
        response.headers_mut().insert(RETRY_AFTER, self.0.as_secs().into());
        Verdict::Answer(response)
    }

    fn outline(&self) -> Option<String> {
        Some(format!("answers every request with 503, to be tried again after {} s", self.0.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use crocodile_pear::unstable::message::body::AnswerBody;
    use http::{HeaderMap, Method};

    use super::*;

    #[test]
    fn nobody_gets_in_and_everybody_learns_when_to_come_back() {
        let mut scope = Scope::new(Method::GET, None, HeaderMap::new(), AnswerBody::empty());
        let closed = Maintenance(Duration::from_secs(600));
        let Verdict::Answer(response) = closed.request(&mut scope) else { panic!("a request got in") };
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[RETRY_AFTER], "600");
    }
}
