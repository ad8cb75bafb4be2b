//! A server of three is killed, stalled or failing: clients hardly notice, and it comes back.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::outages::load::{Load, Seen, times};
use crate::outages::scene::Scene;
use crate::stage::moody::Server;
use crate::stage::ports::free_address;
use crate::stage::{in_parallel, until};

/// The configurations that people write first.
const WAYS: [(&str, &str); 3] = [
    ("defaults", ""),
    ("in_turn", ", timeout: 2s, balance: round_robin"),
    ("checked", ", retry: { attempts: 3 }, health: { path: /item, interval: 500ms, timeout: 500ms, unhealthy: 2 }"),
];

/// The requests per second for each of them: fewer in the suite than in a long run, because its machine is busy.
fn rate() -> u64 {
    if times() > 1 { 1_000 } else { 250 }
}

struct Three {
    servers: [Server; 3],
    scene: Scene,
}

impl Three {
    fn new(name: &str, more: &str) -> Self {
        let servers = [(); 3].map(|()| Server::at(free_address()));
        let urls = servers.each_ref().map(|server| format!("'http://{}'", server.address)).join(", ");
        let scene = Scene::new(name, &format!("{{ servers: [{urls}]{more} }}"));
        Three { servers, scene }
    }

    fn load(&self) -> std::thread::JoinHandle<Seen> {
        let load = Load::get(self.scene.address(), 2 * rate()).paced(rate()).begin();
        self.asked(rate() / 2);
        load
    }

    /// Waits until the servers have got so many more requests.
    fn asked(&self, more: u64) {
        asked(&self.servers, more);
    }

    /// How many requests the third server has got when a second of the load has gone by.
    fn still_asked(&self) -> u64 {
        self.asked(rate());
        self.servers[2].mood.asked()
    }
}

fn asked(servers: &[Server; 3], more: u64) {
    let all = || servers.iter().map(|server| server.mood.asked()).sum::<u64>();
    let enough = all() + more;
    until("the load goes on", || all() >= enough);
}

/// Less than one of a thousand; in a short run, none but one.
fn hardly_noticed(way: &str, seen: &Seen) {
    let few = (seen.failures.len() as u64) * 1_000 < seen.sent.max(1_001);
    eprintln!("{way}: {} of {} failed, the slowest took {:?}", seen.failures.len(), seen.sent, seen.slowest);
    assert!(few, "{way}: {seen:?}");
    assert!(seen.slowest < Duration::from_secs(3), "{way}: {:?}", seen.slowest);
}

#[test]
fn a_server_that_answers_500_is_hardly_noticed() {
    in_parallel(WAYS.len(), WAYS.to_vec(), |(way, more)| {
        let three = Three::new(&format!("fails_{way}"), more);
        let load = three.load();
        three.servers[2].mood.fails.store(true, Ordering::SeqCst);
        let after = three.still_asked();
        hardly_noticed(way, &load.join().unwrap());
        let later = three.servers[2].mood.asked() - after;
        assert!(later < 20 * times(), "{way}: it still got {later}");
        three.servers[2].mood.fails.store(false, Ordering::SeqCst);
        comes_back(&three, way);
    });
}

#[test]
fn a_server_that_stalls_is_hardly_noticed() {
    in_parallel(WAYS.len(), WAYS.to_vec(), |(way, more)| {
        let three = Three::new(&format!("stalls_{way}"), more);
        let load = three.load();
        three.servers[2].mood.set(|mood| &mood.stalls, true);
        hardly_noticed(way, &load.join().unwrap());
        three.servers[2].mood.set(|mood| &mood.stalls, false);
        comes_back(&three, way);
    });
}

#[test]
fn a_server_that_is_killed_is_hardly_noticed() {
    in_parallel(WAYS.len(), WAYS.to_vec(), |(way, more)| {
        let mut three = Three::new(&format!("killed_{way}"), more);
        let load = three.load();
        let [first, second, third] = three.servers;
        let address = third.kill();
        hardly_noticed(way, &load.join().unwrap());
        three.servers = [first, second, Server::at(address)];
        comes_back(&three, way);
    });
}

/// A process that is stopped still accepts connections, as far as the kernel does it for it.
#[test]
fn a_stopped_process_is_hardly_noticed() {
    in_parallel(WAYS.len(), WAYS.to_vec(), |(way, more)| {
        let servers = [(); 3].map(|()| Server::at(free_address()));
        let behind = Scene::new(&format!("behind_{way}"), &format!("'http://{}'", servers[2].address));
        let urls =
            [servers[0].address, servers[1].address, behind.address()].map(|at| format!("'http://{at}'")).join(", ");
        let scene = Scene::new(&format!("stopped_{way}"), &format!("{{ servers: [{urls}]{more} }}"));
        let load = Load::get(scene.address(), 2 * rate()).paced(rate()).begin();
        asked(&servers, rate() / 2);
        behind.gateway.signal("STOP").unwrap();
        hardly_noticed(way, &load.join().unwrap());
        behind.gateway.signal("CONT").unwrap();
        comes_back(&Three { servers, scene }, way);
    });
}

/// Calls go to all three again.
fn comes_back(three: &Three, way: &str) {
    let before = three.servers[2].mood.asked();
    for _ in 0..200 {
        let seen = Load::get(three.scene.address(), 100).paced(rate()).run();
        assert!(seen.failures.is_empty(), "{way}: {seen:?}");
        let up = three.scene.metric("crocodile_pear_server_up", "");
        if up == 3 && three.servers[2].mood.asked() > before + 50 {
            return;
        }
    }
    panic!("{way}: it did not come back\n{}", three.scene.gateway.said());
}
