//! Whatever the body and however it is cut into pieces, the client reads the same bytes.

use std::sync::Arc;

use crate::codings::reader::CODINGS;
use crate::codings::scene::{Scene, begin, chunk};

const CONFIG: &str =
    "compress: { min_size: 1B }\nupstreams: { up: '${UP}' }\nendpoints: { 'GET /body/{round}': 'up /body/{round}' }\n";

/// splitmix64: the same on every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut state = self.0;
        state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((state ^ (state >> 31)) >> 1) as usize % sides
    }

    /// Rows, noise and repetitions: mostly short, now and then beyond every buffer.
    fn body(&mut self) -> Vec<u8> {
        let most = [40, 900, 900, 900, 20_000, 20_000, 300_000][self.roll(7)];
        let size = self.roll(most);
        let mut body = Vec::new();
        while body.len() < size {
            let run = 1 + self.roll(2_000);
            match self.roll(3) {
                0 => body.extend(br#"{"id":7,"name":"Ada","city":"Lund"},"#.iter().cycle().take(run)),
                1 => body.extend((0..run).map(|_| self.roll(256) as u8)),
                _ => body.extend(std::iter::repeat_n(self.roll(256) as u8, run)),
            }
        }
        body.truncate(size);
        body
    }
}

fn rounds() -> u64 {
    std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(300)
}

fn survive(coding: &'static str) {
    let bodies: Arc<dyn Fn(u64) -> (Vec<u8>, Dice) + Send + Sync> = Arc::new(move |round| {
        let mut dice = Dice(round << 8 | u64::from(coding.as_bytes()[0]));
        (dice.body(), dice)
    });
    let made = bodies.clone();
    let mut scene = Scene::new(CONFIG, move |head, stream| {
        let round = head.split([' ', '/']).nth(3).unwrap().parse().unwrap();
        let (body, mut dice) = made(round);
        begin(stream, "content-type: text/plain\r\n")?;
        let most = 1 + dice.roll(body.len().max(1));
        let mut rest = &body[..];
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(1 + dice.roll(most)));
            chunk(stream, piece)?;
            rest = after;
        }
        chunk(stream, b"")
    });
    let mut coded = 0;
    for round in 0..rounds() {
        let answer = scene.get(&format!("/body/{round}"), coding);
        assert!(answer.text() == bodies(round).0, "{coding}, round {round}");
        coded += u64::from(answer.coding() == coding);
        assert!(answer.coding() == coding || answer.coding() == "identity");
    }
    // What does not shrink is sent as it is; most do.
    assert!(coded * 2 > rounds(), "{coded} of {} were {coding}", rounds());
}

#[test]
fn bodies_survive_gzip() {
    survive("gzip");
}

#[test]
fn bodies_survive_br() {
    survive("br");
}

#[test]
fn bodies_survive_zstd() {
    survive("zstd");
}

#[test]
fn bodies_survive_deflate() {
    survive("deflate");
}

#[test]
fn a_client_that_takes_no_plain_answer_gets_every_body_coded() {
    let body: Arc<dyn Fn(usize) -> Vec<u8> + Send + Sync> =
        Arc::new(|size| Dice(5).body().into_iter().cycle().take(size).collect());
    let made = body.clone();
    let mut scene = Scene::new(CONFIG, move |head, stream| {
        let size = head.split([' ', '/']).nth(3).unwrap().parse().unwrap();
        begin(stream, "content-type: image/png\r\n")?;
        made(size).chunks(5_000).try_for_each(|piece| chunk(stream, piece))?;
        chunk(stream, b"")
    });
    for coding in CODINGS {
        for size in [1, 100, 100_000] {
            let answer = scene.get(&format!("/body/{size}"), &format!("{coding}, identity;q=0"));
            assert_eq!((answer.coding().as_str(), answer.text()), (coding, body(size)));
        }
    }
}
