//! Answers in the shapes of servers that others write: Django REST framework, GraphQL, S3, a session, a cursor, an RSS
//! feed.

use http::header::{CONTENT_TYPE, COOKIE, HOST, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::reply::{self, Reply, parameter};

const TITLES: [&str; 5] = ["One", "Two", "Three", "Four", "Five"];
const AUTHORS: [&str; 2] = ["Ada", "Grace"];

/// The largest query of GraphQL that is read.
const QUERY: usize = 64 << 10;

/// The most items of a feed.
const ITEMS: usize = 1000;

/// Articles of Django REST framework, two on a page, with links that have the host that was asked for.
pub fn django(path: &[&str], query: Option<&str>, headers: &HeaderMap) -> Option<Reply> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let here = format!("http://{host}/django");
    let article = |number: usize| {
        let author = (number - 1) % AUTHORS.len() + 1;
        json!({"url": format!("{here}/articles/{number}/"), "title": TITLES[number - 1],
               "author": format!("{here}/people/{author}/")})
    };
    match path {
        ["articles", ""] => {
            let page = parameter(query, "page").and_then(|page| page.parse().ok()).unwrap_or(1_usize).clamp(1, 3);
            let link = |page: usize| format!("{here}/articles/?page={page}");
            let items: Vec<Value> = (page * 2 - 1..=(page * 2).min(TITLES.len())).map(article).collect();
            let (next, previous) = ((page < 3).then(|| link(page + 1)), (page > 1).then(|| link(page - 1)));
            let list = json!({"count": TITLES.len(), "next": next, "previous": previous, "results": items});
            Some(reply::json(list.to_string()))
        }
        ["articles", number, ""] => {
            let number = number.parse().ok().filter(|number| (1..=TITLES.len()).contains(number))?;
            Some(reply::json(article(number).to_string()))
        }
        ["people", number, ""] => {
            let number: usize = number.parse().ok().filter(|number| (1..=AUTHORS.len()).contains(number))?;
            let person = json!({"url": format!("{here}/people/{number}/"), "name": AUTHORS[number - 1]});
            Some(reply::json(person.to_string()))
        }
        _ => None,
    }
}

/// The keys of a bucket of S3, one on a page.
pub fn bucket(query: Option<&str>) -> Reply {
    let more = parameter(query, "continuation-token").is_none();
    let (key, size, token) = match more {
        true => ("a.txt", 1, "<NextContinuationToken>b+/=</NextContinuationToken>"),
        false => ("b.txt", 2, ""),
    };
    let list = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         <IsTruncated>{more}</IsTruncated><Contents><Key>{key}</Key><Size>{size}</Size></Contents>{token}</ListBucketResult>\n"
    );
    reply::page("application/xml", list)
}

/// Events behind a number, two at a time.
pub fn events(query: Option<&str>) -> Reply {
    let after = parameter(query, "after").and_then(|after| after.parse::<usize>().ok()).unwrap_or(0).min(5);
    let items: Vec<Value> = (after + 1..=(after + 2).min(5)).map(|id| json!({"id": id})).collect();
    reply::json(json!({"events": items, "more": after + 2 < 5}).to_string())
}

/// A login that sets a cookie, and orders for who has it.
pub fn session(method: &Method, path: &[&str], headers: &HeaderMap) -> Option<Reply> {
    let known = headers
        .get_all(COOKIE)
        .iter()
        .any(|cookie| cookie.as_bytes().windows(14).any(|part| part == b"session=s3cret"));
    match (method, path) {
        (&Method::POST, []) => {
            let mut reply = reply::with(StatusCode::CREATED, reply::json(r#"{"welcome":"Ada"}"#));
            let cookie = HeaderValue::from_static("session=s3cret; Path=/session; HttpOnly");
            reply.headers_mut().insert(SET_COOKIE, cookie);
            Some(reply)
        }
        (_, ["orders"]) if known => Some(reply::json(r#"[{"id":1},{"id":2}]"#)),
        (_, ["orders"]) => Some(reply::problem(StatusCode::UNAUTHORIZED, "log in first")),
        _ => None,
    }
}

/// Products by GraphQL: those of the variables `id` and `ids`, from 1 to 9.
pub async fn graphql(request: Request<Incoming>) -> Reply {
    let json_body =
        request.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let body = http_body_util::Limited::new(request.into_body(), QUERY).collect().await;
    let asked: Option<Value> = body.ok().and_then(|body| serde_json::from_slice(&body.to_bytes()).ok());
    let Some(asked) = asked.filter(|_| json_body) else {
        return reply::problem(StatusCode::BAD_REQUEST, "a query of GraphQL is JSON");
    };
    let product = |id: &Value| {
        let known = id.as_str().and_then(|id| id.parse::<u32>().ok()).filter(|id| (1..=9).contains(id));
        known.map(|number| json!({"id": id, "name": format!("Product {number}")}))
    };
    let variables = &asked["variables"];
    let answer = match variables["ids"].as_array() {
        Some(ids) => json!({"data": {"products": ids.iter().filter_map(product).collect::<Vec<_>>()}}),
        None => match product(&variables["id"]) {
            Some(product) => json!({"data": {"product": product}}),
            None => json!({"data": {"product": null}, "errors": [{"message": "no such product", "path": ["product"]}]}),
        },
    };
    reply::json(answer.to_string())
}

/// An RSS feed with so many items, the latest first.
pub fn feed(count: usize) -> Option<Reply> {
    if count > ITEMS {
        return None;
    }
    let item = |number: usize| {
        format!("<item><title>News {number}</title><link>https://press.example/news/{number}</link></item>")
    };
    let items: String = (1..=count).rev().map(item).collect();
    let feed = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<rss version=\"2.0\"><channel><title>The press</title>\
        <link>https://press.example/</link><description>What is new.</description>{items}</channel></rss>\n"
    );
    Some(reply::page("application/rss+xml", feed))
}

#[cfg(test)]
mod tests {
    use super::{ITEMS, feed};

    #[test]
    fn a_feed_that_is_too_long_is_not_written_first() {
        assert!(feed(ITEMS).is_some());
        assert!(feed(usize::MAX).is_none());
    }
}
