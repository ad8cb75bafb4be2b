//! The cases of every client.

#[derive(Clone, Copy, Debug, Default)]
pub struct Case {
    pub name: &'static str,
    pub method: &'static str,
    pub path: &'static str,
    pub fields: &'static [&'static str],
    /// The bytes of its body; none where there is no body.
    pub size: Option<usize>,
    pub length: Length,
    pub redirects: Redirects,
}

/// Whether a body says how long it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Length {
    #[default]
    Known,
    Unknown,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redirects {
    #[default]
    Shown,
    Followed,
}

impl Case {
    /// The case as a line for a program: words between tabs, fields between unit separators.
    pub fn line(&self) -> String {
        let size = self.size.map_or("-".to_owned(), |size| size.to_string());
        let length = if self.length == Length::Unknown { "chunked" } else { "length" };
        let redirects = if self.redirects == Redirects::Followed { "follow" } else { "manual" };
        let fields = self.fields.join("\u{1f}").replace("*8000", &"l".repeat(8000));
        [self.name, self.method, self.path, &fields, &size, length, redirects].join("\t")
    }
}

const fn get(name: &'static str, path: &'static str) -> Case {
    Case { fields: &[], size: None, length: Length::Known, redirects: Redirects::Shown, name, method: "GET", path }
}

const fn with(fields: &'static [&'static str], case: Case) -> Case {
    Case { fields, ..case }
}

const fn send(name: &'static str, method: &'static str, path: &'static str, size: usize) -> Case {
    Case { method, size: Some(size), ..get(name, path) }
}

const fn unknown(case: Case) -> Case {
    Case { length: Length::Unknown, ..case }
}

const fn follow(case: Case) -> Case {
    Case { redirects: Redirects::Followed, ..case }
}

pub const CASES: [Case; 48] = [
    get("get", "/echo"),
    Case { method: "HEAD", ..get("head", "/echo") },
    Case { method: "OPTIONS", ..get("options", "/echo") },
    Case { method: "DELETE", ..get("delete", "/echo") },
    Case { method: "REPORT", ..get("a-method-of-its-own", "/echo") },
    get("query", "/echo?q=a%20b&q=%C3%A9&empty=&none"),
    get("path", "/echo/a%2Fb/%C3%A9/c;d=1,2/~"),
    send("post", "POST", "/echo", 7),
    send("post-empty", "POST", "/echo", 0),
    send("put", "PUT", "/echo", 7),
    send("patch", "PATCH", "/echo", 7),
    send("delete-body", "DELETE", "/echo", 7),
    send("post-large", "POST", "/echo", 300_000),
    unknown(send("post-chunked", "POST", "/echo", 7)),
    unknown(send("put-chunked", "PUT", "/echo", 7)),
    unknown(send("post-chunked-large", "POST", "/echo", 300_000)),
    with(&["content-type: application/x-www-form-urlencoded"], send("form", "POST", "/echo", 20)),
    follow(get("redirect-301", "/redirect/301")),
    follow(get("redirect-302", "/redirect/302")),
    follow(get("redirect-308", "/redirect/308")),
    follow(get("redirect-absolute", "/redirect/absolute")),
    follow(send("redirect-303-post", "POST", "/redirect/303", 7)),
    follow(send("redirect-307-post", "POST", "/redirect/307", 7)),
    get("redirect-shown", "/redirect/302"),
    with(&["range: bytes=2-5"], get("range", "/range")),
    with(&["range: bytes=-3"], get("range-of-the-end", "/range")),
    with(&["range: bytes=900-"], get("range-outside", "/range")),
    with(&["range: bytes=2-5", "if-range: \"other\""], get("range-of-another", "/range")),
    get("compressed-by-default", "/gzip"),
    with(&["accept-encoding: gzip"], get("compressed", "/gzip")),
    with(&["accept-encoding: identity"], get("not-compressed", "/gzip")),
    with(&["te: trailers"], get("trailers", "/trailers")),
    get("early-hints", "/early"),
    get("cookies-set", "/cookies"),
    with(&["cookie: a=1; b=2"], get("cookies-sent", "/echo")),
    with(&["authorization: Bearer abc", "x-twice: 1", "x-other: a, b"], get("fields", "/echo")),
    with(&["x-large: *8000"], get("large-field", "/echo")),
    get("large-fields-back", "/large-head"),
    get("chunked-back", "/chunked"),
    get("large-back", "/large"),
    get("events", "/events"),
    get("status-204", "/status/204"),
    with(&["if-none-match: \"e\""], get("status-304", "/status/304")),
    get("status-404", "/status/404"),
    get("status-503", "/status/503"),
    get("empty", "/empty"),
    get("until-close", "/until-close"),
    get("cut", "/cut"),
];
