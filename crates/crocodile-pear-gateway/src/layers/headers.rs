//! `headers`: sets or removes fields of every answer, whichever layer gave it.

mod preset;

use std::sync::Arc;
use std::time::Duration;

use crocodile_pear::unstable::config::problem::{Problems, Span};
use crocodile_pear::unstable::config::spec::{Entries, Field, Located, Texts};
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::http::http1::fields::{hop_by_hop, imitates};
use crocodile_pear::unstable::jq::{self, Data, Filter};
use crocodile_pear::unstable::json::value::number;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::spec;
use crocodile_pear::unstable::telemetry::log_limiter::LogLimiter;
use crocodile_pear::unstable::template::{Template, TemplateSource};
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};

use crate::layer::{Compile, Layer, LayerPosition, Passage, Spec};
use preset::Preset;

spec! {
    /// Header fields of all answers: those of pipelines, failures, requests that no endpoint serves, and requests
    /// that could not be read. A field that is set replaces a field of the same name.
    pub struct Headers {
        /// Fields to set. Each is a text with `{}`, or a list of texts for a field that is repeated. Expressions can
        /// use `$status`, and of the request `$path`, `$query`, `$headers`, `$client`, `$route` and `$id`. If the
        /// value is null or empty, the field is left out; if the expression fails, too, with a line in the log.
        pub set: Option<Entries<Texts>>,
        /// Fields to remove.
        pub remove: Option<Vec<Located<String>>>,
        /// The usual security header fields: `secure` for web pages, `api` for APIs. If an answer has one of these
        /// fields, it keeps its own. `server` and `x-powered-by` are removed. `set` and `remove` take precedence.
        pub preset: Option<Preset>,
    }
}

impl Spec for Headers {
    type Ready = Dress;

    const AT_DOCUMENT: Option<Field> = Some(Field::new(
        "headers",
        "Header fields to add to all answers or to remove from them. Endpoints can add to them.",
    ));

    const AT_ENDPOINT: Option<Field> = Some(Field::new(
        "headers",
        "Header fields to add to its answers or to remove from them, besides those of the top level. A field that is \
             named here is not set or removed by the top level. `off` for none at all.",
    ));

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<Dress>> {
        let mut names: Vec<HeaderName> = Vec::new();
        let mut set = Vec::new();
        for (name, (span, texts)) in self.set.iter().flatten() {
            let name = admit(name, *span, &mut names, cx.problems);
            let values: Vec<_> = texts.0.iter().filter_map(|text| FieldText::compile(text, cx)).collect();
            set.extend(name.map(|name| (name, values.into())));
        }
        let written = self.remove.iter().flatten();
        let remove: Vec<_> =
            written.filter_map(|name| admit(name.as_str(), name.span, &mut names, cx.problems)).collect();
        let nothing = set.is_empty() && remove.is_empty() && self.preset.is_none();
        (!nothing).then(|| Arc::new(Dress { preset: self.preset, remove, set, limiter: LogLimiter::every(OFTEN) }))
    }

    fn compile_within(&self, outer: &Arc<Dress>, cx: &mut Compile<'_>) -> Option<Arc<Dress>> {
        Some(match self.compile(cx) {
            Some(own) => Arc::new(own.over(outer)),
            None => outer.clone(),
        })
    }

    fn around(ready: &Arc<Dress>, _: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        Some(ready.clone())
    }
}

/// Checks a field name: it may be set or removed, and was not named before.
fn admit(written: &str, span: Span, names: &mut Vec<HeaderName>, problems: &mut Problems) -> Option<HeaderName> {
    let Ok(name) = HeaderName::from_bytes(written.as_bytes()) else {
        let remedy = "names are of letters, digits and `-`";
        return problems.error(span, format!("`{written}` is not the name of a header field"), remedy);
    };
    if hop_by_hop(&name) || name == CONTENT_LENGTH || imitates(name.as_str().as_bytes()) {
        let remedy = "leave it out: framing and hop-by-hop fields are the gateway's own";
        return problems.error(span, format!("`{written}` cannot be set or removed"), remedy);
    }
    if names.contains(&name) {
        let remedy = "name it once; several values are a list: `[a, b]`";
        return problems.error(span, format!("`{written}` is set or removed twice"), remedy);
    }
    names.push(name.clone());
    Some(name)
}

/// At most one warning in this time: an expression that fails may fail for every request.
const OFTEN: Duration = Duration::from_secs(1);

/// Sets and removes fields of answers.
pub struct Dress {
    preset: Option<Preset>,
    remove: Vec<HeaderName>,
    set: Vec<(HeaderName, Arc<[FieldText]>)>,
    limiter: LogLimiter,
}

/// A compiled value.
enum FieldText {
    Fixed(HeaderValue),
    Made(Template),
}

impl FieldText {
    fn compile(written: &Located<String>, cx: &mut Compile<'_>) -> Option<Self> {
        let template = cx.template(written, &["status"])?;
        if written.value.contains('{') {
            return Some(FieldText::Made(template));
        }
        match HeaderValue::from_bytes(written.value.as_bytes()) {
            Ok(value) => Some(FieldText::Fixed(value)),
            Err(_) => {
                let remedy = "leave out line breaks and other control characters";
                cx.problems.error(written.span, "this cannot be the value of a header field", remedy)
            }
        }
    }

    /// The value for one answer; `None` if the field is left out.
    fn make(&self, view: &View<'_>) -> Result<Option<HeaderValue>, Error> {
        let template = match self {
            FieldText::Fixed(value) => return Ok(Some(value.clone())),
            FieldText::Made(template) => template,
        };
        let Some(text) = template.field(view)? else { return Ok(None) };
        let unfit = |_| Error::new(Kind::Expression, "a value with a line break or another control character");
        HeaderValue::from_maybe_shared(bytes::Bytes::from(text)).map(Some).map_err(unfit)
    }
}

impl Layer for Dress {
    fn answer<'a>(&'a self, response: &'a mut Response<AnswerBody>, scope: &'a Arc<Scope>) -> Passage<'a> {
        let view = View { status: response.status(), scope };
        if let Some(preset) = self.preset {
            preset.apply(response.headers_mut());
        }
        for name in &self.remove {
            response.headers_mut().remove(name);
        }
        for (name, values) in &self.set {
            self.replace(name, values, &view, response.headers_mut());
        }
        Passage::Done
    }

    fn outline(&self) -> Option<String> {
        let list = |names: Vec<&HeaderName>, verb: &str| {
            let names: Vec<&str> = names.into_iter().map(HeaderName::as_str).collect();
            Some(format!("{verb} {}", names.join(", "))).filter(|_| !names.is_empty())
        };
        let set = list(self.set.iter().map(|(name, _)| name).collect(), "sets");
        let removed = list(self.remove.iter().collect(), "removes");
        let preset = self.preset.map(|preset| format!("sets the fields of `{}`", preset.word()));
        Some(preset.into_iter().chain(set).chain(removed).collect::<Vec<_>>().join("; "))
    }
}

impl Dress {
    /// These fields, and those of another one that are not named here.
    fn over(&self, outer: &Dress) -> Self {
        let named = |name: &HeaderName| self.remove.contains(name) || self.set.iter().any(|(own, _)| own == name);
        let others = outer.set.iter().filter(|(name, _)| !named(name));
        Dress {
            preset: self.preset.or(outer.preset),
            remove: outer.remove.iter().filter(|name| !named(name)).chain(&self.remove).cloned().collect(),
            set: others.chain(&self.set).cloned().collect(),
            limiter: LogLimiter::every(OFTEN),
        }
    }

    fn replace(&self, name: &HeaderName, values: &[FieldText], view: &View<'_>, headers: &mut HeaderMap) {
        headers.remove(name);
        for value in values {
            match value.make(view) {
                Ok(value) => drop(value.map(|value| headers.append(name.clone(), value))),
                Err(error) if self.limiter.allows() => {
                    tracing::warn!(%error, field = name.as_str(), "header field left out: its expression failed");
                }
                Err(_) => {}
            }
        }
    }
}

/// The variables of expressions for one answer.
struct View<'a> {
    status: StatusCode,
    scope: &'a Scope,
}

impl TemplateSource for View<'_> {
    fn param(&self, name: &str) -> Option<&str> {
        self.scope.param(name)
    }

    fn rest(&self) -> &str {
        self.scope.rest()
    }

    fn evaluate(&self, filter: &Filter) -> Result<Data, Error> {
        let mut variable = |name: &str| match name {
            "status" => number(self.status.as_str()),
            name => self.scope.variable(name, &None),
        };
        Ok(filter.run_one(jq::null(), &mut variable)?.unwrap_or_else(jq::null).into())
    }
}
