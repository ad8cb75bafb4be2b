//! h2spec, which tries the rules of RFC 9113 and RFC 7541 one by one, in its strict mode.
//! <https://github.com/summerwind/h2spec>

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::http2::scene::Scene;
use crate::stage::authority::Authority;

/// Where h2spec is: that of the machine, or one that is built, as `h2spec/go.mod` has it; nothing without Go.
fn program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        if Command::new("h2spec").arg("--version").output().is_ok() {
            return Some("h2spec".into());
        }
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("h2spec");
        let build = |go: &str| {
            let mut build = Command::new(go);
            build.args(["build", "-mod=mod", "-o"]).arg(&target).arg("github.com/summerwind/h2spec/cmd/h2spec");
            let built = build.current_dir("tests/http2/h2spec").env("GOTOOLCHAIN", "local").output().ok()?;
            assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
            Some(target.clone())
        };
        ["go", "/usr/local/go/bin/go"].into_iter().find_map(build)
    });
    if built.is_none() {
        assert!(std::env::var_os("CI").is_none(), "h2spec cannot be built: install Go");
        // Past the capture of the harness: who runs the tests is to see it.
        let _ = std::io::stderr().write_all(b"skipped: install Go, which builds h2spec\n");
    }
    built.as_deref()
}

fn conforms(program: &Path, address: SocketAddr, more: &[&str]) {
    let mut spec = Command::new(program);
    spec.args(["--strict", "-h", "127.0.0.1", "-p", &address.port().to_string()]).args(more);
    let output = spec.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("146 tests, 146 passed, 0 skipped, 0 failed"), "{said}");
}

/// An endpoint that answers at once, and one that calls an upstream before. Some rules need more than the three bytes of the upstream.
const ENDPOINTS: [&str; 2] = [
    "{ pipeline: [{ respond: { body: '\"hello\"' } }] }",
    "{ pipeline: [{ request: shop / }, { respond: { body: '\"hello\"' } }] }",
];

#[test]
fn every_rule_is_kept_in_clear_and_over_tls() {
    let Some(program) = program() else { return };
    let identity = Authority::new().sign(&["localhost"]);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::write(folder.join("h2spec.pem"), identity.certificate.pem()).unwrap();
    fs::write(folder.join("h2spec.key"), identity.key.serialize_pem()).unwrap();
    for (at, endpoint) in ENDPOINTS.iter().enumerate() {
        for (tls, more) in [("", &[][..]), (", tls: { certificate: h2spec.pem, key: h2spec.key }", &["-t", "-k"])] {
            let scene = Scene::with(&format!("h2spec_{at}"), |upstream| {
                format!(
                    "listen: {{ address: '127.0.0.1:0'{tls} }}\nupstreams: {{ shop: 'http://{upstream}' }}\n\
                     endpoints: {{ /: {endpoint} }}\n"
                )
            });
            conforms(program, scene.address, more);
        }
    }
}
