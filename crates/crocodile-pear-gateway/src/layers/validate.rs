//! `validate`: refuses requests that do not match a JSON Schema, and lists all violations.

mod schema;

use std::sync::Arc;

use bytes::Bytes;
use crocodile_pear::unstable::config::spec::{Field, Json};
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::http::media_type::essence;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::offload;
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::runtime::deadline_timer::by;
use crocodile_pear::unstable::spec;
use crocodile_pear_schema::{SchemaRules, Violation};
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Response, StatusCode};

use crate::config::unique_json;
use crate::http::response;
use crate::layer::{Compile, Layer, LayerPosition, Spec, Verdict};
use crate::telemetry::metrics::{Metrics, RefusedBy};
use schema::Schema;

spec! {
    /// JSON Schemas (draft 2020-12) for requests. Each schema is written here, or is the name of a JSON file. A
    /// `$ref` may name other files; nothing is fetched from the network. A request that does not match gets 422, with
    /// a list of everything that is wrong.
    pub struct Validate {
        /// The body. It must be JSON: another content type gets 415, invalid JSON gets 400. It is read whole, within
        /// `max_body`, and is passed on unchanged.
        pub body: Option<Schema>,
        /// The query parameters, as an object. If the schema expects a number or a boolean, a text such as `7` or
        /// `true` counts as one.
        pub query: Option<Schema>,
        /// The path parameters, in the same way.
        pub path: Option<Schema>,
        /// The header fields, by name in lower case, in the same way.
        pub headers: Option<Schema>,
    }
}

/// The names that expressions have for the parts of a request other than its body.
const PARTS: [&str; 3] = ["query", "path", "headers"];

impl Spec for Validate {
    type Ready = Validation;

    const AT_ENDPOINT: Option<Field> = Some(Field::new(
        "validate",
        "JSON Schemas for its requests. A request that does not match is rejected, with a list of everything \
             that is wrong.",
    ));

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<Validation>> {
        let mut parts = Vec::new();
        for (name, schema) in PARTS.into_iter().zip([&self.query, &self.path, &self.headers]) {
            if let Some(schema) = schema {
                parts.extend(schema.compile(cx).map(|rules| NamedPart { name, types: types(schema), rules }));
            }
        }
        let body = self.body.as_ref().and_then(|schema| schema.compile(cx));
        let nothing = parts.is_empty() && body.is_none();
        let (schemas, metrics) = (Arc::new(Schemas { parts, body }), cx.metrics());
        (!nothing).then(|| Arc::new(Validation { schemas, max_body: 0, metrics }))
    }

    fn around(ready: &Arc<Validation>, at: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        Some(Arc::new(Validation { max_body: at.max_body, ..Validation::clone(ready) }))
    }
}

/// The property types in a schema, if the schema is written in the configuration.
fn types(schema: &Schema) -> Json {
    match schema {
        Schema::Inline(schema) => schema.value["properties"].clone(),
        Schema::File(_) => Json::Null,
    }
}

/// Refuses requests that do not match.
#[derive(Clone)]
pub struct Validation {
    schemas: Arc<Schemas>,
    max_body: usize,
    metrics: Arc<Metrics>,
}

struct Schemas {
    parts: Vec<NamedPart>,
    body: Option<SchemaRules>,
}

/// A part of the request that maps names to texts.
struct NamedPart {
    name: &'static str,
    types: Json,
    rules: SchemaRules,
}

/// The parts of a request to check, read as far as that needs no work.
struct Candidate {
    /// In the order of the schemas.
    parts: Vec<Json>,
    body: Option<Bytes>,
}

/// The most violations reported for one request.
const TOLD: usize = 100;

impl Schemas {
    /// All violations of a request, up to a bound.
    ///
    /// # Errors
    /// `BadRequest` if the body is not JSON; `Expression` if the request takes too much work.
    fn check(&self, candidate: &Candidate) -> Result<Vec<Json>, Error> {
        let mut told = Vec::new();
        for (part, value) in self.parts.iter().zip(&candidate.parts) {
            list(part.rules.check(value)?, part.name, &mut told);
        }
        if let (Some(rules), Some(body)) = (&self.body, &candidate.body) {
            let wrong = |error| Error::new(Kind::BadRequest, format!("the body is not good JSON: {error}"));
            let value = unique_json::read(body).map_err(wrong)?;
            list(rules.check(&value)?, "body", &mut told);
        }
        Ok(told)
    }
}

fn list(violations: Vec<Violation>, part: &'static str, told: &mut Vec<Json>) {
    for Violation { pointer, detail } in violations.into_iter().take(TOLD - told.len().min(TOLD)) {
        told.push(serde_json::json!({ "in": part, "pointer": pointer, "detail": detail }));
    }
}

impl NamedPart {
    /// Converts the texts to the types in the schema, where that is possible.
    fn typed(&self, scope: &Scope) -> Json {
        let mut value: Json = serde_json::from_str(&scope.variable(self.name, &None).to_string()).unwrap_or_default();
        for (name, value) in value.as_object_mut().into_iter().flatten() {
            let wanted = self.types[name]["type"].as_str().unwrap_or_default();
            let read = value.as_str().and_then(|text| serde_json::from_str::<Json>(text).ok());
            let fits = |read: &Json| match wanted {
                "integer" | "number" => read.is_number(),
                "boolean" => read.is_boolean(),
                _ => false,
            };
            if let Some(read) = read.filter(fits) {
                *value = read;
            }
        }
        value
    }
}

impl Validation {
    async fn check(&self, scope: &mut Scope) -> Option<Response<AnswerBody>> {
        let parts = self.schemas.parts.iter().map(|part| part.typed(scope)).collect();
        let body = match &self.schemas.body {
            None => None,
            Some(_) => match self.read(scope).await {
                Ok(body) => body,
                Err(refused) => return Some(*refused),
            },
        };
        let weight = body.as_ref().map_or(0, Bytes::len);
        let (schemas, candidate) = (self.schemas.clone(), Candidate { parts, body });
        match offload::run(weight, move || schemas.check(&candidate)).await {
            Ok(told) => (!told.is_empty()).then(|| response::invalid(&told)),
            Err(error) if error.kind() == Kind::Expression => {
                Some(response::refuse(StatusCode::UNPROCESSABLE_ENTITY, "the request takes too much work to validate"))
            }
            Err(error) if error.kind() == Kind::BadRequest => {
                Some(response::refuse(StatusCode::BAD_REQUEST, error.detail()))
            }
            Err(error) => Some(response::fail(&error)),
        }
    }

    /// Reads the body; `None` if the request has none and needs none.
    async fn read(&self, scope: &mut Scope) -> Result<Option<Bytes>, Box<Response<AnswerBody>>> {
        let bytes = collect(scope, self.max_body).await.map_err(|error| Box::new(response::fail(&error)))?;
        scope.put_body(AnswerBody::Bytes(bytes.clone()));
        if bytes.is_empty() {
            let needed = matches!(*scope.method(), Method::POST | Method::PUT | Method::PATCH);
            let missing = || Box::new(response::refuse(StatusCode::BAD_REQUEST, "the request needs a body"));
            return if needed { Err(missing()) } else { Ok(None) };
        }
        if let Some(detail) = unfit(scope.headers()) {
            let mut response = response::refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail);
            response.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
            return Err(Box::new(response));
        }
        Ok(Some(bytes))
    }
}

/// Why a body cannot be validated.
fn unfit(headers: &HeaderMap) -> Option<&'static str> {
    let coding = headers.get(CONTENT_ENCODING).filter(|coding| !coding.is_empty() && *coding != "identity");
    let media = headers.get(CONTENT_TYPE).map_or(&b"application/json"[..], HeaderValue::as_bytes);
    let media = essence(media).to_ascii_lowercase();
    let json = media == b"application/json" || (media.starts_with(b"application/") && media.ends_with(b"+json"));
    match (json, coding) {
        (false, _) => Some("the body must be JSON: `content-type: application/json`"),
        (true, Some(_)) => Some("the body must not be compressed"),
        (true, None) => None,
    }
}

/// Reads the whole body.
async fn collect(scope: &Scope, bound: usize) -> Result<Bytes, Error> {
    let Some(body) = scope.take_body() else { return Ok(Bytes::new()) };
    let late = || Err(Error::new(Kind::BadRequest, "the request's body took longer than the request may"));
    let read = match scope.deadline() {
        None => body.collect(bound).await,
        Some(end) => by(end, body.collect(bound)).await.unwrap_or_else(late),
    };
    read.map_err(|error| match error.kind() {
        Kind::Oversized => Error::new(Kind::BodyTooLarge, error.detail().to_owned()),
        _ => error,
    })
}

impl Layer for Validation {
    fn request<'a>(&'a self, scope: &'a mut Scope) -> Verdict<'a> {
        Verdict::Wait(Box::pin(async {
            let refused = self.check(scope).await;
            if refused.is_some() {
                self.metrics.count_refused(RefusedBy::Validate);
            }
            refused
        }))
    }

    fn outline(&self) -> Option<String> {
        let body = self.schemas.body.is_some().then_some("body");
        let parts: Vec<&str> = body.into_iter().chain(self.schemas.parts.iter().map(|part| part.name)).collect();
        Some(format!("checks {} against JSON Schema", parts.join(", ")))
    }
}
