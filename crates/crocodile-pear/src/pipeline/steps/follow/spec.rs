//! The step `follow`, as it is written.

use std::num::NonZeroUsize;

use crate::choice;
use crate::config::problem::{Problems, Span};
use crate::config::spec::{
    Decode, Definitions, Entries, ExpressionSpec, Json, Literal, Located, Node, NodeKind, Size, Texts, only,
};
use crate::hypermedia;
use crate::pipeline::call::Request;
use crate::pipeline::step::MAX_BODY;
use crate::pipeline::step::status::OnStatus;
use crate::spec;
use crate::upstream::TimeoutSpec;

/// Pages, unless they are set.
pub(super) const PAGES: u64 = 50;

/// Redirects of one link, unless they are set.
pub(super) const REDIRECTS: u64 = 3;

choice! {
    /// The choice if a document has both a part and a link to it.
    pub enum Prefer {
        /// The part: no call is made for it.
        Embedded = "embedded",
        /// The link: the part is used only if there is no link.
        Link = "link",
    }
}

choice! {
    /// Whether an item needs a link.
    pub enum Required {
        /// An item without a link fails.
        On = "on",
        /// The result is null, or an empty list.
        Off = "off",
    }
}

impl From<Prefer> for hypermedia::Preference {
    fn from(prefer: Prefer) -> Self {
        match prefer {
            Prefer::Embedded => hypermedia::Preference::Embedded,
            Prefer::Link => hypermedia::Preference::Link,
        }
    }
}

/// The keys of the item under which what was fetched is put.
#[derive(Clone, Debug)]
pub struct ResultKeys {
    /// That of the document.
    pub body: Option<Located<String>>,
    /// That of the status and the header fields of its answer.
    pub head: Option<Located<String>>,
}

spec! {
    /// The keys of the item under which what was fetched is put.
    struct AsParts {
        /// The key for the status and the header fields of the answer.
        pub head: Option<Located<String>>,
        /// The key for the document.
        pub body: Option<Located<String>>,
    }
}

impl ResultKeys {
    /// A place of it in the configuration.
    pub(super) fn span(&self) -> Span {
        self.body.as_ref().or(self.head.as_ref()).map(|name| name.span).unwrap_or_default()
    }

    /// " as case, its head as meta"
    pub(super) fn outline(&self) -> String {
        let body = self.body.as_ref().map(|name| format!(" as {name}"));
        let head = self.head.as_ref().map(|name| format!(", its head as {name}"));
        [body, head].into_iter().flatten().collect()
    }
}

impl From<String> for ResultKeys {
    fn from(name: String) -> Self {
        ResultKeys { body: Some(name.into()), head: None }
    }
}

impl Decode for ResultKeys {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        let NodeKind::Map(_) = node.kind else {
            let body = Located::decode(node, problems)?;
            return Some(ResultKeys { body: Some(body), head: None });
        };
        let AsParts { head, body } = AsParts::decode(node, problems)?;
        match (&head, &body) {
            (None, None) => {
                problems.error(node.span, "`as` without a key", "write `as: { head: meta, body: document }`")
            }
            (Some(head), Some(body)) if head.value == body.value => {
                problems.error(body.span, "`head` and `body` have the same key", "give them two keys")
            }
            _ => Some(ResultKeys { body, head }),
        }
    }

    fn schema(definitions: &mut Definitions) -> Json {
        let (name, parts) = (Located::<String>::schema(definitions), AsParts::schema(definitions));
        serde_json::json!({"anyOf": [name, parts]})
    }
}

/// The variables of templated links: an expression that gives an object, or an expression for each variable.
#[derive(Clone, Debug)]
pub enum With {
    /// The fields of an object.
    Whole(ExpressionSpec),
    /// Each by its name.
    Each(Entries<ExpressionSpec>),
}

impl Decode for With {
    fn decode(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.kind {
            NodeKind::Map(_) => Entries::decode(node, problems).map(With::Each),
            _ => ExpressionSpec::decode(node, problems).map(With::Whole),
        }
    }

    fn schema(definitions: &mut Definitions) -> Json {
        let (whole, each) = (ExpressionSpec::schema(definitions), Entries::<ExpressionSpec>::schema(definitions));
        serde_json::json!({"anyOf": [whole, each]})
    }
}

spec! {
    /// Fetches the document that a link in each item points to. Short form: the expression that gives the link. The
    /// document is put into the item under the key `as`. Without `as`, or if the item is not an object, it replaces
    /// the item. If the link is missing or null, the result is null and no call is made.
    ///
    /// A relative link is resolved (RFC 3986) against the document that contains it. If the expression begins with
    /// the key of an earlier `as` (`.case.resources[0].href`), that is the document under this key. If it begins with
    /// a named result (`$orders.next`), it is that result. Otherwise it is the answer that the item came from. `base`
    /// overrides this.
    ///
    /// A link may only lead to a configured upstream: to its origin (scheme, host, port), and to a path below the path of
    /// its URL. Any other link is rejected before a connection is made. If several upstreams fit, the one with the
    /// longest path is used.
    ///
    /// The call has the fields and the credentials of that upstream if the document with the link came from it, or if
    /// `to` names it. Otherwise it has none: no `forward`, no `headers`, no access token. An upstream with a client
    /// certificate is then not called.
    ///
    /// Within one client request, the same document is fetched once, however many items link to it. Up to 4 MiB of
    /// documents are cached for this; the least recently used are removed first.
    ///
    /// A link with braces is a URI template (RFC 6570), and is expanded with the variables of `with`. Variables that
    /// are missing or null vanish. A value never leads to another path: one that would add a `..` makes the item fail.
    ///
    /// If the document at the link redirects (301, 302, 303, 307 or 308), the redirect is followed, at most `redirects`
    /// times. Each address is checked like a link. The call has no credentials unless the upstream that redirects is the
    /// one that it leads to, and was called with them.
    ///
    /// `hal`, `json_api` and `siren` name a relation. If the item itself has the related document (in `_embedded`, in
    /// `included`, as a sub-entity), that is used, and no call is made; otherwise the link is followed. `prefer: link`
    /// turns this round. An included resource of JSON:API is `{"data": …}`, as if it had been fetched.
    ///
    /// Several relations are a tree: `hal: [orders, items, product]` follows `orders` of the item, `items` of each document
    /// that it leads to, and `product` of each of theirs. A document is put under the name of its relation, into the resource
    /// that has the relation: the document itself, or if it has none, each resource in it (the items of a list, what HAL and
    /// Siren embed, `data` of JSON:API). A resource without the relation stays as it is. `limit` bounds the links of each
    /// document.
    ///
    /// With `method`, `headers`, `body` or `action`, the link is called in that way, once for each item. A method that may
    /// change something is only used at the upstream that wrote the link, or at one that `to` names; `headers` and
    /// `body` are sent nowhere else either. An answer without a body is null. A redirect with 303, and one of a POST
    /// with 301 or 302, is followed by GET.
    ///
    /// An item's body and each document are read whole, within `max_body`. All documents of one item together have at most
    /// 16 times `max_body`. The item fails if its link is rejected, if there is no answer, or if the answer has a status
    /// other than 2xx (also 404), unless `otherwise` or `on_status` gives a value. An answer that flows in with a status
    /// other than 2xx passes unchanged.
    ///
    /// With `request`, the expression gives a value instead of a link (a number, a name), and the call is made for
    /// that value, at any upstream. Its `batch` requests several values in one call.
    ///
    /// With `pages`, the answer and each page that follows become one item each. A page flows on while the next one
    /// is fetched.
    pub struct Follow {
        /// The link. With a `limit` above 1, the links; a list gives its items.
        pub link: Option<ExpressionSpec>,
        /// The link to the next page. Default for `pages`: 50.
        pub next: Option<ExpressionSpec>,
        /// The name of a relation in HAL's `_embedded` or `_links`; also the address that its CURIE stands for. Several are
        /// the levels of a tree.
        pub hal: Option<Located<Texts>>,
        /// The name of a relationship of JSON:API, whose resource is in `included` or at its link; or of a member of
        /// `links`. Several are the levels of a tree.
        pub json_api: Option<Located<Texts>>,
        /// A relation in Siren's `entities` or `links`. Several are the levels of a tree.
        pub siren: Option<Located<Texts>>,
        /// The name of an action of Siren (`actions`), or of a template of HAL-FORMS (`_templates`). It is called by its method,
        /// with its fields in its content type; an object of `body` adds to the fields, or replaces them.
        pub action: Option<Located<String>>,
        /// The method of the call, in capitals. Default: GET, or POST with a `body`, or that of the action.
        pub method: Option<Located<String>>,
        /// Header fields to send, as in `request`.
        pub headers: Option<Entries<Located<String>>>,
        /// An expression that gives the body, as in `request`.
        pub body: Option<ExpressionSpec>,
        /// The `name` of the link, if several links of HAL have the same relation.
        #[name = "name"]
        pub link_name: Option<Located<String>>,
        /// The choice if the item has both a part and a link to it. Default: `embedded`.
        pub prefer: Option<Located<Prefer>>,
        /// The variables of links that are templates: a map of names and expressions, or an expression that gives an
        /// object, such as `$query`.
        pub with: Option<Located<With>>,
        /// Whether the item fails if it has no link. Default: `off`.
        pub required: Required = Required::Off,
        /// The name of a relation in the answer's `Link` header fields (RFC 8288), to use as the link.
        pub link_header: Option<Located<String>>,
        /// The call to make for the value of `link`. In its `path`, `headers` and `body`, `.` is that value.
        pub request: Option<Request>,
        /// The upstreams, by name, that links of other upstreams lead to with all that calls to them have: the client's
        /// fields, keys, access tokens. Name only those whose paths others may choose.
        pub to: Option<Located<Texts>>,
        /// The key of the item under which the document is put. With `{ head: meta, body: text }`, the status and the header fields
        /// of the answer, `{"status": 200, "headers": {…}}`, are put under one key, and the document under the other; with
        /// `head` alone, the document is dropped: `method: HEAD` has none. Without a call, the head is null.
        #[name = "as"]
        pub name: Option<ResultKeys>,
        /// The `as` of the document against which relative links are resolved, if the expression does not begin with
        /// it.
        pub base: Option<Located<String>>,
        /// The maximum number of pages, including the first. One more is a failed item.
        pub pages: Option<Located<u64>>,
        /// The maximum number of links per document. More links make the item fail. Above 1, the result is a list.
        pub limit: Located<u64> = Located::new(1, Default::default()),
        /// With a `limit` above 1: how many links of one document are followed at the same time. No limit by default.
        pub concurrency: Option<Located<NonZeroUsize>>,
        /// The maximum number of redirects of one link. With 0, a redirect is an answer like another, and makes the item
        /// fail. A status under `on_status` is not followed.
        pub redirects: Located<u64> = Located::new(REDIRECTS, Default::default()),
        /// How many levels of links are followed: the links of each fetched document too, with the document as `.`. A
        /// link back to a document on the way to it gives null, so loops end.
        pub depth: Located<u64> = Located::new(1, Default::default()),
        /// A condition. If it is false or null, nothing is followed, as if the item had no link.
        pub when: Option<ExpressionSpec>,
        /// The value to use if a document cannot be fetched.
        pub otherwise: Option<Located<Literal>>,
        /// The action by the status of the document's answer, or by its class: `{ 404: null, 5xx: fail }`. `pass` uses
        /// it as if its status were 2xx. `fail` makes it fail, also if there is `otherwise`. Any other value is used
        /// instead of the document.
        pub on_status: Option<OnStatus>,
        /// How long a call may take: one time for the whole call, or a time for each phase.
        pub timeout: Option<TimeoutSpec>,
        /// The most bytes of an item and of a document.
        pub max_body: Size = MAX_BODY,
    }
    short(short)
}

fn short(text: Located<String>, problems: &mut Problems) -> Option<Follow> {
    only([("link", text)], problems)
}

impl Follow {
    /// Follows the links that this expression gives; what they lead to takes the item's place.
    pub fn of(link: ExpressionSpec) -> Self {
        let follow: Option<Follow> = short(link.0.clone(), &mut Problems::default());
        Follow { link: Some(link), ..follow.expect("any text is a link") }
    }
}
