//! Records the version of an API that serves a request, and adds the version's fields to answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crocodile_pear::unstable::http::media_type::is_json;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::spec;
use http::Response;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, LINK, VARY};

use crate::http::version::{Date, Versioned, without};
use crate::layer::{Compile, Layer, LayerPosition, Passage, Spec, Verdict};
use crate::telemetry::metrics::Metrics;

const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
const SUNSET: HeaderName = HeaderName::from_static("sunset");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

spec! {
    /// The version of an endpoint. It is written in the versions of its group.
    pub struct Version {}
}

pub struct VersionCounter(Arc<Metrics>);

impl Spec for Version {
    type Ready = VersionCounter;

    fn unwritten() -> Option<Self> {
        Some(Version {})
    }

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<VersionCounter>> {
        Some(Arc::new(VersionCounter(cx.metrics())))
    }

    fn around(ready: &Arc<VersionCounter>, at: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        let versioned = at.versioned?.clone();
        let version = &versioned.version;
        let count = ready.0.version(&versioned.group, &version.name);
        let mut fields = Vec::new();
        let mut add = |name, value: Option<String>| {
            fields.extend(value.and_then(|value| Some((name, HeaderValue::try_from(value).ok()?))));
        };
        add(DEPRECATION, version.deprecated.as_ref().map(|date| format!("@{}", date.seconds())));
        add(SUNSET, version.sunset.as_ref().map(Date::http));
        fields.extend(version.documentation.clone().map(|page| (LINK, page)));
        let vary = versioned.chooser.vary().filter(|_| !versioned.by_path);
        fields.extend(vary.map(|vary| (VARY, vary)));
        Some(Arc::new(VersionLayer { versioned, fields, count }))
    }
}

/// Counts the requests of a version, and adds its fields to answers.
struct VersionLayer {
    versioned: Arc<Versioned>,
    /// Fields that are added to every answer.
    fields: Vec<(HeaderName, HeaderValue)>,
    count: Arc<AtomicU64>,
}

/// The media type with which the client asked for this version.
#[derive(Clone)]
struct AskedFor(HeaderValue);

impl Layer for VersionLayer {
    fn request<'a>(&'a self, scope: &'a mut Scope) -> Verdict<'a> {
        self.count.fetch_add(1, Ordering::Relaxed);
        scope.facts_mut().put("version", self.versioned.version.value.clone());
        if !self.versioned.by_path {
            self.take_name(scope);
        }
        Verdict::Pass
    }

    fn answer<'a>(&'a self, response: &'a mut Response<AnswerBody>, scope: &'a Arc<Scope>) -> Passage<'a> {
        let headers = response.headers_mut();
        for (name, value) in &self.fields {
            headers.append(name.clone(), value.clone());
        }
        let link = self.versioned.successor.as_ref().and_then(|successor| successor.link(scope));
        if let Some(link) = link {
            headers.append(LINK, link);
        }
        if let Some(AskedFor(media)) = scope.extensions().get()
            && is_json(headers)
        {
            headers.insert(CONTENT_TYPE, media.clone());
        }
        Passage::Done
    }

    fn outline(&self) -> Option<String> {
        Some(self.versioned.version.outline())
    }
}

impl VersionLayer {
    /// Removes the version's name from the request: the API behind the gateway knows only one version.
    fn take_name(&self, scope: &mut Scope) {
        let chooser = &self.versioned.chooser;
        if let (Some(name), Some(query)) = (chooser.query(), scope.query())
            && query.contains('=')
        {
            let left = without(query, name);
            scope.replace_query(left.as_deref());
        }
        let Some(media) = chooser.media() else { return };
        if let Some(asked) = chooser.content_type(self.versioned.index, scope) {
            scope.extensions_mut().insert(AskedFor(asked));
            scope.headers_mut().insert(ACCEPT, JSON);
        }
        let sent = scope.field(&CONTENT_TYPE).and_then(|sent| std::str::from_utf8(sent).ok());
        if sent.is_some_and(|sent| media.read(sent).is_some()) {
            scope.headers_mut().insert(CONTENT_TYPE, JSON);
        }
    }
}
