//! The bytes that a tunnel carries, and how its two directions end.

use std::thread;

use crate::upgrade::scene::{ASK, Close, SWITCH, Scene};

#[test]
fn bytes_that_come_with_the_request_or_with_the_101_are_the_first_of_the_tunnel() {
    let scene = Scene::new("upgrade: websocket", "");
    // More than the gateway would take of a head.
    let early = "e".repeat(100_000);
    let mut client = scene.connect();
    let writer = {
        let (mut client, early) = (client.0.try_clone().unwrap(), early.clone());
        thread::spawn(move || std::io::Write::write_all(&mut client, [ASK, &early].concat().as_bytes()).unwrap())
    };
    let mut upstream = scene.accept();
    upstream.head();
    upstream.send([SWITCH, "first"].concat());
    assert_eq!(upstream.exactly(early.len()), early.as_bytes());
    writer.join().unwrap();
    client.head();
    assert_eq!(client.exactly(5), b"first");
    client.send("more");
    assert_eq!(upstream.exactly(4), b"more");
}

#[test]
fn a_side_that_has_ended_is_still_sent_to() {
    let scene = Scene::new("upgrade: websocket", "");
    let (mut client, mut upstream) = scene.tunnel();
    client.send("last");
    client.end();
    assert_eq!(upstream.rest(), (b"last".to_vec(), Close::Clean));
    upstream.send("still");
    assert_eq!(client.exactly(5), b"still");
    drop(upstream);
    assert_eq!(client.rest(), (vec![], Close::Clean));

    let (mut client, mut upstream) = scene.tunnel();
    upstream.send("last");
    upstream.end();
    assert_eq!(client.rest(), (b"last".to_vec(), Close::Clean));
    client.send("still");
    assert_eq!(upstream.exactly(5), b"still");
    drop(client);
    assert_eq!(upstream.rest(), (vec![], Close::Clean));
}

#[test]
fn a_client_that_has_ended_before_the_101_is_answered() {
    let scene = Scene::new("upgrade: websocket", "");
    let mut client = scene.connect();
    client.send([ASK, "all"].concat());
    client.end();
    let mut upstream = scene.accept();
    upstream.head();
    upstream.send(SWITCH);
    assert_eq!(upstream.rest(), (b"all".to_vec(), Close::Clean));
    upstream.send("answer");
    drop(upstream);
    client.head();
    assert_eq!(client.rest(), (b"answer".to_vec(), Close::Clean));
}

#[test]
fn a_reset_of_one_side_resets_the_other() {
    let scene = Scene::new("upgrade: websocket", "");
    let (client, mut upstream) = scene.tunnel();
    client.reset();
    assert_eq!(upstream.rest(), (vec![], Close::Reset));
    let (mut client, upstream) = scene.tunnel();
    upstream.reset();
    assert_eq!(client.rest(), (vec![], Close::Reset));
}

#[test]
fn what_a_server_said_before_it_left_is_passed_on() {
    let scene = Scene::new("upgrade: websocket", "");
    for _ in 0..50 {
        let (mut client, mut upstream) = scene.tunnel();
        // Unread bytes make the kernel send a reset behind what is sent.
        client.send("unread");
        upstream.send("goodbye");
        drop(upstream);
        assert_eq!(client.exactly(7), b"goodbye");
    }
}

#[test]
fn much_goes_both_ways_at_once_past_slow_readers() {
    const EACH: usize = 32 << 20;
    let scene = Scene::new("upgrade: websocket", "");
    let (client, upstream) = scene.tunnel();
    // Each byte says where it stands, so that none can be lost or come twice unseen.
    let byte = |at: usize| (at ^ (at >> 8) ^ (at >> 16)) as u8;
    let ends = [client, upstream].map(|end| {
        let mut reading = crate::upgrade::scene::Peer(end.0.try_clone().unwrap());
        let mut end = end;
        let writer = thread::spawn(move || {
            for start in (0..EACH).step_by(1 << 16) {
                end.send((start..start + (1 << 16)).map(byte).collect::<Vec<u8>>());
            }
            end.end();
        });
        let reader = thread::spawn(move || {
            let mut at = 0;
            // Small reads: what is not taken waits in the gateway, and must not grow there.
            while at < EACH {
                let part = reading.exactly(4096);
                assert!(part.iter().enumerate().all(|(more, seen)| *seen == byte(at + more)), "around {at}");
                at += part.len();
            }
            assert_eq!(reading.rest(), (vec![], Close::Clean));
        });
        (writer, reader)
    });
    for (writer, reader) in ends {
        writer.join().unwrap();
        reader.join().unwrap();
    }
}
