//! The shapes of endpoints: each feature of `features.json` alone, and pairs of them that fit together.

use serde_json::{Value, json};

/// An endpoint, and what it is made of.
#[derive(Clone)]
pub struct Shape {
    pub name: String,
    pub endpoint: Value,
    method: String,
    path: String,
}

impl Shape {
    /// Whether it is made of a feature with this name.
    pub fn has(&self, name: &str) -> bool {
        self.name.split(" + ").any(|part| part == name)
    }

    /// The requests for it.
    pub fn requests(&self) -> Vec<String> {
        let fields = [
            "",
            "X-A: 1\r\nX-B: 2\r\nAuthorization: Bearer x\r\nAccept-Language: sv\r\nCookie: c=1\r\n",
            "",
            "",
            "X-A: 1\r\n",
        ];
        let queries = ["", "", "?q=1&r=2&q=3", "?q=a%20b&r=%C3%A9&s=1", "?r=&q=%2F"];
        let body = match self.method.as_str() {
            "POST" => "Content-Type: application/json\r\nContent-Length: 8\r\n\r\n{\"in\":1}",
            _ => "\r\n",
        };
        let request = |(query, fields): (&str, &str)| {
            format!("{} {}{query} HTTP/1.1\r\nHost: gateway\r\n{fields}{body}", self.method, self.path)
        };
        queries.into_iter().zip(fields).map(request).collect()
    }
}

/// The shape of each feature alone, and of one in so many pairs of features.
pub fn all(one_in: usize) -> Vec<Shape> {
    let features: Vec<Value> = serde_json::from_str(include_str!("features.json")).unwrap();
    let mut shapes: Vec<Shape> = Vec::new();
    let mut pairs = 0;
    for (at, one) in features.iter().enumerate() {
        shapes.extend(shape(&[one], shapes.len()));
        for other in features.get(at + 1..).unwrap_or_default().iter().filter(|_| at > 0) {
            if let Some(shape) = shape(&[one, other], shapes.len()) {
                pairs += 1;
                shapes.extend((pairs % one_in == 0).then_some(shape));
            }
        }
    }
    shapes
}

/// An endpoint with these features, unless one contradicts the other.
fn shape(features: &[&Value], number: usize) -> Option<Shape> {
    let mut whole = json!({"endpoint": {}, "backend": {}});
    for feature in features {
        merge(&mut whole, feature)?;
    }
    let mut endpoint = whole["endpoint"].take();
    let mut first = whole["backend"].take();
    if first.get("url_pattern").is_none() {
        first["url_pattern"] = "/json".into();
    }
    let second = whole.get("second").cloned();
    let proxied = endpoint["output_encoding"] == "no-op";
    if (first["encoding"] == "no-op") != proxied || (proxied && second.is_some()) {
        return None;
    }
    let more = whole["path"].as_str().unwrap_or_default();
    endpoint["endpoint"] = format!("/e{number}{more}").into();
    endpoint["backend"] = std::iter::once(first).chain(second).collect();
    let names: Vec<&str> = features.iter().filter_map(|feature| feature["name"].as_str()).collect();
    Some(Shape {
        name: names.join(" + "),
        method: endpoint["method"].as_str().unwrap_or("GET").to_owned(),
        path: format!("/e{number}{}", if more.is_empty() { "" } else { "/42" }),
        endpoint,
    })
}

/// Adds what the other has; none if both have another value in the same place.
fn merge(one: &mut Value, other: &Value) -> Option<()> {
    let (Some(map), Some(more)) = (one.as_object_mut(), other.as_object()) else {
        return (one == other).then_some(());
    };
    for (key, value) in more.iter().filter(|(key, _)| *key != "name") {
        match map.get_mut(key) {
            Some(known) => merge(known, value)?,
            None => drop(map.insert(key.clone(), value.clone())),
        }
    }
    Some(())
}
