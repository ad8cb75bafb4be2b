//! Large answers over HTTP/2 without TLS: the short form of `bench downloads`.

use crate::stage::downloads::play;
use crate::stage::program;

#[test]
fn no_download_stops_whatever_the_windows() {
    play(&program("crocodile-pear"), (8 << 20, 1), &[1, 2], |kind, outcome| assert_eq!(outcome.stopped, 0, "{kind}"));
}
