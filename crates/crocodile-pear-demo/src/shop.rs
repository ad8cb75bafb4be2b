//! A shop whose documents link to each other, as frameworks write them: Spring Data REST (HAL), Django REST framework
//! (JSON:API), Siren, Collection+JSON and SAP CAP (OData).

use std::fmt::Write as _;

use http::header::{HOST, LOCATION};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::reply::{self, Reply, parameter};

const HAL: &str = "application/hal+json";
const JSON_API: &str = "application/vnd.api+json";
const SIREN: &str = "application/vnd.siren+json";
const COLLECTION: &str = "application/vnd.collection+json";
const ODATA: &str = "application/json;odata.metadata=minimal";

/// Orders: number, state, total and customer.
const ORDERS: [(u32, &str, &str, u32); 3] =
    [(1001, "open", "49.90", 7), (1002, "shipped", "12.00", 8), (1003, "open", "7.50", 7)];

/// The order that a POST creates; it is one of those that are there.
const CREATED: usize = 3;

/// Answers a request below `/shop`; `None` if nothing is there.
pub fn answer(method: &Method, segments: &[&str], query: Option<&str>, headers: &HeaderMap) -> Option<Reply> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("127.0.0.1:9000");
    let base = format!("http://{host}/shop");
    if *method == Method::POST && segments == ["hal", "orders"] {
        return Some(created(&base));
    }
    let (kind, document) = match segments {
        ["hal", rest @ ..] => (HAL, hal(rest, query)?),
        ["json-api", rest @ ..] => (JSON_API, json_api(rest, query)?),
        ["siren", "orders"] => (SIREN, siren(query)),
        ["collection", "friends"] => (COLLECTION, collection(query)),
        ["odata", "Products"] => (ODATA, odata(query)),
        _ => return None,
    };
    Some(match *method {
        Method::GET | Method::HEAD => reply::page(kind, document.replace("{base}", &base)),
        _ => reply::not_allowed(),
    })
}

fn created(base: &str) -> Reply {
    let mut reply = reply::with(StatusCode::CREATED, reply::page(HAL, String::new()));
    if let Ok(location) = HeaderValue::try_from(format!("{base}/hal/orders/{CREATED}")) {
        reply.headers_mut().insert(LOCATION, location);
    }
    reply
}

fn hal(segments: &[&str], query: Option<&str>) -> Option<String> {
    let order_of = |id: &str| id.parse().ok().filter(|id| (1..=ORDERS.len()).contains(id));
    Some(match segments {
        [] => r#"{"_links":{"orders":{"href":"{base}/hal/orders{?page,size,sort}","templated":true},"profile":{"href":"{base}/hal/profile"}}}"#.to_owned(),
        ["orders"] => match parameter(query, "page").as_deref() {
            Some("1") => page(3..=3, r#""first":{"href":"{base}/hal/orders?page=0&size=2"},"prev":{"href":"{base}/hal/orders?page=0&size=2"},"self":{"href":"{base}/hal/orders?page=1&size=2"}"#, 1),
            _ => page(1..=2, r#""self":{"href":"{base}/hal/orders?page=0&size=2"},"next":{"href":"{base}/hal/orders?page=1&size=2"},"search":{"href":"{base}/hal/orders/search"}"#, 0),
        },
        ["orders", "search"] => r#"{"_links":{"findByState":{"href":"{base}/hal/orders/search/findByState{?state,sort*}","templated":true}}}"#.to_owned(),
        ["orders", "search", "findByState"] => {
            let state = parameter(query, "state").unwrap_or_default();
            found((1..=ORDERS.len()).filter(|id| ORDERS[id - 1].1 == state))
        }
        ["orders", id] => order(order_of(id)?),
        ["orders", id, "customer"] => customer(ORDERS[order_of(id)? - 1].3)?,
        ["orders", id, "items"] => items(order_of(id)?),
        ["customers", id] => customer(id.parse().ok()?)?,
        ["orderItems", id, "product"] => product(id.parse().ok()?)?,
        _ => return None,
    })
}

fn order(id: usize) -> String {
    let (number, state, total, _) = ORDERS[id - 1];
    let own = format!("{{base}}/hal/orders/{id}");
    format!(
        r#"{{"number":{number},"state":"{state}","total":{total},"_links":{{"self":{{"href":"{own}"}},"customer":{{"href":"{own}/customer"}},"items":{{"href":"{own}/items"}}}}}}"#
    )
}

fn page(ids: std::ops::RangeInclusive<usize>, links: &str, number: u32) -> String {
    let orders: Vec<String> = ids.map(order).collect();
    format!(
        r#"{{"_embedded":{{"orders":[{}]}},"_links":{{{links}}},"page":{{"size":2,"totalElements":3,"totalPages":2,"number":{number}}}}}"#,
        orders.join(",")
    )
}

/// The orders that a search finds. Like Spring HATEOAS, it leaves `_embedded` out where there are none.
fn found(ids: impl Iterator<Item = usize>) -> String {
    let orders: Vec<String> = ids.map(order).collect();
    let links = r#""_links":{"self":{"href":"{base}/hal/orders/search/findByState"}}"#;
    match orders.is_empty() {
        true => format!("{{{links}}}"),
        false => format!(r#"{{"_embedded":{{"orders":[{}]}},{links}}}"#, orders.join(",")),
    }
}

fn customer(id: u32) -> Option<String> {
    let name = match id {
        7 => "Ada Lind",
        8 => "Alan Berg",
        _ => return None,
    };
    Some(format!(r#"{{"name":"{name}","_links":{{"self":{{"href":"{{base}}/hal/customers/{id}"}}}}}}"#))
}

/// The last order has none.
fn items(order: usize) -> String {
    let own = format!("{{base}}/hal/orders/{order}/items");
    let item = |id: usize, quantity: u32| {
        format!(r#"{{"quantity":{quantity},"_links":{{"product":{{"href":"{{base}}/hal/orderItems/{id}/product"}}}}}}"#)
    };
    let items = match order {
        1 => [item(11, 2), item(12, 1)].join(","),
        2 => item(21, 1),
        _ => return format!(r#"{{"_links":{{"self":{{"href":"{own}"}}}}}}"#),
    };
    format!(r#"{{"_embedded":{{"orderItems":[{items}]}},"_links":{{"self":{{"href":"{own}"}}}}}}"#)
}

fn product(item: u32) -> Option<String> {
    let name = match item {
        11 => "Pear",
        12 => "Plum",
        21 => "Quince",
        _ => return None,
    };
    Some(format!(r#"{{"name":"{name}","_links":{{"self":{{"href":"{{base}}/hal/orderItems/{item}/product"}}}}}}"#))
}

fn json_api(segments: &[&str], query: Option<&str>) -> Option<String> {
    let article = |id: u32, title: &str, author: u32, comments: &[u32]| {
        let mut named = String::new();
        for (at, id) in comments.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let _ = write!(named, r#"{comma}{{"type":"comments","id":"{id}"}}"#);
        }
        format!(
            r#"{{"type":"articles","id":"{id}","attributes":{{"title":"{title}"}},"relationships":{{"author":{{"data":{{"type":"people","id":"{author}"}}}},"comments":{{"meta":{{"count":{count}}},"data":[{named}]}}}}}}"#,
            count = comments.len()
        )
    };
    let person = |id: &str, name: &str| format!(r#"{{"type":"people","id":"{id}","attributes":{{"name":"{name}"}}}}"#);
    Some(match segments {
        ["articles"] => match parameter(query, "page[number]").or(parameter(query, "page%5Bnumber%5D")).as_deref() {
            Some("2") => format!(
                r#"{{"links":{{"first":"{{base}}/json-api/articles?page%5Bnumber%5D=1","next":null}},"data":[{}],"included":[],"meta":{{"pagination":{{"page":2,"pages":2,"count":3}}}}}}"#,
                article(3, "Pears in October", 2, &[])
            ),
            _ => format!(
                r#"{{"links":{{"first":"{{base}}/json-api/articles?page%5Bnumber%5D=1","next":"{{base}}/json-api/articles?page%5Bnumber%5D=2"}},"data":[{},{}],"included":[{},{{"type":"comments","id":"5","attributes":{{"body":"First!"}},"relationships":{{"author":{{"data":{{"type":"people","id":"9"}}}}}}}}],"meta":{{"pagination":{{"page":1,"pages":2,"count":3}}}}}}"#,
                article(1, "Pears", 9, &[5]),
                article(2, "Crocodiles", 9, &[]),
                person("9", "Dan")
            ),
        },
        ["people", "9"] => format!(r#"{{"data":{}}}"#, person("9", "Dan")),
        ["people", "2"] => format!(r#"{{"data":{}}}"#, person("2", "Eve")),
        _ => return None,
    })
}

fn siren(query: Option<&str>) -> String {
    let order = |id: usize| {
        let (number, state, ..) = ORDERS[id - 1];
        format!(
            r#"{{"class":["order"],"rel":["item"],"properties":{{"number":{number},"state":"{state}"}},"entities":[{{"class":["customer"],"rel":["http://x.io/rels/customer"],"href":"{{base}}/hal/orders/{id}/customer"}}],"links":[{{"rel":["self"],"href":"{{base}}/hal/orders/{id}"}}]}}"#
        )
    };
    let (orders, links) = match parameter(query, "page").as_deref() {
        Some("2") => (order(3), r#"{"rel":["self"],"href":"{base}/siren/orders?page=2"}"#),
        _ => (
            [order(1), order(2)].join(","),
            r#"{"rel":["self"],"href":"{base}/siren/orders"},{"rel":["next"],"href":"{base}/siren/orders?page=2"}"#,
        ),
    };
    format!(
        r#"{{"class":["orders","collection"],"properties":{{"count":3}},"entities":[{orders}],"actions":[{{"name":"create","method":"POST","href":"{{base}}/hal/orders","fields":[{{"name":"state","value":"open"}},{{"name":"total","type":"number"}}]}}],"links":[{links}]}}"#
    )
}

fn collection(query: Option<&str>) -> String {
    let friend = |id: &str, name: &str, mail: &str| {
        format!(
            r#"{{"href":"{{base}}/collection/friends/{id}","data":[{{"name":"full-name","value":"{name}","prompt":"Full Name"}},{{"name":"email","value":"{mail}","prompt":"Email"}}],"links":[{{"rel":"blog","href":"http://example.org/blogs/{id}"}}]}}"#
        )
    };
    let (items, links) = match parameter(query, "page").as_deref() {
        Some("2") => (friend("rwilliams", "R. Williams", "rwilliams@example.org"), String::new()),
        _ => (
            [friend("jdoe", "J. Doe", "jdoe@example.org"), friend("msmith", "M. Smith", "msmith@example.org")]
                .join(","),
            r#"{"rel":"next","href":"{base}/collection/friends?page=2"}"#.to_owned(),
        ),
    };
    format!(
        r#"{{"collection":{{"version":"1.0","href":"{{base}}/collection/friends","links":[{links}],"items":[{items}],"template":{{"data":[{{"name":"full-name","value":""}}]}}}}}}"#
    )
}

fn odata(query: Option<&str>) -> String {
    let product = |id: u32, name: &str, price: &str, supplier: u32| {
        format!(
            r#"{{"@odata.etag":"W/\"{id}\"","ID":{id},"name":"{name}","price":{price},"supplier_ID":{supplier},"supplier@odata.navigationLink":"Products({id})/supplier"}}"#
        )
    };
    let (products, next) = match parameter(query, "$skiptoken").as_deref() {
        Some("2") => (product(3, "Quince", "3.20", 1), String::new()),
        _ => (
            [product(1, "Pear", "1.10", 1), product(2, "Plum", "0.90", 2)].join(","),
            r#","@odata.nextLink":"Products?$skiptoken=2""#.to_owned(),
        ),
    };
    format!(r#"{{"@odata.context":"$metadata#Products","@odata.count":3,"value":[{products}]{next}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_document_is_json() {
        use http_body_util::BodyExt as _;

        for target in [
            "hal",
            "hal/orders",
            "hal/orders?page=1",
            "hal/orders/search",
            "hal/orders/search/findByState?state=open",
            "hal/orders/search/findByState?state=x",
            "hal/orders/2",
            "hal/orders/2/customer",
            "hal/orders/1/items",
            "hal/orders/3/items",
            "hal/customers/8",
            "hal/orderItems/21/product",
            "json-api/articles",
            "json-api/articles?page[number]=2",
            "json-api/people/9",
            "siren/orders",
            "siren/orders?page=2",
            "collection/friends",
            "collection/friends?page=2",
            "odata/Products",
            "odata/Products?$skiptoken=2",
        ] {
            let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
            let segments: Vec<&str> = path.split('/').collect();
            let reply = answer(&Method::GET, &segments, query, &HeaderMap::new()).expect(target);
            let body = reply.into_body().collect().await.expect("whole").to_bytes();
            let document: serde_json::Value = serde_json::from_slice(&body).expect(target);
            assert!(!document.to_string().contains("{base}"), "{document}");
        }
        assert!(answer(&Method::GET, &["hal", "orders", "9"], None, &HeaderMap::new()).is_none());
    }
}
