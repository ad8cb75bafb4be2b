//! Client programs that people use: the same cases straight to a server and through the gateway, answers compared field by field.

// A client whose program is missing is skipped, with a line.
#![allow(clippy::print_stdout)]

mod cases;
mod differences;
mod grpc_web;
mod programs;
mod server;
use crate::stage;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::Value;

use cases::CASES;
use differences::DIFFERENCES;
use programs::{PROGRAMS, Program, Protocol};
use server::Server;

/// The gateway between the two, as people write it.
fn gateway(server: SocketAddr) -> stage::gateway::Gateway {
    let config = format!(
        "listen: 127.0.0.1:0\nthreads: 1\nupstreams:\n  server: {{ url: 'http://{server}', forward: all }}\nendpoints:\n  \
         '/{{*path}}': server /{{*path}}?*\n  GET /kept/{{*path}}: {{ cache: 1m, pipeline: [ request: 'server /{{*path}}?*' ] }}\n  \
         GET /parts/{{*path}}: {{ cache: 1m, pipeline: [ requests: {{ a: 'server /{{*path}}?*', b: server /empty }}, merge: '[$a, $b]' ] }}\n"
    );
    stage::gateway::Gateway::of(config)
}

/// Fields of one connection, which say nothing of the answer.
const OF_CONNECTIONS: [&str; 3] = ["connection", "keep-alive", "transfer-encoding"];

/// The parts of an answer that can be compared, in words.
fn parts(told: &Value) -> BTreeMap<String, String> {
    let mut parts = BTreeMap::new();
    let mut add = |name: String, value: String| {
        parts.entry(name).and_modify(|known: &mut String| *known += &format!(" | {value}")).or_insert(value);
    };
    for name in ["error", "status", "body", "at", "interim"] {
        let value = &told[name];
        if !value.is_null() {
            add(name.to_owned(), value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
    }
    for (kind, name) in [("field", "fields"), ("trailer", "trailers")] {
        let mut fields: Vec<(&str, &str)> = told[name]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|field| Some((field[0].as_str()?, field[1].as_str()?)))
            .filter(|(name, _)| !OF_CONNECTIONS.contains(name))
            .collect();
        fields.sort_unstable();
        fields.into_iter().for_each(|(name, value)| add(format!("{kind} {name}"), value.to_owned()));
    }
    parts
}

/// The answers to one program in all cases, by their names.
fn asked(program: &Program, address: SocketAddr) -> Option<BTreeMap<String, Value>> {
    asked_under(program, address, "")
}

/// The same under a path of its own.
fn asked_under(program: &Program, address: SocketAddr, under: &str) -> Option<BTreeMap<String, Value>> {
    let lines: Vec<String> = CASES.iter().filter(|case| program.can(case)).map(cases::Case::line).collect();
    let base = format!("http://{address}{under}");
    let mut told = program.run(&base, &lines)?;
    // Some send where they come from.
    for told in &mut told {
        if let Some(body) = told["body"].as_str() {
            told["body"] = body.replace(&base, "http://SERVER").into();
        }
    }
    assert_eq!(told.len(), lines.len(), "{} stopped early: {told:?}", program.name);
    Some(told.into_iter().map(|told| (told["name"].as_str().unwrap().to_owned(), told)).collect())
}

#[test]
fn clients_get_through_the_gateway_what_they_get_without_it() {
    let server = Server::new();
    let gateway = gateway(server.http1);
    let (mut compared, mut wrong, mut met) = (0, Vec::new(), vec![false; DIFFERENCES.len()]);
    let mut all = true;
    std::thread::scope(|threads| {
        let running: Vec<_> = PROGRAMS
            .iter()
            .map(|program| {
                let own = if program.protocol == Protocol::Http2 { server.http2() } else { server.http1 };
                let (direct, through) =
                    (threads.spawn(move || asked(program, own)), threads.spawn(|| asked(program, gateway.address)));
                (program, direct, through)
            })
            .collect();
        for (program, direct, through) in running {
            let (Some(direct), Some(through)) = (direct.join().unwrap(), through.join().unwrap()) else {
                println!("skipped: install {} to run this test with {}", program.needs, program.name);
                assert!(std::env::var_os("CI").is_none() || !program.always, "{} is not skipped in CI", program.name);
                all = false;
                continue;
            };
            for (name, direct) in &direct {
                let (direct, through) = (parts(direct), parts(&through[name]));
                compared += 1;
                let mut names: Vec<&String> = direct.keys().chain(through.keys()).collect();
                names.sort();
                names.dedup();
                for part in names.into_iter().filter(|part| direct.get(*part) != through.get(*part)) {
                    let is_known = |known: &differences::Difference| known.is(program.name, name, part);
                    match DIFFERENCES.iter().position(is_known) {
                        Some(known) => met[known] = true,
                        None => wrong.push(format!(
                            "{}, {name}, {part}: {:?} without it, {:?} through it",
                            program.name,
                            direct.get(part),
                            through.get(part)
                        )),
                    }
                }
            }
        }
    });
    println!("{compared} answers compared");
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    // A difference that is gone is taken off the list.
    for (known, met) in DIFFERENCES.iter().zip(met) {
        assert!(met || !all, "no longer different: {known:?}");
    }
}

#[test]
fn no_field_that_is_no_list_leaves_twice() {
    let server = Server::new();
    let gateway = gateway(server.http1);
    let curl = &PROGRAMS[0];
    // The second time some come from the cache.
    for under in ["", "/kept", "/kept", "/parts", "/parts"] {
        let Some(told) = asked_under(curl, gateway.address, under) else { return };
        for told in told.into_values() {
            let fields = told["fields"].as_array().into_iter().flatten();
            let fields = fields.map(|field| (field[0].as_str().unwrap().to_owned(), String::new())).collect();
            let head = stage::client::Head { status: 200, fields };
            assert_eq!(head.twice(), None, "{under}: {told}");
        }
    }
}
