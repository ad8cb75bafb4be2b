//! Sixty thumbnails of 13.3 KB, as JSON with base64 or as pictures. A page shows them twice: with a request for each, and with one
//! request for all.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use crate::picture;
use crate::reply::{self, Reply};

const THUMBNAILS: usize = 60;

pub struct Thumbnails(Vec<Thumbnail>);

struct Thumbnail {
    picture: Bytes,
    document: Bytes,
}

impl Thumbnails {
    pub fn new() -> Self {
        let pixels = picture::draw();
        Self((1..=THUMBNAILS).map(|number| Thumbnail::new(number, &pixels)).collect())
    }

    /// `7` is the document of the seventh, `7.png` its picture.
    pub fn one(&self, name: &str) -> Option<Reply> {
        match name.strip_suffix(".png") {
            Some(number) => Some(reply::page("image/png", self.find(number)?.picture.clone())),
            None => Some(reply::json(self.find(name)?.document.clone())),
        }
    }

    fn find(&self, number: &str) -> Option<&Thumbnail> {
        self.0.get(number.parse::<usize>().ok()?.checked_sub(1)?)
    }
}

impl Thumbnail {
    fn new(number: usize, pixels: &[u8]) -> Self {
        let picture = picture::paint(pixels, number - 1);
        let data = STANDARD.encode(&picture);
        let document =
            format!(r#"{{"id":{number},"title":"Crocodile pear {number}","data":"data:image/png;base64,{data}"}}"#);
        Self { picture: picture.into(), document: document.into() }
    }
}

/// A file of the page.
pub fn page(name: &str) -> Option<Reply> {
    match name {
        "gallery.html" => Some(reply::page("text/html; charset=utf-8", include_str!("page/gallery.html"))),
        "gallery.css" => Some(reply::page("text/css; charset=utf-8", include_str!("page/gallery.css"))),
        "gallery.js" => Some(reply::page("text/javascript; charset=utf-8", include_str!("page/gallery.js"))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_sixty_of_13_3_kilobytes() {
        let thumbnails = Thumbnails::new();
        assert_eq!(thumbnails.0.len(), 60);
        for thumbnail in &thumbnails.0 {
            assert!((13_250..=13_350).contains(&thumbnail.document.len()), "{}", thumbnail.document.len());
            serde_json::from_slice::<serde_json::Value>(&thumbnail.document).expect("JSON");
        }
        assert!(thumbnails.one("60.png").is_some() && thumbnails.one("60").is_some());
        assert!(thumbnails.one("0").is_none() && thumbnails.one("61").is_none());
    }
}
