//! The same cases with grpc-java: its client and server on both sides, and each with the other side of grpc-go.
//!
//! Maven fetches a hundred archives and each case is a Java program of its own: `GRPC_JAVA=all` runs them, in three minutes.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{CASES, REPORTS, Server, program};
use crate::http2::scene::Scene;

/// The cases of grpc-java's server that the others do not have.
const MORE: [&str; 5] = [
    "client_compressed_unary_noprobe",
    "server_compressed_unary",
    "server_compressed_streaming",
    "very_large_request",
    "pick_first_unary",
];

/// The archives; nothing without Maven.
fn archives() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop-java");
    if !folder.join("lib").is_dir() {
        let mut fetch = Command::new("mvn");
        fetch.args([
            "--quiet",
            "--batch-mode",
            "dependency:copy-dependencies",
            "--file",
            "tests/http2/interop/java/pom.xml",
        ]);
        fetch.arg(format!("-DoutputDirectory={}", folder.join("lib").display()));
        let fetched = fetch.output().ok()?;
        assert!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stdout));
        // Its client trusts an authority of its own, which signed these.
        let extract = |archive: &Path| {
            let mut jar = Command::new("jar");
            jar.arg("xf").arg(archive).arg("certs").current_dir(&folder).status().unwrap()
        };
        let archive = std::fs::read_dir(folder.join("lib")).unwrap().map(|file| file.unwrap().path());
        let testing = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("grpc-testing-1");
        assert!(extract(&archive.into_iter().find(testing).unwrap()).success());
    }
    Some(folder)
}

fn java(folder: &Path, class: &str) -> Command {
    let mut java = Command::new("java");
    java.args(["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp"]).arg(folder.join("lib/*"));
    java.arg(format!("io.grpc.testing.integration.{class}"));
    java
}

#[test]
fn every_case_of_grpc_passes_between_languages() {
    let say = |line: &str| drop(writeln!(std::io::stderr(), "{line}"));
    let skip = |why: &str| say(&format!("skipped: {why} to run gRPC's cases with Java"));
    if std::env::var_os("GRPC_JAVA").is_none() {
        return skip("set GRPC_JAVA=all");
    }
    let Some((client, server)) = program("client").zip(program("server")) else { return };
    let Some(folder) = archives() else { return skip("install Maven and a JDK") };
    let mut of_java = java(&folder, "TestServiceServer");
    of_java.arg("--use_tls=false");
    let servers = [("Java", Server::of(of_java)), ("Go", Server::begin(&server))];
    let mut passed = 0;
    for (to, server) in &servers {
        for (name, tls) in [("clear", ""), ("tls", ", tls: { certificate: certs/server1.pem, key: certs/server1.key }")]
        {
            let scene = Scene::with(&format!("interop_java_{to}_{name}"), |_| {
                let tls = tls.replace("certs", &folder.join("certs").display().to_string());
                format!(
                    "listen: {{ address: '127.0.0.1:0'{tls} }}\nupstreams:\n  grpc: {{ url: 'http://{}', protocol: http2, forward: \
                     all }}\nendpoints:\n  '/{{*path}}': grpc /{{*path}}\n",
                    server.address
                )
            });
            for from in ["Java", "Go"].into_iter().filter(|from| from != to || *from == "Java") {
                let more = MORE.into_iter().filter(|_| from == "Java" && *to == "Java");
                for case in CASES.into_iter().chain(more) {
                    let mut call =
                        if from == "Java" { java(&folder, "TestServiceClient") } else { Command::new(&client) };
                    call.args(["--server_host=127.0.0.1", &format!("--server_port={}", scene.address.port())]);
                    call.args([&format!("--test_case={case}"), &format!("--service_config_json={REPORTS}")]);
                    match (tls.is_empty(), from) {
                        (true, "Java") => drop(call.arg("--use_tls=false")),
                        (true, _) => {}
                        (false, from) => {
                            let on = if from == "Java" { "=true" } else { "" };
                            call.arg(format!("--use_tls{on}")).arg(format!("--use_test_ca{on}"));
                            call.arg("--server_host_override=foo.test.google.fr");
                            if from == "Go" {
                                call.arg(format!("--ca_file={}", folder.join("certs/ca.pem").display()));
                            }
                        }
                    }
                    let log = folder.join("log");
                    call.stdout(Stdio::null()).stderr(File::create(&log).unwrap());
                    let ended = call.status().unwrap();
                    let said = || std::fs::read_to_string(&log).unwrap_or_default();
                    assert!(ended.success(), "{from} to {to}, {name}, {case}: {}", said());
                    passed += 1;
                }
            }
        }
    }
    say(&format!("{passed} cases passed"));
}
