//! Users and passwords.

use std::thread;
use std::time::{Duration, Instant};

use argon2::password_hash::{PasswordHasher, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::authentication::scene::{Answer, folder, gateway, send, until};
use crate::stage::gateway::Gateway;

/// The lines of users, as `htpasswd -nbB -C 4` writes them.
const ADA: &str = r"ada:$2y$04$iF2pwid41Z6xfORn.dvEP.7ZyMCq/dFZ2PCoa9D2hlCf5YusrT/Oe";
const BOB: &str = r"bob:$2y$04$Lj2yIzCGXGAYjwHio7YabOXaNRarpsjEBwZWGvG585PVb3WaKk2bK";

const CONFIG: &str = "
authenticate:
  - basic: { users: users, realm: the shop }
endpoints:
  GET /who: { pipeline: [respond: { body: '$claims' }] }
";

fn basic(gateway: &Gateway, user: &str, password: &str) -> Answer {
    let credential = STANDARD.encode(format!("{user}:{password}"));
    send(gateway, "GET /who", &[format!("authorization: Basic {credential}")])
}

fn argon2(password: &str, memory: u32, passes: u32) -> String {
    let params = Params::new(memory, passes, 1, None).unwrap();
    let salt = SaltString::from_b64("c29tZXNhbHRzYWx0").unwrap();
    let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    hasher.hash_password(password.as_bytes(), &salt).unwrap().to_string()
}

#[test]
fn a_password_is_checked_against_its_hash() {
    let eve = argon2("tr0ub4dor", 64, 1);
    std::fs::write(folder("basic").join("users"), format!("# users\n{ADA}\n\n{BOB}\neve:{eve}\n")).unwrap();
    let gateway = gateway("basic", CONFIG);
    for (user, password) in [("ada", "correct-horse-7"), ("bob", "staple-battery-8"), ("eve", "tr0ub4dor")] {
        // The second time it is remembered.
        for _ in 0..2 {
            let answer = basic(&gateway, user, password);
            assert_eq!((answer.status, answer.body), (200, format!("{{\"sub\":\"{user}\"}}")));
        }
    }
    for (user, password) in [
        ("ada", "correct-horse-8"),
        ("ada", ""),
        ("ada", "staple-battery-8"),
        ("bob", "correct-horse-7"),
        ("Ada", "correct-horse-7"),
        ("nobody", "correct-horse-7"),
        ("", ""),
        ("ada:correct-horse-7", ""),
        ("ada", "correct-horse-7:"),
    ] {
        let answer = basic(&gateway, user, password);
        assert_eq!(answer.status, 401, "{user} {password}");
        assert!(
            answer.head.contains("www-authenticate: Basic realm=\"the shop\", charset=\"UTF-8\""),
            "{}",
            answer.head
        );
        assert!(answer.body.contains("the user or the password is wrong"), "{}", answer.body);
    }
    for field in ["Basic", "Basic ?", "Basic YWRh", "Basic /w==", "Bearer YWRhOmE="] {
        assert_eq!(send(&gateway, "GET /who", &[format!("authorization: {field}")]).status, 401, "{field}");
    }
    // A new password counts at once, and the old one is forgotten.
    std::fs::write(folder("basic").join("users"), BOB.replace("bob:", "ada:")).unwrap();
    gateway.logged("*`users` has changed and was read again*").unwrap();
    assert_eq!(basic(&gateway, "ada", "correct-horse-7").status, 401);
    assert_eq!(basic(&gateway, "ada", "staple-battery-8").status, 200);
    assert_eq!(basic(&gateway, "eve", "tr0ub4dor").status, 401);
}

/// A hash that takes at least 30 ms to check.
fn costly() -> String {
    let mut passes = 1;
    loop {
        let began = Instant::now();
        let hash = argon2("slow", 16 << 10, passes);
        if began.elapsed() > Duration::from_millis(30) || passes >= 32 {
            return hash;
        }
        passes *= 2;
    }
}

#[test]
fn an_unknown_user_takes_as_long_and_a_flood_is_turned_away() {
    std::fs::write(folder("costly").join("users"), format!("ada:{}\n", costly())).unwrap();
    let gateway = gateway("costly", CONFIG);
    // CPU time of the process, in ticks. On a busy machine, the clock measures other programs, too.
    let took = |user: &str, passwords: &[&str; 5], status: u16| {
        let before = gateway.ticks();
        passwords.iter().for_each(|password| assert_eq!(basic(&gateway, user, password).status, status));
        gateway.ticks() - before
    };
    let wrong = ["wrong-0", "wrong-1", "wrong-2", "wrong-3", "wrong-4"];
    let (known, unknown) = (took("ada", &wrong, 401), took("nobody", &wrong, 401));
    assert!(unknown > known / 5 && unknown < known * 5, "{known} {unknown}");
    // More checks than may wait: some are turned away, and requests without a password are answered.
    thread::scope(|scope| {
        let flood: Vec<_> = (0..150)
            .map(|number| {
                let gateway = &gateway;
                scope.spawn(move || basic(gateway, "ada", &format!("flood-{number}")).status)
            })
            .collect();
        assert_eq!(send(&gateway, "GET /who", &[]).status, 401);
        let statuses: Vec<u16> = flood.into_iter().map(|request| request.join().unwrap()).collect();
        assert!(statuses.iter().all(|status| matches!(status, 401 | 503)), "{statuses:?}");
        assert!(statuses.contains(&503) && statuses.contains(&401), "{statuses:?}");
    });
    until(|| basic(&gateway, "ada", "slow").status == 200);
    let remembered = took("ada", &["slow"; 5], 200);
    assert!(remembered < known, "it was remembered: {remembered}");
}
