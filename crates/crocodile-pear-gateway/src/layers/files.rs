//! `files`: serves the files of a folder.

mod media;
mod open;
mod range;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use crocodile_pear::unstable::config::problem::Problems;
use crocodile_pear::unstable::config::spec::{Field, Located, only};
use crocodile_pear::unstable::error::{Error, Kind};
use crocodile_pear::unstable::http::list;
use crocodile_pear::unstable::message::body::AnswerBody;
use crocodile_pear::unstable::request::context::Scope;
use crocodile_pear::unstable::spec;
use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderValue, IF_MATCH,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED, LOCATION, RANGE, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Method, Response, StatusCode};
use http_body::{Frame, SizeHint};

use self::open::{FileLookup, FileMeta};
use self::range::Ranged;
use crate::http::compress::{Coding, CodingChoice, choose};
use crate::http::response;
use crate::layer::{Compile, Layer, LayerPosition, Spec, Verdict};

spec! {
    /// The files of a folder. Short form: the folder. With a `pipeline` beside it, the pipeline answers where there is
    /// no file, and all methods but GET and HEAD. Without one, the client gets 404 or 405.
    pub struct Files {
        /// The folder, or a single file. Its path is relative to the configuration. At an endpoint `/app/{*path}` the rest
        /// of the path names the file. Files whose names begin with a dot, and links that lead out of the folder, are
        /// never served. A file that changes is served anew at once.
        pub folder: Located<String>,
        /// The file that stands for a folder.
        pub index: Located<String> = Located::new("index.html".to_owned(), Default::default()),
        /// The file to serve where there is none, for single-page applications: `index.html`. A missing file with a
        /// known ending, such as `.js`, is still 404.
        pub fallback: Option<Located<String>>,
        /// Whether `app.js.br`, `app.js.zst` or `app.js.gz` is served in place of `app.js` to clients that take it.
        pub precompressed: bool = true,
    }
    short(short)
}

fn short(folder: Located<String>, problems: &mut Problems) -> Option<Files> {
    only([("folder", folder)], problems)
}

impl Spec for Files {
    type Ready = ReadyFiles;

    const AT_ENDPOINT: Option<Field> = Some(Field::new("files", "Serves the files of a folder."));

    fn compile(&self, cx: &mut Compile<'_>) -> Option<Arc<ReadyFiles>> {
        let root = (cx.services.paths)(&self.folder);
        let meta = std::fs::metadata(&root);
        if let Err(error) = &meta {
            let message = format!("cannot read `{}`: {error}", self.folder);
            let remedy = "name a folder that is there; its path is relative to the configuration";
            return cx.problems.error(self.folder.span, message, remedy);
        }
        let single = meta.is_ok_and(|meta| !meta.is_dir());
        let mut sound = Some(());
        for name in [Some(&self.index), self.fallback.as_ref()].into_iter().flatten() {
            if open::clean(&name.value).is_none_or(|clean| clean.is_empty()) {
                let message = format!("`{name}` is not the path of a file in the folder");
                sound = cx.problems.error(name.span, message, "write it without a leading `/`: `index.html`");
            }
        }
        if let Some(fallback) = &self.fallback
            && !single
            && sound.is_some()
            && !matches!(open::open(&root, &fallback.value), FileLookup::File(..))
        {
            let message = format!("`{}` has no file `{fallback}`", self.folder);
            cx.problems.warning(fallback.span, message, "create it, or name the one that is there");
        }
        let rest = cx.params.is_some_and(|params| params.rest.is_some());
        if !single && !rest && cx.params.is_some() {
            let message = "a folder needs the rest of the path: no file but its index could be served";
            let remedy = "end the endpoint's path with `/{*path}`, or name a single file";
            cx.problems.warning(self.folder.span, message, remedy);
        }
        sound?;
        Some(Arc::new(ReadyFiles {
            written: self.folder.value.clone(),
            root,
            single,
            index: self.index.value.clone(),
            fallback: self.fallback.as_ref().map(|name| name.value.clone()),
            precompressed: self.precompressed,
            piped: false,
        }))
    }

    fn around(ready: &Arc<ReadyFiles>, at: &mut LayerPosition<'_>) -> Option<Arc<dyn Layer>> {
        Some(Arc::new(ReadyFiles { piped: at.piped, ..ReadyFiles::clone(ready) }))
    }
}

/// The compiled layer.
#[derive(Clone)]
pub struct ReadyFiles {
    written: String,
    root: PathBuf,
    single: bool,
    index: String,
    fallback: Option<String>,
    precompressed: bool,
    /// Whether a pipeline answers where there is no file.
    piped: bool,
}

impl Layer for ReadyFiles {
    fn request<'a>(&'a self, scope: &'a mut Scope) -> Verdict<'a> {
        let reads = [Method::GET, Method::HEAD].contains(scope.method());
        if !reads && self.piped {
            return Verdict::Pass;
        }
        if !reads {
            return Verdict::Answer(response::other_method(scope.method(), &[&Method::GET]));
        }
        match self.find(scope) {
            Some(response) => Verdict::Answer(response),
            None if self.piped => Verdict::Pass,
            None => Verdict::Answer(response::refuse(StatusCode::NOT_FOUND, "there is no such file")),
        }
    }

    fn outline(&self) -> Option<String> {
        let fallback = self.fallback.as_ref().map(|name| format!(", otherwise {name}")).unwrap_or_default();
        let piped = if self.piped { ", otherwise the pipeline" } else { "" };
        Some(format!("serves the files of {}{fallback}{piped}", self.written))
    }
}

impl ReadyFiles {
    /// The answer, if there is a file for this request.
    fn find(&self, scope: &Scope) -> Option<Response<AnswerBody>> {
        let rest = if self.single { "" } else { scope.rest() };
        let path = open::clean(rest)?;
        let found = match self.single {
            true => open::open_root(&self.root),
            false => open::open(&self.root, &path),
        };
        match found {
            // A file is no folder: links in it would lead below it.
            FileLookup::File(..) if !self.single && rest.ends_with('/') => self.fall_back(scope, &path),
            FileLookup::File(file, meta) => Some(self.serve(scope, &path, file, meta)),
            FileLookup::Folder if path.is_empty() && scope.path().is_some_and(|path| path.ends_with('/')) => {
                self.index(scope, "")
            }
            FileLookup::Folder if rest.ends_with('/') => self.index(scope, &path),
            // Relative links need the slash.
            FileLookup::Folder => {
                let index = format!("{path}/{}", self.index);
                let there = matches!(open::open(&self.root, index.trim_start_matches('/')), FileLookup::File(..));
                if there { slash(scope) } else { self.fall_back(scope, &path) }
            }
            FileLookup::Nothing => self.fall_back(scope, &path),
        }
    }

    fn index(&self, scope: &Scope, folder: &str) -> Option<Response<AnswerBody>> {
        let path = format!("{folder}/{}", self.index);
        let path = path.trim_start_matches('/');
        match open::open(&self.root, path) {
            FileLookup::File(file, meta) => Some(self.serve(scope, path, file, meta)),
            _ => self.fall_back(scope, folder),
        }
    }

    fn fall_back(&self, scope: &Scope, path: &str) -> Option<Response<AnswerBody>> {
        let fallback = self.fallback.as_ref().filter(|_| media::from_path(path).is_none())?;
        match open::open(&self.root, fallback) {
            FileLookup::File(file, meta) => Some(self.serve(scope, fallback, file, meta)),
            _ => None,
        }
    }

    /// The file itself, or one that was compressed before.
    fn serve(&self, scope: &Scope, path: &str, file: OwnedFd, meta: FileMeta) -> Response<AnswerBody> {
        let name = if self.single { self.root.to_string_lossy() } else { path.into() };
        let media = media::from_path(&name).unwrap_or(media::UNKNOWN);
        let varies = self.precompressed && media.compressible;
        let coded = if varies { self.coded(scope.headers(), path) } else { None };
        let (file, meta, coding) = match coded {
            Some((file, own, coding)) => (file, own, Some(coding)),
            None => (file, meta, None),
        };
        let mut response = answer(scope, file, meta, coding);
        let headers = response.headers_mut();
        if headers.contains_key(ETAG) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(media.name));
            headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            if varies {
                headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
            }
            if let Some(coding) = coding {
                headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.word()));
            }
        }
        response
    }

    fn coded(&self, asked: &HeaderMap, path: &str) -> Option<(OwnedFd, FileMeta, Coding)> {
        // The smallest first.
        let mut left = vec![Coding::Br, Coding::Zstd, Coding::Gzip];
        loop {
            let (CodingChoice::Coded(coding) | CodingChoice::Only(coding)) = choose(asked, &left) else { return None };
            let ending = match coding {
                Coding::Br => "br",
                Coding::Zstd => "zst",
                Coding::Gzip | Coding::Deflate => "gz",
            };
            let found = match self.single {
                true => open::open_root(Path::new(&format!("{}.{ending}", self.root.display()))),
                false => open::open(&self.root, &format!("{path}.{ending}")),
            };
            if let FileLookup::File(file, meta) = found {
                return Some((file, meta, coding));
            }
            left.retain(|other| *other != coding);
        }
    }
}

/// The same address with a slash at its end.
fn slash(scope: &Scope) -> Option<Response<AnswerBody>> {
    let query = scope.query().map(|query| format!("?{query}")).unwrap_or_default();
    let target = format!("{}/{query}", scope.path()?);
    // `//host` would lead to another host.
    let location = HeaderValue::from_str(&target).ok().filter(|_| !target.starts_with("//"))?;
    let mut response = Response::new(AnswerBody::empty());
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    response.headers_mut().insert(LOCATION, location);
    Some(response)
}

/// The answer to a request for this file: whole, a part of it, or that it has not changed.
fn answer(scope: &Scope, file: OwnedFd, meta: FileMeta, coding: Option<Coding>) -> Response<AnswerBody> {
    let asked = scope.headers();
    let etag = etag(meta, coding);
    let mut response = Response::new(AnswerBody::empty());
    let headers = response.headers_mut();
    headers.insert(ETAG, etag.clone());
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Ok(modified) = HeaderValue::from_str(&httpdate::fmt_http_date(modified(meta))) {
        headers.insert(LAST_MODIFIED, modified);
    }
    if let Some(status) = condition(asked, &etag, meta) {
        *response.status_mut() = status;
        return response;
    }
    let ranged = match asked.get(RANGE).filter(|_| *scope.method() == Method::GET && may_range(asked, &etag, meta)) {
        Some(range) => range::read(range.as_bytes(), meta.length),
        None => Ranged::Whole,
    };
    let (from, length) = match ranged {
        Ranged::Whole => (0, meta.length),
        Ranged::Part(from, length) => {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            let told = format!("bytes {from}-{}/{}", from + length - 1, meta.length);
            response.headers_mut().extend(HeaderValue::from_str(&told).ok().map(|told| (CONTENT_RANGE, told)));
            (from, length)
        }
        Ranged::Outside => {
            *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
            let told = format!("bytes */{}", meta.length);
            response.headers_mut().extend(HeaderValue::from_str(&told).ok().map(|told| (CONTENT_RANGE, told)));
            return response;
        }
    };
    response.headers_mut().insert(CONTENT_LENGTH, length.into());
    if *scope.method() != Method::HEAD && length > 0 {
        match body(file, from, length) {
            Ok(body) => *response.body_mut() = body,
            Err(error) => return response::fail(&broken(&error)),
        }
    }
    response
}

fn etag(meta: FileMeta, coding: Option<Coding>) -> HeaderValue {
    let coding = coding.map(|coding| format!("-{}", coding.word())).unwrap_or_default();
    let text = format!("\"{:x}-{:x}-{:x}{coding}\"", meta.seconds, meta.nanoseconds, meta.length);
    HeaderValue::from_str(&text).expect("hexadecimal digits are ASCII")
}

fn modified(meta: FileMeta) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(meta.seconds).unwrap_or(0))
}

/// The status by the conditions of the request (RFC 9110, 13.2.2), if it is not that of the file.
fn condition(asked: &HeaderMap, etag: &HeaderValue, meta: FileMeta) -> Option<StatusCode> {
    let date = |name| asked.get(&name).and_then(|value| httpdate::parse_http_date(value.to_str().ok()?).ok());
    let failed = match asked.contains_key(IF_MATCH) {
        true => !lists(asked, IF_MATCH, etag, false),
        false => date(IF_UNMODIFIED_SINCE).is_some_and(|date| modified(meta) > date),
    };
    if failed {
        return Some(StatusCode::PRECONDITION_FAILED);
    }
    let same = match asked.contains_key(IF_NONE_MATCH) {
        true => lists(asked, IF_NONE_MATCH, etag, true),
        false => date(IF_MODIFIED_SINCE).is_some_and(|date| modified(meta) <= date),
    };
    same.then_some(StatusCode::NOT_MODIFIED)
}

/// Whether a list of tags has this one.
fn lists(asked: &HeaderMap, name: http::HeaderName, etag: &HeaderValue, weak: bool) -> bool {
    list::text_field(asked, &name).any(|tag| {
        let bare = if weak { tag.strip_prefix("W/").unwrap_or(tag) } else { tag };
        tag == "*" || bare.as_bytes() == etag.as_bytes()
    })
}

/// Whether `If-Range` lets a part be served.
fn may_range(asked: &HeaderMap, etag: &HeaderValue, meta: FileMeta) -> bool {
    let Some(condition) = asked.get(IF_RANGE) else { return true };
    let date = || httpdate::parse_http_date(condition.to_str().ok()?).ok();
    condition == etag || date().is_some_and(|date| modified(meta) == date)
}

/// The most that is read at once.
const PIECE: u64 = 128 << 10;

fn body(file: OwnedFd, from: u64, length: u64) -> Result<AnswerBody, std::io::Error> {
    if length <= PIECE {
        let piece = read(&file, from, length)?;
        return match piece.len() as u64 == length {
            true => Ok(AnswerBody::Bytes(piece)),
            false => Err(std::io::ErrorKind::UnexpectedEof.into()),
        };
    }
    // The system reads ahead, so that a core hardly waits for a disk.
    let _ = rustix::fs::fadvise(&file, from, std::num::NonZeroU64::new(length), rustix::fs::Advice::Sequential);
    Ok(AnswerBody::Pulled(Box::pin(FileBody { file, at: from, left: length })))
}

fn read(file: &OwnedFd, at: u64, length: u64) -> Result<Bytes, std::io::Error> {
    let wanted = usize::try_from(length.min(PIECE)).unwrap_or(usize::MAX);
    let mut piece = Vec::with_capacity(wanted);
    while piece.len() < wanted {
        let at = at + piece.len() as u64;
        match rustix::io::pread(file, rustix::buffer::spare_capacity(&mut piece), at) {
            Ok(0) => break,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(piece.into())
}

fn broken(error: &std::io::Error) -> Error {
    Error::new(Kind::Internal, format!("a file cannot be read: {error}"))
}

/// A file on its way out, read as the client takes it.
struct FileBody {
    file: OwnedFd,
    at: u64,
    left: u64,
}

impl http_body::Body for FileBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        match read(&self.file, self.at, self.left) {
            Ok(piece) if !piece.is_empty() => {
                self.at += piece.len() as u64;
                self.left -= piece.len() as u64;
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            // A file that was cut meanwhile must not pass for whole.
            Ok(_) => Poll::Ready(Some(Err(broken(&std::io::ErrorKind::UnexpectedEof.into())))),
            Err(error) => Poll::Ready(Some(Err(broken(&error)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
