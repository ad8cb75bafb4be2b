//! A real oauth2-proxy decides who may pass.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::stage::Program;
use crate::stage::ports::free_port;
use crate::stage::shop::{Shop, answer};

use crate::authentication::scene::{folder, gateway, post, send, until};

/// Where `.ci/run` puts programs of others.
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/programs");

/// `ada:secret`, as `htpasswd -s` writes it.
const USERS: &str = "ada:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n";

struct Proxy {
    _program: Program,
    address: SocketAddr,
}

impl Proxy {
    /// Starts one; `None` where it cannot be had.
    fn start(folder: &Path) -> Option<Self> {
        let program = [PathBuf::from("oauth2-proxy"), Path::new(PROGRAMS).join("oauth2-proxy")];
        let runs = |program: &&PathBuf| {
            let version = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            version.is_ok_and(|status| status.success())
        };
        let Some(program) = program.iter().find(runs) else {
            crate::stage::skip("oauth2-proxy");
            return None;
        };
        let users = folder.join("htpasswd");
        fs::write(&users, USERS).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let child = Command::new(program)
            .args(["--provider=github", "--client-id=app", "--client-secret=none", "--email-domain=*"])
            .args(["--cookie-secret=0123456789abcdef0123456789abcdef", "--cookie-secure=false"])
            .args(["--upstream=static://202", "--reverse-proxy=true", "--set-xauthrequest=true"])
            .args(["--skip-provider-button=true", &format!("--http-address={address}")])
            .arg(format!("--htpasswd-file={}", users.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let proxy = Proxy { _program: Program(child), address };
        until(|| TcpStream::connect(proxy.address).is_ok());
        Some(proxy)
    }
}

#[test]
fn oauth2_proxy_lets_its_users_pass_and_sends_others_to_their_login() {
    let Some(proxy) = Proxy::start(&folder("sso")) else { return };
    let app = Shop::open(|asked, stream| {
        let said = format!("{} {}", asked.field("x-auth-request-user"), asked.field("x-auth-request-groups"));
        stream.write_all(&answer(200, "content-type: text/plain\r\n", said))
    });
    let config = format!(
        "
upstreams:
  sso: {{ url: 'http://{}', forward: all, rewrite: off }}
  app: {{ url: 'http://{}', forward: all }}
endpoints:
  /oauth2/{{*path}}: sso /oauth2/{{*path}}?*
  /api/{{*path}}:
    authenticate: [ {{ forward: {{ to: sso, path: /oauth2/auth, keep: [x-auth-request-user, x-auth-request-groups] }} }} ]
    pipeline: [ {{ request: 'app /{{*path}}' }} ]
  /app/{{*path}}:
    authenticate: [ {{ forward: {{ to: sso, keep: [x-auth-request-user] }} }} ]
    pipeline: [ {{ request: 'app /{{*path}}' }} ]
",
        proxy.address, app.address
    );
    let gateway = gateway("sso", &config);
    let forged = "x-auth-request-user: root".to_owned();
    assert_eq!(send(&gateway, "GET /api/a", std::slice::from_ref(&forged)).status, 401);
    let login = send(&gateway, "GET /app/page?a=b", std::slice::from_ref(&forged));
    assert_eq!(login.status, 302);
    assert!(
        login.head.to_lowercase().contains("location: https://github.com/login/oauth/authorize?"),
        "{}",
        login.head
    );
    assert_eq!(app.calls(), 0);
    let entered = post(&gateway, "/oauth2/sign_in", "username=ada&password=secret&rd=/app/page");
    assert_eq!(entered.status, 302, "{}", entered.head);
    let lines = entered.head.lines().map(str::to_owned);
    let cookies = lines.filter(|line| line.to_lowercase().starts_with("set-cookie: _oauth2_proxy="));
    let cookie = cookies.map(|line| line[12..].split(';').next().unwrap().to_owned()).next_back().unwrap();
    for path in ["/api/a", "/app/page"] {
        let fields = [format!("cookie: {cookie}"), forged.clone(), "x-auth-request-groups: admin".to_owned()];
        let passed = send(&gateway, &format!("GET {path}"), &fields);
        let groups = if path == "/api/a" { "ada " } else { "ada admin" };
        assert_eq!((passed.status, &*passed.body), (200, groups), "{}", passed.head);
    }
    let wrong = [format!("cookie: {cookie}x")];
    assert_eq!(send(&gateway, "GET /api/a", &wrong).status, 401);
    drop(proxy);
    assert_eq!(send(&gateway, "GET /api/a", &[format!("cookie: {cookie}")]).status, 502);
    assert_eq!(app.calls(), 2);
}
