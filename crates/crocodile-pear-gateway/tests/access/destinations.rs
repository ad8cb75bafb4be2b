//! Where lines go, and what becomes of them when they cannot.

use std::collections::HashMap;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::thread;

use crate::stage::PATIENCE;
use crate::stage::client::exchange;
use crate::stage::found as wait;
use crate::stage::logs::{Folder, metric, pipe};
use crate::stage::scene::Client;
use crate::stage::script::like;

const HELLO: &str = "GET /hello/a HTTP/1.1\r\nhost: h\r\n\r\n";

#[test]
fn each_of_ten_thousand_requests_has_its_line() {
    let folder = Folder::new("count");
    let gateway = folder.start("{ format: '{$status} {$target}', to: FOLDER/access.log }");
    let address = gateway.address;
    let clients = (0..4).map(|client| {
        thread::spawn(move || {
            let mut connection = Client::connect(address);
            for at in 0..2500 {
                let (path, status) = match at % 3 {
                    0 => ("hello/a", 200),
                    1 => ("teapot", 418),
                    _ => ("nowhere", 404),
                };
                let request = format!("GET /{path}?{client} HTTP/1.1\r\nhost: h\r\n\r\n");
                assert_eq!(connection.send(&request).status, status);
            }
        })
    });
    clients.collect::<Vec<_>>().into_iter().for_each(|client| client.join().unwrap());
    let mut counts: HashMap<String, usize> = HashMap::new();
    folder.lines("access.log", 10_000).into_iter().for_each(|line| *counts.entry(line).or_default() += 1);
    let wanted = [("200 /hello/a", 834 * 4), ("418 /teapot", 833 * 4), ("404 /nowhere", 833 * 4)];
    assert_eq!(counts, wanted.map(|(line, count)| (line.to_owned(), count)).into());
    assert_eq!(metric(&gateway, "crocodile_pear_access_log_dropped_total"), 0.0);
}

#[test]
fn a_file_that_was_moved_is_made_anew_at_sigusr1() {
    let folder = Folder::new("moved");
    let gateway = folder.start("{ format: common, to: FOLDER/access.log }");
    let mut client = Client::connect(gateway.address);
    client.send(HELLO);
    folder.lines("access.log", 1);
    fs::rename(folder.path("access.log"), folder.path("old.log")).unwrap();
    client.send(HELLO);
    folder.lines("old.log", 2);
    gateway.signal("USR1").unwrap();
    wait(|| folder.path("access.log").exists().then_some(()), || "no new file".to_owned());
    client.send(HELLO);
    assert_eq!(folder.lines("access.log", 1).len(), 1);
    assert_eq!(folder.lines("old.log", 2).len(), 2);
}

#[test]
fn a_reload_and_the_end_lose_no_line() {
    let folder = Folder::new("reload");
    let mut gateway = folder.start("{ format: common, to: FOLDER/access.log }");
    let mut client = Client::connect(gateway.address);
    for at in 0..50 {
        client.send(HELLO);
        if at == 10 {
            let (old, new) = ("format: common", "format: combined");
            let config = fs::read_to_string(folder.path("gateway.yaml")).unwrap();
            fs::write(folder.path("gateway.yaml"), config.replace(old, new)).unwrap();
            gateway.signal("HUP").unwrap();
            gateway.logged("*configuration reloaded*").unwrap();
        }
        if at == 30 {
            let config = fs::read_to_string(folder.path("gateway.yaml")).unwrap();
            fs::write(folder.path("gateway.yaml"), config.replace("access.log", "other.log")).unwrap();
            gateway.signal("HUP").unwrap();
            wait(|| folder.path("other.log").exists().then_some(()), || gateway.said());
        }
    }
    drop(client);
    gateway.signal("TERM").unwrap();
    assert!(gateway.ended().unwrap().success());
    let (first, second) = (folder.lines("access.log", 1), folder.lines("other.log", 1));
    assert_eq!(first.len() + second.len(), 50);
    assert!(like(first.last().unwrap(), "*\"-\" \"-\""), "{first:#?}");
}

#[test]
fn a_pipe_that_nobody_reads_delays_nobody() {
    let folder = Folder::new("pipe");
    pipe(&folder.path("access.log"));
    let access = "{ format: combined, to: FOLDER/access.log, when: '$query.last == null' }";
    let gateway = folder.start(access);
    let agent = "x".repeat(8000);
    let request = format!("GET /hello/a HTTP/1.1\r\nhost: h\r\nuser-agent: {agent}\r\n\r\n");
    let mut client = Client::connect(gateway.address);
    // A core keeps 1 MiB.
    for _ in 0..1000 {
        assert_eq!(client.send(&request).status, 200);
    }
    // It has no line, and is answered when all others have theirs.
    assert_eq!(client.send("GET /hello/a?last=1 HTTP/1.1\r\nhost: h\r\n\r\n").status, 200);
    let dropped = metric(&gateway, "crocodile_pear_access_log_dropped_total");
    let kept = 1000.0 - dropped;
    assert!(kept * 8000.0 < 1.1 * f64::from(1 << 20) && kept * 8000.0 > 0.9 * f64::from(1 << 20), "{dropped}");
    // Somebody reads after all: what was kept is there, and nothing was cut.
    let path = folder.path("access.log");
    let reader = thread::spawn(move || {
        use std::io::{BufRead, BufReader};
        let lines = BufReader::new(fs::File::open(path).unwrap()).lines();
        lines.take(kept as usize).map(Result::unwrap).filter(|line| line.ends_with(&format!("{agent}\""))).count()
    });
    assert_eq!(reader.join().unwrap(), kept as usize);
}

#[test]
fn syslog_has_a_datagram_for_each_line() {
    let folder = Folder::new("syslog");
    let daemon = UnixDatagram::bind(folder.path("log")).unwrap();
    daemon.set_read_timeout(Some(PATIENCE)).unwrap();
    let gateway = folder.start("{ format: common, to: 'syslog:FOLDER/log' }");
    exchange(gateway.address, b"GET /hello/a HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    let mut bytes = [0; 9000];
    let length = daemon.recv(&mut bytes).unwrap();
    let message = String::from_utf8_lossy(&bytes[..length]);
    let wanted = format!(
        "<134>1 *T*Z * crocodile-pear {} access - 127.0.0.1 - - [*] \"GET /hello/a HTTP/1.1\" 200 7",
        gateway.id()
    );
    assert!(like(&message, &wanted), "{message}");

    let remote = UdpSocket::bind("127.0.0.1:0").unwrap();
    remote.set_read_timeout(Some(PATIENCE)).unwrap();
    let to = remote.local_addr().unwrap();
    let gateway = folder.start(&format!("{{ format: '{{$target}}', to: 'syslog://{to}' }}"));
    for path in ["a", "b"] {
        exchange(gateway.address, format!("GET /hello/{path} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n"));
        let length = remote.recv(&mut bytes).unwrap();
        let message = String::from_utf8_lossy(&bytes[..length]);
        assert!(message.ends_with(&format!(" access - /hello/{path}")), "{message}");
    }
}

#[test]
fn a_daemon_that_comes_back_is_written_to() {
    let folder = Folder::new("restart");
    let daemon = UnixDatagram::bind(folder.path("log")).unwrap();
    daemon.set_read_timeout(Some(PATIENCE)).unwrap();
    let gateway = folder.start("{ format: '{$target}', to: 'syslog:FOLDER/log' }");
    let mut client = Client::connect(gateway.address);
    client.send(HELLO);
    let mut bytes = [0; 9000];
    daemon.recv(&mut bytes).unwrap();
    drop(daemon);
    fs::remove_file(folder.path("log")).unwrap();
    client.send(HELLO);
    let dropped = || metric(&gateway, "crocodile_pear_access_log_dropped_total");
    wait(|| (dropped() >= 1.0).then_some(()), || "no line was dropped".to_owned());
    gateway.logged("*cannot reach syslog*").unwrap();
    let daemon = UnixDatagram::bind(folder.path("log")).unwrap();
    daemon.set_nonblocking(true).unwrap();
    let arrived = wait(
        || {
            client.send(HELLO);
            daemon.recv(&mut bytes).ok()
        },
        || gateway.said(),
    );
    assert!(bytes[..arrived].ends_with(b"/hello/a"));
}
