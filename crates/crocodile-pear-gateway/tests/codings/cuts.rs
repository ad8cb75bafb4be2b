//! An answer whose upstream breaks off inside it: what came can be read, and no decoder takes it for the whole.

use std::io;
use std::sync::Mutex;
use std::sync::mpsc;

use crate::codings::reader::{CODINGS, read};
use crate::codings::scene::{Scene, begin, chunk};
use crate::stage::client::Piece;

const CONFIG: &str = "compress: on\nupstreams: { up: '${UP}' }\nendpoints: { GET /news: up /news }\n";

#[test]
fn no_decoder_takes_a_cut_answer_for_the_whole() {
    let (go, goes) = mpsc::channel();
    let goes = Mutex::new(goes);
    let mut scene = Scene::new(CONFIG, move |_, stream| {
        begin(stream, "content-type: text/plain\r\n")?;
        chunk(stream, b"what came before ")?;
        let _ = goes.lock().unwrap().recv();
        Err(io::ErrorKind::ConnectionReset.into())
    });
    for coding in CODINGS {
        let client = scene.ask("GET /news", &format!("accept-encoding: {coding}\r\n"));
        let (head, mut came) = (client.head().unwrap(), Vec::new());
        assert!(head.fields.contains(&("content-encoding".to_owned(), coding.to_owned())));
        while read(coding, &came).0 != b"what came before " {
            let Piece::Data(data) = client.piece().unwrap() else { panic!("{coding} ends too early") };
            came.extend(data);
        }
        go.send(()).unwrap();
        loop {
            match client.piece().unwrap() {
                Piece::Data(data) => came.extend(data),
                Piece::Broken(_) => break,
                Piece::End(_) => panic!("{coding} ended as if it were whole"),
            }
        }
        assert_eq!(read(coding, &came), (b"what came before ".to_vec(), false), "{coding}");
        scene.renew();
    }
}
