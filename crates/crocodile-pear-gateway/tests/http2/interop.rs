//! gRPC's own interoperability cases: grpc-go's client, through the gateway, to grpc-go's server, in clear and over TLS.
//! <https://github.com/grpc/grpc/blob/master/doc/interop-test-descriptions.md>

mod java;

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::http2::scene::Scene;
use crate::stage::authority::Authority;
use crate::stage::{Program, until};

const CASES: [&str; 16] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
    "orca_per_rpc",
    "orca_oob",
];

/// Without it the client reads no reports of load.
const REPORTS: &str = r#"{"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}"#;

/// A program of grpc-go, built as `interop/go.mod` has it; nothing without Go.
fn program(name: &str) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("interop-{name}"));
    let build = |go: &str| {
        let mut build = Command::new(go);
        build.args(["build", "-mod=mod", "-o"]).arg(&target).arg(format!("google.golang.org/grpc/interop/{name}"));
        let built = build.current_dir("tests/http2/interop").env("GOTOOLCHAIN", "local").output().ok()?;
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Some(target.clone())
    };
    let built = ["go", "/usr/local/go/bin/go"].into_iter().find_map(build);
    if built.is_none() {
        assert!(std::env::var_os("CI").is_none(), "gRPC's cases cannot be built: install Go");
        let _ = std::io::stderr().write_all(b"skipped: install Go, which builds gRPC's interoperability cases\n");
    }
    built
}

/// A server of the cases.
struct Server {
    _program: Program,
    address: SocketAddr,
}

impl Server {
    /// grpc-go's.
    fn begin(program: &Path) -> Self {
        Server::of(Command::new(program))
    }

    fn of(mut command: Command) -> Self {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = command.arg(format!("--port={}", address.port())).stderr(Stdio::null()).spawn().unwrap();
        let server = Server { _program: Program(child), address };
        until("the server listens", || TcpStream::connect(address).is_ok());
        server
    }
}

#[test]
fn every_case_of_grpc_passes_in_clear_and_over_tls() {
    let Some((client, server)) = program("client").zip(program("server")) else { return };
    let (server, authority) = (Server::begin(&server), Authority::new());
    let identity = authority.sign(&["localhost"]);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::write(folder.join("interop.pem"), identity.certificate.pem()).unwrap();
    fs::write(folder.join("interop.key"), identity.key.serialize_pem()).unwrap();
    let ca = folder.join("interop.ca");
    fs::write(&ca, authority.pem()).unwrap();
    for (name, tls) in [("clear", ""), ("tls", ", tls: { certificate: interop.pem, key: interop.key }")] {
        let scene = Scene::with(&format!("interop_{name}"), |_| {
            format!(
                "listen: {{ address: '127.0.0.1:0'{tls} }}\nupstreams:\n  grpc: {{ url: 'http://{}', protocol: http2, forward: \
                 all }}\nendpoints:\n  '/{{*path}}': grpc /{{*path}}\n",
                server.address
            )
        });
        for case in CASES {
            let mut call = Command::new(&client);
            call.args(["--server_host=127.0.0.1", &format!("--server_port={}", scene.address.port())]);
            call.args([&format!("--test_case={case}"), &format!("--service_config_json={REPORTS}")]);
            if !tls.is_empty() {
                call.args(["--use_tls", "--use_test_ca", "--server_host_override=localhost"]);
                call.arg(format!("--ca_file={}", ca.display()));
            }
            let output = call.output().unwrap();
            assert!(output.status.success(), "{name}, {case}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}
