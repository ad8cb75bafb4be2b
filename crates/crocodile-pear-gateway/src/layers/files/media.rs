//! The media types of files, by the endings of their names.

#[derive(Clone, Copy)]
pub struct FileMediaType {
    pub name: &'static str,
    /// Whether it is worth compressing.
    pub compressible: bool,
}

/// A file whose ending nobody knows.
pub const UNKNOWN: FileMediaType = FileMediaType { name: "application/octet-stream", compressible: false };

/// Endings and their types, as IANA and the WHATWG have them.
const TEXTS: [(&str, &str); 24] = [
    ("html", "text/html; charset=utf-8"),
    ("htm", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("map", "application/json"),
    ("webmanifest", "application/manifest+json"),
    ("jsonld", "application/ld+json"),
    ("geojson", "application/geo+json"),
    ("svg", "image/svg+xml"),
    ("xml", "application/xml"),
    ("xhtml", "application/xhtml+xml"),
    ("rss", "application/rss+xml"),
    ("atom", "application/atom+xml"),
    ("txt", "text/plain; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("ics", "text/calendar; charset=utf-8"),
    ("vtt", "text/vtt; charset=utf-8"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("wasm", "application/wasm"),
    ("ico", "image/x-icon"),
];

const OTHERS: [(&str, &str); 34] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("apng", "image/apng"),
    ("jxl", "image/jxl"),
    ("bmp", "image/bmp"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("ttf", "font/ttf"),
    ("otf", "font/otf"),
    ("mp4", "video/mp4"),
    ("m4v", "video/mp4"),
    ("webm", "video/webm"),
    ("ogv", "video/ogg"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("m4a", "audio/mp4"),
    ("ogg", "audio/ogg"),
    ("opus", "audio/ogg"),
    ("wav", "audio/wav"),
    ("flac", "audio/flac"),
    ("pdf", "application/pdf"),
    ("zip", "application/zip"),
    ("gz", "application/gzip"),
    ("tar", "application/x-tar"),
    ("7z", "application/x-7z-compressed"),
    ("br", "application/x-brotli"),
    ("zst", "application/zstd"),
    ("epub", "application/epub+zip"),
];

/// The type of a file, if its ending is known.
pub fn from_path(path: &str) -> Option<FileMediaType> {
    let name = path.rsplit('/').next()?;
    let (_, ending) = name.rsplit_once('.')?;
    let known = |list: &[(&str, &'static str)]| {
        list.iter().find(|(known, _)| known.eq_ignore_ascii_case(ending)).map(|(_, name)| *name)
    };
    let text = known(&TEXTS).map(|name| FileMediaType { name, compressible: true });
    text.or_else(|| known(&OTHERS).map(|name| FileMediaType { name, compressible: false }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_says_the_type() {
        let name = |path| from_path(path).map(|media| media.name);
        assert_eq!(name("a/b.HTML"), Some("text/html; charset=utf-8"));
        assert_eq!(name("app.min.js"), Some("text/javascript; charset=utf-8"));
        assert_eq!(name("a.b/c"), None);
        assert_eq!(name("page.unknown"), None);
    }
}
