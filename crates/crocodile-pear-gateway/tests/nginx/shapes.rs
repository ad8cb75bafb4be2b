//! The shapes of servers: each feature of `features.json` alone, and each two of them that fit together.

use serde_json::Value;

/// A server, and what it is made of.
#[derive(Clone)]
pub struct Shape {
    pub name: String,
    host: String,
    location: String,
    pass: Option<String>,
    inside: Vec<String>,
    server: Vec<String>,
    more: Vec<String>,
    paths: Vec<String>,
    only_post: bool,
}

/// Directives that may stand in one block several times.
const REPEATED: [&str; 6] = ["proxy_set_header", "add_header", "set", "allow", "deny", "location"];

impl Shape {
    /// Whether it is made of a feature with this name.
    pub fn has(&self, name: &str) -> bool {
        self.name.split(" + ").any(|part| part == name)
    }

    /// Whether one of its features begins so.
    pub fn begins(&self, name: &str) -> bool {
        self.name.split(" + ").any(|part| part.starts_with(name))
    }

    /// The server.
    pub fn server(&self, listen: &str) -> String {
        let pass = self.pass.as_ref().map(|pass| format!("proxy_pass {pass};")).unwrap_or_default();
        let (server, more, inside) =
            (self.server.join("\n    "), self.more.join("\n    "), self.inside.join("\n        "));
        format!(
            "server {{\n    listen {listen};\n    server_name {};\n    {server}\n    {more}\n    location {} {{\n        {inside}\n        {pass}\n    }}\n}}\n",
            self.host, self.location,
        )
    }

    /// The requests for it.
    pub fn requests(&self) -> Vec<String> {
        let [first, second, third] = [0, 1, 2].map(|at| self.paths[at].as_str());
        let fields = "X-A: 1\r\nX-Client: HOST\r\nAuthorization: Basic YWRhOnNlY3JldA==\r\nAccept-Language: sv\r\nCookie: c=1; d=2\r\nAccept-Encoding: gzip\r\n";
        let fields = fields.replace("HOST", &self.host);
        let fields = fields.as_str();
        let body = "Content-Type: application/json\r\nContent-Length: 8\r\n\r\n{\"in\":1}";
        let get = |path: &str, fields: &str| format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{fields}\r\n", self.host);
        let post = |path: &str, fields: &str| format!("POST {path} HTTP/1.1\r\nHost: {}\r\n{fields}{body}", self.host);
        if self.only_post {
            return [first, second, third, first, "/elsewhere"].map(|path| post(path, fields)).to_vec();
        }
        vec![
            get(first, ""),
            get(&format!("{second}?q=1&r=a%20b"), fields),
            post(first, fields),
            get(&format!("{third}?x=%2F&q="), "X-A: two\r\n"),
            get("/elsewhere", fields),
        ]
    }
}

/// The pairs in which a rule of one location must not be lost behind another: each was once.
const ALWAYS: [&str; 8] = [
    "no password here + named fallback",
    "methods + named fallback",
    "body limit + named fallback",
    "gzip + named fallback",
    "prefix + rewrite to another location + methods",
    "regex of alternatives + alternatives in the path + rewrite without query",
    "regex of alternatives + service refuses",
    "fixed path of a variable + cache",
];

/// All of them, or of the pairs one in so many.
pub fn all(one_in: usize) -> Vec<Shape> {
    let features: Vec<Value> = serde_json::from_str(include_str!("features.json")).unwrap();
    let named = |name: &str| features.iter().find(|feature| feature["name"] == name).unwrap();
    let mut shapes: Vec<Shape> = Vec::new();
    let mut pairs = 0;
    for (at, one) in features.iter().enumerate() {
        let needs = |feature: &Value| feature["needs"].as_str().map(named);
        let mut single: Vec<&Value> = needs(one).into_iter().collect();
        single.push(one);
        shapes.extend(shape(&single, shapes.len()));
        if at == 0 {
            continue;
        }
        for other in &features[at + 1..] {
            let mut both = single.clone();
            both.extend(needs(other).filter(|needed| !both.iter().any(|known| known["name"] == needed["name"])));
            if !both.iter().any(|known| known["name"] == other["name"]) {
                both.push(other);
            }
            if let Some(shape) = shape(&both, shapes.len()) {
                pairs += 1;
                if pairs % one_in == 0 || ALWAYS.contains(&&*shape.name) {
                    shapes.push(shape);
                }
            }
        }
    }
    shapes
}

/// A server with these features, unless one contradicts the other.
fn shape(features: &[&Value], number: usize) -> Option<Shape> {
    let one = |key: &str| -> Option<Option<String>> {
        let mut values: Vec<&str> = features.iter().filter_map(|feature| feature[key].as_str()).collect();
        values.dedup();
        (values.len() < 2).then(|| values.first().map(|value| (*value).to_owned()))
    };
    let list = |key: &str| -> Vec<String> {
        let lists = features.iter().filter_map(|feature| feature[key].as_array()).flatten();
        lists.filter_map(|text| Some(text.as_str()?.to_owned())).collect()
    };
    let twice = |lines: &[String]| {
        let keys: Vec<&str> = lines.iter().map(|line| key(line)).collect();
        (0..keys.len()).any(|at| keys[..at].contains(&keys[at]))
    };
    let paths = features.iter().filter(|feature| feature["paths"].is_array()).count();
    let nopass = features.iter().any(|feature| feature["nopass"] == true);
    let (location, pass) = (one("location")?, one("pass")?);
    let (inside, server, more) = (list("in"), list("server"), list("more"));
    if paths > 1 || (nopass && pass.is_some()) || twice(&inside) || twice(&server) || twice(&more) {
        return None;
    }
    let location = location.unwrap_or_else(|| "/".to_owned());
    // nginx refuses a path there.
    let has_path = pass.as_ref().is_some_and(|pass| pass.splitn(4, '/').nth(3).is_some() && !pass.contains('$'));
    let nested = inside.iter().any(|line| line.starts_with("location"));
    let ended = inside.iter().filter(|line| line.starts_with("return") || line.starts_with("rewrite")).count();
    if location.starts_with('~') && (has_path || nested) || ended > 1 || (nested && ended > 0) {
        return None;
    }
    let mut paths: Vec<String> = features.iter().find_map(|feature| feature["paths"].as_array()).map_or_else(
        || ["/json", "/a/b", "/c"].map(str::to_owned).to_vec(),
        |paths| paths.iter().filter_map(|path| Some(path.as_str()?.to_owned())).collect(),
    );
    paths.resize(3, "/c".to_owned());
    let names: Vec<&str> = features.iter().filter_map(|feature| feature["name"].as_str()).collect();
    Some(Shape {
        name: names.join(" + "),
        host: format!("s{number}.example"),
        location,
        pass: (!nopass).then(|| pass.unwrap_or_else(|| "http://UP".to_owned())),
        inside,
        server,
        more,
        paths,
        only_post: features.iter().any(|feature| feature["methods"] == "POST"),
    })
}

/// The part that may not be there twice: the directive, or for those that may be repeated, with its first argument.
fn key(line: &str) -> &str {
    let words: Vec<&str> = line.split([' ', ';']).collect();
    match REPEATED.contains(&words[0]) {
        true if line.starts_with("allow") || line.starts_with("deny") => "access",
        true if line.starts_with("add_header X-Two") => line,
        true => {
            let end = words[0].len() + 1 + words[1].len();
            &line[..end]
        }
        false => words[0],
    }
}
