//! The page that shows sixty pictures both ways: a request for each, and one for all.

use crate::reply::{self, Reply};

/// The page's own files.
pub fn find(name: &str) -> Option<Reply> {
    match name {
        "gallery.html" => Some(reply::page("text/html; charset=utf-8", include_str!("page/gallery.html"))),
        "gallery.css" => Some(reply::page("text/css; charset=utf-8", include_str!("page/gallery.css"))),
        "gallery.js" => Some(reply::page("text/javascript; charset=utf-8", include_str!("page/gallery.js"))),
        _ => None,
    }
}
