//! Tailcall: its rows as queries in GraphQL, and what it is told.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::other::{Other, Question};
use super::rows;
use crate::expected::Expected;
use crate::load;

pub const TAILCALL: Other = Other {
    name: "Tailcall",
    program: "tailcall",
    version: "--version",
    install: "Tailcall 1.6, https://github.com/tailcallhq/tailcall/releases",
    setup: "poolMaxIdlePerHost 256, no cache, no batches, log level error; the same answers as fields of GraphQL queries",
    arguments: &["start"],
    // Its log has a line for each call otherwise.
    environment: &[("TAILCALL_LOG_LEVEL", "error"), ("TAILCALL_TRACKER", "false")],
    file: "calls.graphql",
    configure,
    question,
};

/// The fields of a whole detail.
const WHOLE: &str = "id text links { rel href } value";

/// The configuration of a fast setup: workers for all cores, which is its default, and enough kept connections.
fn configure(listen: SocketAddr, upstream: SocketAddr) -> String {
    let (host, port) = (listen.ip(), listen.port());
    format!(
        r#"schema @server(hostname: "{host}", port: {port}) @upstream(poolMaxIdlePerHost: 256) {{
  query: Query
}}

type Query {{
  user: User @http(url: "http://{upstream}/user")
  detail(id: Int!): Detail @http(url: "http://{upstream}/d/{{{{.args.id}}}}")
  list: Rows @http(url: "http://{upstream}/list")
}}

type User {{
  id: Int
  name: String
  address: Address
}}

type Address {{
  city: String
}}

type Rows {{
  items: [Row]
}}

type Row {{
  id: Int
  name: String
  d: Detail @http(url: "http://{upstream}/d/{{{{.value.id}}}}")
}}

type Detail {{
  id: Int
  text: String
  links: [Relation]
  value: Float
}}

type Relation {{
  rel: String
  href: String
}}
"#
    )
}

fn question(target: &str, host: &str) -> Option<Question> {
    let (query, data) = asked(target)?;
    let body = json!({"query": query}).to_string();
    Some(Question { request: load::post("/graphql", host, &body), expected: Expected::Same(json!({"data": data})) })
}

/// The query, and the data that it must bring.
fn asked(target: &str) -> Option<(String, Value)> {
    Some(match target {
        "/pick" => (
            "{ user { id name address { city } } }".to_owned(),
            json!({"user": {"id": 17, "name": "Marta Silva", "address": {"city": "Porto"}}}),
        ),
        "/merge" => (
            format!("{{ a: detail(id: 1) {{ id }} b: detail(id: 2) {{ text }} c: detail(id: 3) {{ {WHOLE} }} }}"),
            json!({"a": {"id": 1}, "b": {"text": rows::text(2)}, "c": rows::parsed(3)}),
        ),
        "/ten" => {
            let details = (1..=10).map(|number| format!("d{number}: detail(id: {number}) {{ {WHOLE} }}"));
            let expected = (1..=10).map(|number| (format!("d{number}"), rows::parsed(number))).collect();
            (format!("{{ {} }}", details.collect::<Vec<_>>().join(" ")), expected)
        }
        "/nested" => {
            let items: Vec<Value> = (1..=rows::ITEMS).map(rows::joined).collect();
            ("{ list { items { id name d { text value } } } }".to_owned(), json!({"list": {"items": items}}))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_calls_are_templates() {
        let told = configure(SocketAddr::from(([127, 0, 0, 1], 80)), SocketAddr::from(([127, 0, 0, 2], 81)));
        assert!(told.starts_with(r#"schema @server(hostname: "127.0.0.1", port: 80) "#), "{told}");
        assert!(told.contains(r#"url: "http://127.0.0.2:81/d/{{.args.id}}""#), "{told}");
        assert!(told.contains(r#"url: "http://127.0.0.2:81/d/{{.value.id}}""#), "{told}");
    }

    #[test]
    fn an_answer_stands_below_data() {
        let question = question("/pick", "host").expect("a row of Tailcall");
        let data = br#"{"data":{"user":{"id":17,"name":"Marta Silva","address":{"city":"Porto"}}}}"#;
        assert!(question.expected.matches(data) && !question.expected.matches(&data[8..data.len() - 1]));
    }
}
