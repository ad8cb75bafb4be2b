//! The cases: for each right side of a table, what goes in, what an upstream must get, and what comes back.

use std::fs;
use std::path::{Path, PathBuf};

use crocodile_pear::unstable::config::problem::Span;
use crocodile_pear::unstable::config::spec::{Decode, Entries, Located};
use crocodile_pear::unstable::spec;
use crocodile_pear_gateway::config::{self, Colour, ProblemFormat};

use crate::stage::authority::Authority;
use crate::stage::script::{Acts, Received, Scenario, Step};
use crate::stage::{play, scratch};

spec! {
    /// A file of cases.
    struct Cases {
        /// The cases.
        pub cases: Vec<Case>,
    }
}

spec! {
    /// A right side, and how it is played.
    pub struct Case {
        /// The texts of the row, one a line.
        pub here: String,
        /// Where they are written.
        pub at: String,
        /// Files beside the configuration, besides those of all cases.
        pub files: Option<Entries<String>>,
        /// The answers of the upstreams `api` and `other`; without them, each answers everything.
        pub upstreams: Option<Entries<Entries<Acts>>>,
        /// The requests, in their order.
        pub requests: Vec<Located<Step>>,
        /// The requests that the upstreams must have received.
        pub received: Option<Entries<Vec<Received>>>,
    }
}

/// The addresses under which the pages know their upstreams, and their variables in a scenario.
const UPSTREAMS: [(&str, &str); 2] = [("127.0.0.1:9000", "${API}"), ("127.0.0.1:9001", "${OTHER}")];

/// The addresses under which the pages listen; a test takes free ports.
const LISTENERS: [&str; 3] = ["127.0.0.1:8081", "127.0.0.1:8443", "127.0.0.1:9090"];

/// The variables that the pages read from the environment.
const VARIABLES: [&str; 3] = ["API_TOKEN", "CLIENT_SECRET", "SEARCH_KEY"];

/// All cases, in the order of their files.
pub fn all() -> Vec<Case> {
    crate::files("coming", "yaml").iter().flat_map(|path| read(path)).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/coming")
}

fn read(path: &Path) -> Vec<Case> {
    let text = fs::read_to_string(path).unwrap();
    // The gateway itself fills in its variables.
    let kept = |name: &str| Some(format!("${{{name}}}"));
    let (node, sources, mut problems) = config::parse(&path.display().to_string(), &text, &kept);
    let cases = node.and_then(|node| Cases::decode(&node, &mut problems));
    match cases {
        Some(cases) => cases.cases,
        None => panic!("{}", config::report(&problems.into_sorted(), &sources, ProblemFormat::Text(Colour::Never))),
    }
}

impl Case {
    /// Serves the configuration, and plays what happens.
    pub fn play(&self, number: usize) -> Result<(), String> {
        let folder = scratch("coming").join(number.to_string());
        furnish(&folder);
        let mut config = self.config();
        for (address, variable) in UPSTREAMS {
            config = config.replace(address, variable);
        }
        for address in LISTENERS {
            config = config.replace(address, "127.0.0.1:0");
        }
        let secret = |name: &str| (name.to_owned(), (Span::default(), "secret".to_owned()));
        let scenario = Scenario {
            about: None,
            config: config.clone(),
            files: self.files.clone(),
            environment: Some(VARIABLES.into_iter().map(secret).collect()),
            upstreams: Some(self.upstreams()),
            requests: self.requests.clone(),
            received: self.received.clone(),
            connections: None,
        };
        play::perform(&scenario, folder.join("crocodile-pear.yaml")).map_err(|wrong| format!("{config}\n{wrong}"))
    }

    /// The page's configuration with the texts of the row where they belong.
    fn config(&self) -> String {
        let texts: Vec<&str> = self.here.lines().collect();
        let places: Vec<&str> = self.at.split(", ").collect();
        let at = |index: usize| if places.len() == 1 { places[0] } else { places[index] };
        assert!(places.len() == 1 || places.len() == texts.len(), "{}: {}", self.here, self.at);
        let of = |place: &str, indent: usize| {
            let texts = texts.iter().enumerate().filter(|(index, _)| at(*index) == place);
            texts.map(|(_, text)| format!("{:indent$}{text}\n", "")).collect::<String>()
        };
        let (request, step, endpoint) = (of("call", 0), of("step", 0), of("endpoint", 4));
        let step: String = step.lines().map(|line| format!("      - {line}\n")).collect();
        let mut config = of("top level", 0);
        let listener = of("listener", 2);
        if !listener.is_empty() {
            config += &format!("listen:\n  address: 127.0.0.1:0\n{listener}");
        }
        let upstream = of("upstream", 4);
        let url = if upstream.contains("    servers:") { "" } else { "    url: http://127.0.0.1:9000\n" };
        config += &format!("upstreams:\n  api:\n{url}{upstream}  other: http://127.0.0.1:9001\n{}", of("upstreams", 2));
        let pipeline = match () {
            () if endpoint.contains("    pipeline:") => String::new(),
            () if request.is_empty() => format!("    pipeline:\n      - request: api /{{*path}}?*\n{step}"),
            () => {
                let fields: String = request.lines().map(|line| format!("          {line}\n")).collect();
                let path = if request.contains("path:") { "" } else { "          path: '/{*path}?*'\n" };
                format!("    pipeline:\n      - request:\n          to: api\n{path}{fields}{step}")
            }
        };
        let endpoints = format!("  /api/{{*path}}:\n{endpoint}{pipeline}{}", of("endpoints", 2));
        let group = of("group", 4);
        if group.is_empty() {
            return config + "endpoints:\n" + &unique(&endpoints);
        }
        let endpoints: String = endpoints.lines().map(|line| format!("    {line}\n")).collect();
        config + &format!("groups:\n  shop:\n{group}    endpoints:\n{endpoints}")
    }

    fn upstreams(&self) -> Entries<Entries<Acts>> {
        let mut upstreams = self.upstreams.clone().unwrap_or_default();
        for name in ["api", "other"] {
            upstreams.entry(name.to_owned()).or_insert_with(|| (Span::default(), anything()));
        }
        upstreams
    }
}

/// Every call gets the same answer.
fn anything() -> Entries<Acts> {
    let (node, _, mut problems) = config::parse("", r#"'{"id":7,"name":"Ada"}'"#, &|_| None);
    let acts = node.and_then(|node| Acts::decode(&node, &mut problems)).unwrap();
    Entries::from_iter([("*".to_owned(), (Span::default(), acts))])
}

/// An endpoint of the row replaces the page's own of the same name.
fn unique(endpoints: &str) -> String {
    match endpoints.matches("\n  /api/{*path}:").count() {
        0 => endpoints.to_owned(),
        _ => endpoints.split_once("\n  /api/{*path}:").map(|(_, own)| format!("  /api/{{*path}}:{own}")).unwrap(),
    }
}

/// Writes the files that all pages name: users, keys, a public key, a certificate, a folder of files.
fn furnish(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder.join("public")).unwrap();
    for entry in fs::read_dir(self::folder().join("files")).unwrap().map(|entry| entry.unwrap()) {
        fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    fs::write(folder.join("public/index.html"), "<h1>Shop</h1>").unwrap();
    let authority = Authority::new();
    let identity = authority.sign(&["gateway.test"]);
    fs::write(folder.join("cert.pem"), identity.certificate.pem()).unwrap();
    fs::write(folder.join("key.pem"), identity.key.serialize_pem()).unwrap();
    fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
}
