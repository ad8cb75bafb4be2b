//! Static files: types, ranges, conditions, compressed copies, and nothing outside the folder.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::stage;
use stage::gateway::Gateway;
use stage::scene::Client;

/// A folder with files, and a secret beside it.
fn folder(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("files").join(name);
    let _ = std::fs::remove_dir_all(&root);
    let write = |path: &str, text: &[u8]| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("secret.txt", b"SECRET");
    write("public/index.html", b"<h1>home</h1>");
    write("public/app.js", b"let a = 1;");
    write("public/app.js.br", b"BR");
    write("public/app.js.gz", b"GZ");
    write("public/docs/index.html", b"<h1>docs</h1>");
    write("public/docs/a b.txt", b"0123456789");
    write("public/.env", b"SECRET");
    write("public/.git/config", b"SECRET");
    write("public/large.bin", &vec![b'x'; 1_000_000]);
    symlink("../secret.txt", root.join("public/link.txt")).unwrap();
    symlink("..", root.join("public/up")).unwrap();
    symlink("docs", root.join("public/inside")).unwrap();
    root
}

fn gateway(root: &Path, endpoints: &str) -> Gateway {
    let file = root.join("gateway.yaml");
    std::fs::write(&file, format!("listen: 127.0.0.1:0\nendpoints:\n{endpoints}")).unwrap();
    Gateway::run(&file)
}

#[test]
fn a_file_has_its_type_its_tag_and_its_parts() {
    let root = folder("plain");
    let gateway = gateway(&root, "  '/app/{*path}': { files: ./public }\n");
    let mut client = Client::connect(gateway.address);
    let whole = client.call("GET /app/docs/a%20b.txt", "", "");
    assert_eq!((whole.status, &*whole.body), (200, "0123456789"));
    assert_eq!(whole.value("content-type"), "text/plain; charset=utf-8");
    assert_eq!((whole.value("accept-ranges"), whole.value("x-content-type-options")), ("bytes", "nosniff"));
    let head = client.call("HEAD /app/docs/a%20b.txt", "", "");
    assert_eq!((head.status, head.value("content-length"), head.value("etag")), (200, "10", whole.value("etag")));
    for (fields, status) in [
        (format!("if-none-match: {}\r\n", whole.value("etag")), 304),
        (format!("if-none-match: W/{}\r\n", whole.value("etag")), 304),
        (format!("if-modified-since: {}\r\n", whole.value("last-modified")), 304),
        ("if-none-match: \"other\"\r\n".to_owned(), 200),
        ("if-match: \"other\"\r\n".to_owned(), 412),
    ] {
        assert_eq!(client.call("GET /app/docs/a%20b.txt", &fields, "").status, status, "{fields}");
    }
    let part = client.call("GET /app/docs/a%20b.txt", "range: bytes=2-4\r\n", "");
    assert_eq!((part.status, &*part.body, part.value("content-range")), (206, "234", "bytes 2-4/10"));
    let outside = client.call("GET /app/docs/a%20b.txt", "range: bytes=10-\r\n", "");
    assert_eq!((outside.status, outside.value("content-range")), (416, "bytes */10"));
    let stale = client.call("GET /app/docs/a%20b.txt", "range: bytes=2-4\r\nif-range: \"other\"\r\n", "");
    assert_eq!((stale.status, stale.body.len()), (200, 10));
    let large = client.call("GET /app/large.bin", "range: bytes=1-\r\n", "");
    assert_eq!((large.status, large.body.len()), (206, 999_999));
    assert_eq!(client.call("POST /app/app.js", "content-length: 0\r\n", "").value("allow"), "GET, HEAD");
}

#[test]
fn a_folder_has_its_index_and_a_compressed_copy_is_served() {
    let root = folder("index");
    let gateway = gateway(&root, "  '/app/{*path}': { files: ./public }\n");
    let mut client = Client::connect(gateway.address);
    assert_eq!(client.call("GET /app/", "", "").body, "<h1>home</h1>");
    assert_eq!(client.call("GET /app?a=b", "", "").value("location"), "/app/?a=b");
    assert_eq!(client.call("GET /app/docs", "", "").value("location"), "/app/docs/");
    assert_eq!(client.call("GET /app/docs/", "", "").body, "<h1>docs</h1>");
    assert_eq!(client.call("GET /app/inside/", "", "").body, "<h1>docs</h1>");
    let plain = client.call("GET /app/app.js", "", "");
    assert_eq!((&*plain.body, plain.value("vary")), ("let a = 1;", "accept-encoding"));
    for (asked, body, coding) in [("gzip, br", "BR", "br"), ("gzip", "GZ", "gzip"), ("zstd", "let a = 1;", "")] {
        let said = client.call("GET /app/app.js", &format!("accept-encoding: {asked}\r\n"), "");
        assert_eq!((&*said.body, said.value("content-encoding")), (body, coding));
        assert_eq!(said.value("content-type"), "text/javascript; charset=utf-8");
        assert_eq!(said.value("etag") == plain.value("etag"), coding.is_empty());
    }
}

#[test]
fn a_single_page_application_answers_for_its_own_paths() {
    let root = folder("single");
    let endpoints = "  '/{*path}': { files: { folder: ./public, fallback: index.html } }\n  \
                     /robots.txt: { files: ./public/docs/a b.txt }\n  \
                     '/both/{*path}': { files: ./public, pipeline: [ { respond: { status: 202, body: '\"made\"' } } ] }\n";
    let gateway = gateway(&root, endpoints);
    let mut client = Client::connect(gateway.address);
    assert_eq!(client.call("GET /users/7", "", "").body, "<h1>home</h1>");
    assert_eq!(client.call("GET /gone.js", "", "").status, 404);
    assert_eq!(client.call("GET /robots.txt", "", "").body, "0123456789");
    assert_eq!(client.call("GET /both/app.js", "", "").body, "let a = 1;");
    assert_eq!(client.call("GET /both/other", "", "").status, 202);
    assert_eq!(client.call("POST /both/app.js", "content-length: 0\r\n", "").status, 202);
}

#[test]
fn ten_thousand_hostile_paths_lead_to_nothing_outside() {
    let root = folder("hostile");
    let endpoints = "  '/app/{*path}': { files: { folder: ./public, fallback: index.html } }\n";
    let gateway = gateway(&root, endpoints);
    let mut client = Client::connect(gateway.address);
    let ups = ["..", "%2e%2e", ".%2e", "%2E.", "..%00", "%252e%252e", "..;", ".", "%c0%ae%c0%ae", "up", "...", "%2e"];
    let between = ["/", "//", "%2f", "%5c", "\\", "/./", "%252f", "/%2f"];
    let ends =
        ["secret.txt", "link.txt", ".env", ".git/config", "up/secret.txt", "%2eenv", "public/.env", "secret.txt%00.js"];
    let starts = ["/app/", "/app//", "/app/docs/", "/app/inside/", "/app/%2f", "/app/docs/..", "/app"];
    let mut sent = 0;
    for start in starts {
        for up in ups {
            for slash in between {
                for depth in 0..4 {
                    for end in ends {
                        let path = format!("{start}{}{end}", format!("{up}{slash}").repeat(depth));
                        let said = client.call(&format!("GET {path}"), "", "");
                        assert!(!said.body.contains("SECRET"), "{path}");
                        if said.value("connection") == "close" {
                            client = Client::connect(gateway.address);
                        }
                        sent += 1;
                    }
                }
            }
        }
    }
    assert!(sent > 10_000, "{sent}");
}

#[test]
fn a_folder_that_becomes_a_link_while_it_is_read_leads_to_nothing_outside() {
    let root = folder("race");
    std::fs::create_dir_all(root.join("outside")).unwrap();
    std::fs::create_dir_all(root.join("public/now")).unwrap();
    std::fs::write(root.join("outside/file.txt"), "SECRET").unwrap();
    std::fs::write(root.join("public/now/file.txt"), "public").unwrap();
    let gateway = gateway(&root, "  '/app/{*path}': { files: ./public }\n");
    let over = AtomicBool::new(false);
    let (now, aside) = (root.join("public/now"), root.join("public/aside"));
    let mut found = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                std::fs::rename(&now, &aside).unwrap();
                symlink("../outside", &now).unwrap();
                std::fs::remove_file(&now).unwrap();
                std::fs::rename(&aside, &now).unwrap();
            }
        });
        let mut client = Client::connect(gateway.address);
        let mut leaked = false;
        for _ in 0..5_000 {
            let said = client.call("GET /app/now/file.txt", "", "");
            leaked |= said.body != "public" && said.status != 404;
            found += usize::from(said.status == 200);
        }
        over.store(true, Ordering::Relaxed);
        assert!(!leaked);
    });
    assert!(found > 0);
}

#[test]
fn what_is_no_file_is_not_read() {
    let root = folder("special");
    symlink("/dev/zero", root.join("public/zero.bin")).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(root.join("public/pipe.txt")).status();
    assert!(pipe.unwrap().success());
    let gateway = gateway(&root, "  '/app/{*path}': { files: ./public }\n");
    let mut client = Client::connect(gateway.address);
    let long = format!("/app/{}", "n".repeat(300));
    let deep = format!("/app/{}", "d/".repeat(2_500));
    for path in ["/app/zero.bin", "/app/pipe.txt", "/app/app.js%00", "/app/app.js%00.txt", "/app/app.js/", &long, &deep]
    {
        assert_eq!(client.call(&format!("GET {path}"), "", "").status, 404, "{path}");
    }
    assert_eq!(client.call("GET /app/app.js", "", "").status, 200);
}
