//! `compress`: compresses answers in a coding that the client accepts.

use std::sync::Arc;

use crocodile_pear::unstable::cache::{Shelf, ShelfOwner};
use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec;
use crocodile_pear::unstable::config::spec::{Decode, Field, Located, Size};
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::spec;
use http::header::ACCEPT_ENCODING;
use http::{Method, Response};

use crate::http::compress::{self, Coding, Compressor, LARGE, Levels, MediaRange, SMALL};
use crate::layer::{Compile, Layer, LayerPosition, Passage, Spec, Verdict};

spec! {
    /// Compresses answers for clients that ask for it with `Accept-Encoding`. Short form: `on`, with all defaults, or
    /// `off`. Each part of a stream is sent as soon as it arrives, and the client can decode everything so far. An
    /// answer that is already compressed, is a part (206), or has `no-transform` passes unchanged. Each answer in
    /// progress takes about 0.3 MiB of memory, or 0.7 MiB with zstd. An answer of more than 1 MiB takes another 1 MiB
    /// while idle cores help with it. Do not compress answers that contain both a secret and text that a client can
    /// choose: the compressed length can reveal the secret.
    pub struct Compress {
        /// The codings to offer. If a client accepts several equally, the first one of this list is used.
        pub codings: Vec<Coding> = Coding::ALL.to_vec(),
        /// A smaller body is not compressed. If the length is unknown or at most 64 KiB, the gateway waits up to 5 ms
        /// for the rest of the body.
        pub min_size: Size = Size(1 << 10),
        /// The content types to compress: `text/html`, `text/*`, or `*+json` for all types that end in `+json`.
        pub types: Vec<Located<String>> = compress::usual(),
        /// The level of gzip and deflate, from 1 (fast) to 9 (small). Default: 6 for a body known to have at most 128
        /// KiB, otherwise 1.
        pub gzip: Option<Located<u32>>,
        /// The level of br, from 0 (fast) to 11 (small). Default: 3 for a body known to have at most 128 KiB,
        /// otherwise 1. Levels 0 and 1 do not use repetitions of what was already sent.
        pub br: Option<Located<u32>>,
        /// The level of zstd, from 1 (fast) to 19 (small). Default: 3 for a body known to have at most 128 KiB,
        /// otherwise 1.
        pub zstd: Option<Located<u32>>,
    }
    short(switch)
}

fn switch(text: Located<String>, problems: &mut Problems) -> Option<Compress> {
    match text.as_str() {
        "on" | "true" => Some(spec::defaults()),
        other => problems.error(text.span, format!("found `{other}`, wanted `on`, `off` or a map"), "write `on`"),
    }
}

impl Compress {
    /// Checks levels and types; `None` if nothing is offered.
    pub fn ready(&self, problems: &mut Problems) -> Option<Compressor> {
        let mut levels = |small: Levels| Levels {
            gzip: level(self.gzip.as_ref(), small.gzip, 1, 9, problems),
            br: level(self.br.as_ref(), small.br, 0, 11, problems),
            zstd: level(self.zstd.as_ref(), small.zstd, 1, 19, problems),
        };
        let (small, large) = (levels(SMALL), levels(LARGE));
        let types = self.types.iter().filter_map(|written| MediaRange::parse(written, problems)).collect();
        let codings = self.codings.clone();
        (!codings.is_empty()).then_some(Compressor { codings, min_size: self.min_size.0, types, small, large })
    }
}

fn level(written: Option<&Located<u32>>, usual: u32, least: u32, most: u32, problems: &mut Problems) -> u32 {
    let Some(written) = written else { return usual };
    // Read twice, for small bodies and for others, but reported once.
    if !(least..=most).contains(&written.value) && !problems.found_within(written.span) {
        let message = format!("there is no level {written}");
        let _ = problems.error::<()>(written.span, message, format!("levels are {least} to {most}"));
    }
    written.value.clamp(least, most)
}

impl Spec for Compress {
    type Ready = Compressor;

    const AT_DOCUMENT: Option<Field> =
        Some(Field::new("compress", "Compresses answers. Off by default. Endpoints can override it."));

    const AT_ENDPOINT: Option<Field> =
        Some(Field::new("compress", "Compresses its answers: `on`, `off`, or a map. Overrides the top-level setting."));

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<Compressor>> {
        self.ready(cx.problems).map(Arc::new)
    }

    fn around(ready: &Arc<Compressor>, at: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        let proxy = at.plan.is_some_and(|plan| plan.is_proxy());
        let source = if proxy { ShelfOwner::Call } else { ShelfOwner::Endpoint };
        Some(Arc::new(Compressing { compressor: ready.clone(), source }))
    }
}

/// Compresses the answers of one endpoint, or those to requests that no endpoint serves.
struct Compressing {
    compressor: Arc<Compressor>,
    /// The owner of compressed copies in the caches.
    source: ShelfOwner,
}

impl Layer for Compressing {
    fn request<'a>(&'a self, scope: &'a mut Scope) -> Verdict<'a> {
        if scope.headers().contains_key(ACCEPT_ENCODING) {
            scope.extensions_mut().insert(Arc::new(Shelf::new(self.source)));
        }
        Verdict::Pass
    }

    fn answer<'a>(&'a self, response: &'a mut Response<AnswerBody>, scope: &'a Arc<Scope>) -> Passage<'a> {
        // The upstream was asked for the head only.
        if *scope.call_method() == Method::HEAD {
            self.compressor.tell(response, scope.headers());
            return Passage::Done;
        }
        let kept = scope.extensions().get::<Arc<Shelf>>().and_then(|shelf| shelf.kept());
        match self.compressor.code(response, scope.headers(), kept) {
            None => Passage::Done,
            Some(coded) => Passage::Wait(Box::pin(coded)),
        }
    }

    fn outline(&self) -> Option<String> {
        let words: Vec<&str> = self.compressor.codings.iter().map(|coding| coding.word()).collect();
        let size = Size(self.compressor.min_size).written()?;
        Some(format!("{} for clients that ask, from {} on", words.join(", "), size.as_str()?))
    }
}

#[cfg(test)]
mod tests {
    use crocodile_pear::unstable::config::problem::Span;

    use super::*;

    #[test]
    fn every_wrong_level_and_type_is_told() {
        let mut problems = Problems::default();
        let at = |level, column| Some(Located::new(level, Span { column, length: 2, ..Span::default() }));
        let types = vec![Located::new("json".to_owned(), Default::default())];
        let (codings, min_size) = (Coding::ALL.to_vec(), Size(0));
        let compress = Compress { codings, min_size, types, gzip: at(10, 5), br: at(12, 15), zstd: at(0, 25) };
        let _ = compress.ready(&mut problems);
        let told: Vec<_> = problems.into_sorted().into_iter().map(|problem| problem.message).collect();
        assert_eq!(told.len(), 4, "{told:?}");
    }
}
