//! A client that starts at the entry and follows every link, of servers that write their own addresses.

use std::collections::{HashSet, VecDeque};
use std::io::Write;
use std::net::TcpStream;

use super::Client;
use super::stage::front::{self, Scene};
use super::stage::shop::{self, Asked, Shop};

/// Orders of the server like Spring Data REST, articles of the one like Django REST framework, and of the one with JSON:API.
const ITEMS: usize = 1_650;

/// Items on a page.
const PAGE: usize = 25;

/// Its documents have links with its own address, and paths; nothing is set for a gateway.
fn server() -> Shop {
    Shop::open(|asked, stream: &mut TcpStream| {
        let here = format!("http://{}", asked.field("host"));
        let (media, body) = document(&here, asked);
        let status = if body.is_empty() { 404 } else { 200 };
        stream.write_all(&shop::answer(status, &format!("content-type: {media}\r\n"), body))
    })
}

fn document(here: &str, asked: &Asked) -> (&'static str, String) {
    let (path, query) = asked.target.split_once('?').unwrap_or((&asked.target, ""));
    let number = |name: &str| {
        let own =
            |pair: &str| pair.split_once('=').filter(|(key, _)| *key == name).and_then(|(_, value)| value.parse().ok());
        query.split('&').find_map(own).unwrap_or(0_usize)
    };
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let id = |text: &str| text.parse::<usize>().ok().filter(|id| *id < ITEMS);
    let body = match segments.as_slice() {
        [""] => entry(here),
        ["api", "orders"] => spring(here, number("page")),
        ["api", "orders", order] => id(order).map(|id| order_of(here, id)).unwrap_or_default(),
        ["articles", ""] => django(here, number("page").max(1)),
        ["articles", article, ""] => id(article).map(|id| article_of(here, id)).unwrap_or_default(),
        ["people"] => json_api(number("page[number]")),
        ["people", person] => id(person).map(person_of).unwrap_or_default(),
        ["feed.xml"] => return ("application/atom+xml", feed(here)),
        _ => String::new(),
    };
    let media = match segments.first() {
        Some(&"api") => "application/hal+json",
        Some(&"people") => "application/vnd.api+json",
        _ => "application/json",
    };
    (media, body)
}

fn entry(here: &str) -> String {
    format!(
        r#"{{"_links":{{"orders":{{"href":"{here}/api/orders{{?page,size,sort}}","templated":true}},"people":{{"href":"/people"}}}},
           "articles":"{here}/articles/","feed":"{}"}}"#,
        format!("{here}/feed.xml").replace('/', "\\/")
    )
}

fn spring(here: &str, page: usize) -> String {
    let items: Vec<String> = page_of(page).map(|id| order_of(here, id)).collect();
    let pages = ITEMS.div_ceil(PAGE);
    let next = match page + 1 < pages {
        true => format!(r#","next":{{"href":"{here}/api/orders?page={}&size={PAGE}"}}"#, page + 1),
        false => String::new(),
    };
    format!(
        r#"{{"_embedded":{{"orders":[{}]}},"_links":{{"first":{{"href":"{here}/api/orders?page=0&size={PAGE}"}},
           "self":{{"href":"{here}/api/orders{{?page,size}}","templated":true}}{next}}}}}"#,
        items.join(",")
    )
}

fn order_of(here: &str, id: usize) -> String {
    format!(
        r#"{{"total":{id}.50,"_links":{{"self":{{"href":"{here}/api/orders/{id}"}},"all":{{"href":"/api/orders"}}}}}}"#
    )
}

fn django(here: &str, page: usize) -> String {
    let items: Vec<String> = page_of(page - 1).map(|id| article_of(here, id)).collect();
    let link = |page: usize| format!(r#""{here}/articles/?page={page}""#);
    let next = if page < ITEMS.div_ceil(PAGE) { link(page + 1) } else { "null".to_owned() };
    let previous = if page > 1 { link(page - 1) } else { "null".to_owned() };
    format!(r#"{{"count":{ITEMS},"next":{next},"previous":{previous},"results":[{}]}}"#, items.join(","))
}

fn article_of(here: &str, id: usize) -> String {
    format!(
        r#"{{"url":"{here}/articles/{id}/","title":"at {here}/, not a link","author":"{here}/articles/{}/"}}"#,
        id / 2
    )
}

fn json_api(page: usize) -> String {
    let items: Vec<String> = page_of(page).map(person_of).collect();
    let next = match page + 1 < ITEMS.div_ceil(PAGE) {
        true => format!(r#""/people?page[number]={}""#, page + 1),
        false => "null".to_owned(),
    };
    format!(r#"{{"data":[{}],"links":{{"self":"/people","next":{next}}}}}"#, items.join(","))
}

fn person_of(id: usize) -> String {
    format!(
        r#"{{"type":"people","id":"{id}","links":{{"self":"/people/{id}"}},
           "relationships":{{"articles":{{"links":{{"related":{{"href":"/articles/{id}/","meta":{{"count":1}}}}}}}}}}}}"#
    )
}

fn feed(here: &str) -> String {
    let entries: String = (0..PAGE)
        .map(|id| format!(r#"<entry><id>{here}/articles/{id}/</id><link rel="alternate" href="/articles/{id}/?a=1&amp;b=2"/></entry>"#))
        .collect();
    format!(
        r#"<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><link rel="self" href="{here}/feed.xml"/>{entries}</feed>"#
    )
}

fn page_of(page: usize) -> std::ops::Range<usize> {
    (page * PAGE).min(ITEMS)..((page + 1) * PAGE).min(ITEMS)
}

/// The links of a document as a client finds them: URLs of the gateway, and paths in quotes.
fn links(text: &str) -> impl Iterator<Item = String> {
    let urls = text.split(['"', '<', '>']).filter_map(|text| plain(text).strip_prefix(HERE).map(str::to_owned));
    let paths =
        text.split('"').map(plain).filter(|text| text.starts_with('/') && text.len() > 1 && !text.contains(['<', '>']));
    // A template without variables.
    urls.chain(paths).map(|path| path.split('{').next().unwrap_or_default().to_owned())
}

/// The base URL by which a client calls the gateway.
const HERE: &str = "http://gateway.test";

fn plain(text: &str) -> String {
    text.replace("\\/", "/").replace("&amp;", "&")
}

#[test]
fn every_link_of_the_usual_servers_leads_back_through_the_gateway() {
    let shop = server();
    let config = "upstreams:\n  shop: { url: 'http://${SHOP}', links: public }\n\
                  endpoints:\n  /shop/{*path}: shop /{*path}?*\n";
    let scene = Scene::new(config, &shop);
    let inside = shop.address.to_string();
    let mut seen = HashSet::from(["/shop/".to_owned()]);
    let mut open = VecDeque::from(["/shop/".to_owned()]);
    let mut client = Client::connect(scene.gateway.address).unwrap();
    while let Some(target) = open.pop_front() {
        let answer = front::get(&mut client, &target, "host: gateway.test\r\n");
        assert_eq!(answer.head.status, 200, "{target}");
        let text = answer.text();
        let told = text.replace(&format!("at http://{inside}/, not a link"), "");
        assert!(!told.contains(&inside), "{target}: {told:.2000}");
        for link in links(text) {
            assert!(link.starts_with("/shop/"), "{target} has {link}");
            if seen.insert(link.clone()) {
                open.push_back(link);
            }
        }
    }
    let followed = seen.len();
    assert!(followed >= 5_000, "{followed} links were found");
    assert_eq!(shop.calls(), followed);
    let counted = scene.metric("crocodile_pear_upstream_links_unserved_total");
    assert_eq!(counted, 0);
}
