//! Secrets stay secret: everything that can be said is said, and searched.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::authentication::issuer::Issuer;
use crate::authentication::scene::{bearer, folder, gateway, send};
use crate::authentication::tokens::{Ec, claims, encode, now, sign_hmac, token, with};
use crate::stage::ports::free_address;

const API_KEY: &str = "gold-key-7f3a";
const PASSWORD: &str = "correct-horse-7";
const INTROSPECTION_SECRET: &str = "introspection-s3cret";
const UPSTREAM_SECRET: &str = "upstream-s3cret";
const ACCESS_TOKEN: &str = "access-token-of-the-gateway";
const OPAQUE: &str = "opaque-token-of-a-client";
const HMAC_SECRET: &str = "a-shared-secret-of-some-length-1234";

#[test]
fn nothing_that_the_gateway_says_has_a_secret() {
    let key = Ec::new();
    let jwks = json!({ "keys": [with(key.jwk(), &json!({ "kid": "ec" })), { "kty": "oct", "kid": "hs", "k": encode(HMAC_SECRET) }] });
    let keys = Issuer::start(jwks.to_string());
    let introspection = Issuer::start(json!({ "active": true, "sub": "ada", "exp": now() + 60 }).to_string());
    let tokens = Issuer::start(format!(r#"{{"access_token":"{ACCESS_TOKEN}","token_type":"Bearer","expires_in":60}}"#));
    let shop = Issuer::start("{}");
    let folder = folder("secrets");
    std::fs::write(
        folder.join("keys.yaml"),
        "- { sha256: 8de64ecad507950c005c6e05fe6d2e67664b16ddc5e2d93cf6622098f90ee8eb }\n",
    )
    .unwrap();
    std::fs::write(folder.join("users"), r"ada:$2y$04$iF2pwid41Z6xfORn.dvEP.7ZyMCq/dFZ2PCoa9D2hlCf5YusrT/Oe").unwrap();
    let config = format!(
        "admin: 127.0.0.1:0
log: {{ level: debug, access: true, timers: true }}
authenticate:
  - api_key: {{ header: x-api-key, keys: keys.yaml }}
  - api_key: {{ query: key, keys: keys.yaml }}
  - api_key: {{ cookie: session, keys: keys.yaml }}
  - jwt: {{ issuer: 'https://id.example', audience: shop, keys: '{}', algorithms: [ES256, HS256] }}
  - basic: {{ users: users }}
  - introspection: {{ url: 'http://{}/i', client_id: gateway, client_secret: {INTROSPECTION_SECRET} }}
upstreams:
  shop:
    url: 'http://{}'
    forward: all
    credentials: {{ oauth2: {{ token_url: 'http://{}/t', client_id: g, client_secret: {UPSTREAM_SECRET} }} }}
endpoints:
  /api/{{*path}}: shop /{{*path}}?*
  GET /read: {{ pipeline: [request: shop /a, timer: read, transform: '.a.b.c | tonumber'] }}
  GET /never: {{ allow: '$claims.n > ($headers[\"x-api-key\"] | tonumber)', pipeline: [request: shop /a] }}
",
        keys.url(),
        introspection.address,
        shop.address,
        tokens.address,
    );
    let gateway = gateway("secrets", &config);
    let header = r#"{"alg":"ES256","kid":"ec"}"#;
    let jwt = token(header, &claims().to_string(), |text| key.sign(text));
    let hs =
        token(r#"{"alg":"HS256","kid":"hs"}"#, &claims().to_string(), |text| sign_hmac(HMAC_SECRET.as_bytes(), text));
    let expired = token(header, &json!({ "exp": 1 }).to_string(), |text| key.sign(text));
    let basic = STANDARD.encode(format!("ada:{PASSWORD}"));
    let wrong = STANDARD.encode("ada:wrong-password-of-ada");
    let mut said = String::new();
    for path in ["/api/a", "/read", "/never", "/nowhere"] {
        for fields in [
            format!("x-api-key: {API_KEY}"),
            format!("cookie: session={API_KEY}"),
            format!("authorization: Bearer {jwt}"),
            format!("authorization: Bearer {hs}"),
            format!("authorization: Bearer {expired}"),
            format!("authorization: Bearer {OPAQUE}"),
            format!("authorization: Basic {basic}"),
            format!("authorization: Basic {wrong}"),
            format!("authorization: {jwt}"),
            "x-api-key: wrong-key-of-ada".to_owned(),
        ] {
            let answer = send(&gateway, &format!("GET {path}"), &[fields]);
            said += &format!("{}\n{}\n", answer.head, answer.body);
        }
        let answer = send(&gateway, &format!("GET {path}?key={API_KEY}"), &[]);
        said += &format!("{}\n{}\n", answer.head, answer.body);
    }
    // Everything that can fail fails.
    for server in [&keys, &introspection, &tokens, &shop] {
        server.answers(500, "{\"error\":\"x\"}");
    }
    shop.needs("nobody");
    for fields in [
        format!("x-api-key: {API_KEY}"),
        format!("authorization: Bearer {OPAQUE}-2"),
        format!("authorization: Basic {basic}"),
    ] {
        let answer = send(&gateway, "GET /api/a", &[fields]);
        said += &format!("{}\n{}\n", answer.head, answer.body);
    }
    let kid = token(r#"{"alg":"ES256","kid":"unknown"}"#, &claims().to_string(), |text| key.sign(text));
    said += &bearer(&gateway, "GET /api/a", &kid).body;
    // A request that cannot be read.
    let mut stream = TcpStream::connect(gateway.address).unwrap();
    write!(
        stream,
        "GET /api/a?key={API_KEY} HTTP/1.1\r\nhost: h\r\nx-api-key: {API_KEY}\r\nbad field: {API_KEY}\r\n\r\n"
    )
    .unwrap();
    let mut refused = String::new();
    stream.read_to_string(&mut refused).unwrap();
    said += &refused;

    let mut metrics = TcpStream::connect(gateway.admin().unwrap()).unwrap();
    write!(metrics, "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    metrics.read_to_string(&mut said).unwrap();
    // The same configuration with a problem on the lines of its secrets.
    let broken =
        config.replace("client_id: g,", "client_idd: g,").replace("client_id: gateway,", "client_idd: gateway,");
    std::fs::write(folder.join("broken.yaml"), broken).unwrap();
    std::fs::write(
        folder.join("syntax.yaml"),
        config.replace(
            &format!("client_secret: {INTROSPECTION_SECRET} }}"),
            &format!("client_secret: {INTROSPECTION_SECRET}, ,,"),
        ),
    )
    .unwrap();
    for arguments in [
        ["explain", "gateway.yaml"],
        ["check", "gateway.yaml"],
        ["check", "broken.yaml"],
        ["check", "syntax.yaml"],
        ["run", "broken.yaml"],
    ] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_crocodile-pear")).args(arguments).current_dir(&folder).output().unwrap();
        said += &String::from_utf8_lossy(&[output.stdout, output.stderr].concat());
    }
    std::fs::write(folder.join("gateway.yaml"), std::fs::read_to_string(folder.join("broken.yaml")).unwrap()).unwrap();
    gateway.signal("HUP").unwrap();
    gateway.logged("*the configuration has problems*").unwrap();
    said += &gateway.said();

    assert!(said.contains("crocodile_pear_responses_total") && said.contains("path=\"/api/a\""), "{said}");
    let parts = |token: &str| token.split('.').skip(1).map(str::to_owned).collect::<Vec<_>>();
    let secrets = [API_KEY, PASSWORD, INTROSPECTION_SECRET, UPSTREAM_SECRET, ACCESS_TOKEN, OPAQUE, HMAC_SECRET];
    let made = [basic, wrong, "wrong-password-of-ada".to_owned(), "wrong-key-of-ada".to_owned(), encode(HMAC_SECRET)];
    let encoded =
        [STANDARD.encode(format!("gateway:{INTROSPECTION_SECRET}")), STANDARD.encode(format!("g:{UPSTREAM_SECRET}"))];
    let secrets = secrets.iter().map(|secret| (*secret).to_owned()).chain(made).chain(encoded);
    let secrets = secrets.chain([&jwt, &hs, &expired, &kid].into_iter().flat_map(|token| parts(token)));
    for secret in secrets {
        let line = said.lines().find(|line| line.contains(&secret));
        assert_eq!(line, None, "{secret}");
    }
}

/// The example as it is, at each level of the log.
#[test]
fn the_one_entry_to_a_private_network_says_no_secret() {
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let example = std::fs::read_to_string(examples.join("dmz.yaml")).unwrap();
    let token = example.split("Bearer ").nth(1).unwrap().split('\'').next().unwrap();
    let shop = Issuer::start("{\"id\":7,\"name\":\"Joe Lund\"}");
    for level in ["error", "warn", "info", "debug"] {
        let folder = folder(&format!("secrets-dmz-{level}"));
        std::fs::create_dir_all(folder.join("files")).unwrap();
        for file in ["dmz-issuer.pem", "dmz-keys.yaml"] {
            std::fs::copy(examples.join("files").join(file), folder.join("files").join(file)).unwrap();
        }
        let config = example
            .replace(
                "${LISTEN:-127.0.0.1:8081}",
                &format!("127.0.0.1:0\nadmin: 127.0.0.1:0\nlog: {{ level: {level}, access: true, timers: true }}"),
            )
            .replace("${UPSTREAMS:-http://127.0.0.1:9000}", &format!("http://{}", shop.address));
        // Its comments are commands with the very token.
        let config: String =
            config.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
        let (admin, listen) = (free_address(), free_address());
        // At `error` no line says where it listens.
        let config = config.replace("listen: 127.0.0.1:0", &format!("listen: {listen}"));
        let config = config.replace("admin: 127.0.0.1:0", &format!("admin: {admin}"));
        std::fs::write(folder.join("dmz.yaml"), config).unwrap();
        let (mut said, mut answers) = (String::new(), String::new());
        for command in ["check", "explain"] {
            let program = Command::new(env!("CARGO_BIN_EXE_crocodile-pear"));
            said += &printed(program, &[command, "dmz.yaml"], &folder);
        }
        let mut program = Command::new(env!("CARGO_BIN_EXE_crocodile-pear"));
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let mut gateway = program.args(["run", "dmz.yaml"]).current_dir(&folder).stderr(log).spawn().unwrap();
        for path in [
            "/v1/users/7",
            "/v2/users/7",
            "/weather/Lund,SE",
            "/v3/users/7",
            "/nowhere",
            "/v2/users/7?key=partner-key-1",
        ] {
            for field in [
                format!("authorization: Bearer {token}"),
                format!("authorization: Bearer {token}x"),
                "authorization: Basic cGFydG5lci1rZXktMTpx".to_owned(),
                "x-api-key: partner-key-1".to_owned(),
                "x-api-key: partner-key-2".to_owned(),
            ] {
                answers += &exchange(listen, path, &field);
            }
        }
        assert!(answers.contains("HTTP/1.1 200") && answers.contains("HTTP/1.1 401"), "{answers}");
        let metrics = exchange(admin, "/metrics", "accept: */*");
        for counted in [
            "method=\"jwt\",result=\"granted\"",
            "method=\"api_key\",result=\"refused\"",
            "method=\"none\",result=\"missing\"",
        ] {
            let line = metrics.lines().find(|line| line.contains(counted)).unwrap();
            assert!(!line.ends_with(" 0"), "{line}");
        }
        said += &metrics;
        for page in ["/health", "/ready", "/cache", "/nowhere"] {
            said += &exchange(admin, page, "accept: */*");
        }
        gateway.kill().unwrap();
        gateway.wait().unwrap();
        said += &std::fs::read_to_string(folder.join("log")).unwrap();
        said += &answers;
        let parts = token.split('.').skip(1);
        for secret in parts.chain(["partner-key-1", "partner-key-2", "cGFydG5lci1rZXktMTpx"]) {
            // In the access log a query is not written.
            let line = said.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "{level}: {secret}");
        }
    }
}

fn printed(mut program: Command, arguments: &[&str], folder: &std::path::Path) -> String {
    let output = program.args(arguments).current_dir(folder).output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Sends a GET as soon as somebody listens, and reads to the end of the connection.
fn exchange(address: std::net::SocketAddr, path: &str, field: &str) -> String {
    let mut stream =
        crate::stage::found(|| TcpStream::connect(address).ok(), || format!("nobody listens on {address}"));
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n{field}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
