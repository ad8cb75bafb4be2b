//! An RSS feed with as many items as one asks for.

use crate::reply::{self, Reply};

/// Items: more make no other point.
const MOST: usize = 1000;

/// The feed with so many items, the latest first.
pub fn feed(count: usize) -> Option<Reply> {
    let item = |number: usize| {
        format!("<item><title>News {number}</title><link>https://press.example/news/{number}</link></item>")
    };
    let items: String = (1..=count).rev().map(item).collect();
    let feed = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<rss version=\"2.0\"><channel><title>The press</title>\
        <link>https://press.example/</link><description>What is new.</description>{items}</channel></rss>\n"
    );
    (count <= MOST).then(|| reply::page("application/rss+xml", feed))
}
