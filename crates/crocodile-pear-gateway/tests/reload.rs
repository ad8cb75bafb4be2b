//! A reload keeps everything that belongs to a part of the configuration that has not changed.

mod clients;
mod databases;
mod state;
mod stores;
mod upstreams;
use crate::stage;

use stage::scene::{Client, Scene};

/// A part of the configuration that the test does not look at, different each time.
fn other(number: u32) -> String {
    format!("  GET /other/{number}:\n    pipeline: [respond: {{ body: '{number}' }}]\n")
}

/// The configuration of a test, before and after something else has changed.
struct Kept {
    scene: Scene,
    config: String,
    reloads: u32,
    /// A single connection: the same core serves all its requests.
    client: Client,
}

impl Kept {
    /// `config` ends with the endpoints.
    fn new(name: &str, config: &str) -> Self {
        let scene = Scene::new(&format!("reload_{name}"), &format!("{config}{}", other(0)));
        let client = scene.client();
        Kept { scene, config: config.to_owned(), reloads: 0, client }
    }

    /// Something else has changed.
    fn reload(&mut self) {
        self.reloads += 1;
        self.scene.reload(&format!("{}{}", self.config, other(self.reloads)));
        assert_eq!(self.client.get(&format!("/other/{}", self.reloads)).status, 200);
    }

    /// This has changed.
    fn change(&mut self, from: &str, to: &str) {
        assert!(self.config.contains(from), "{from}");
        self.config = self.config.replace(from, to);
        self.reload();
    }

    fn status(&mut self, path: &str) -> u16 {
        self.client.get(path).status
    }
}
