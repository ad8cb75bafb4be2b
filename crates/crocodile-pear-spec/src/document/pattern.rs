//! Names of files with `*` and `?`.

use std::fs;
use std::path::{Path, PathBuf};

/// Whether a path is a pattern: it has a `*` or a `?`.
pub fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?'])
}

/// The files that a pattern names, in order. `*` stands for any text of one name, `?` for one character. Names that begin
/// with a dot have to be written with it.
pub fn expand(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let begin = if pattern.starts_with('/') { PathBuf::from("/") } else { folder.to_owned() };
    let mut found = vec![begin];
    for segment in pattern.split('/').filter(|segment| !segment.is_empty()) {
        found = found.iter().flat_map(|folder| within(folder, segment)).collect();
    }
    found.retain(|path| path.is_file());
    found
}

fn within(folder: &Path, segment: &str) -> Vec<PathBuf> {
    if !is_pattern(segment) {
        return vec![folder.join(segment)];
    }
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let names =
        fs::read_dir(here).into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| fits(segment.as_bytes(), name.as_bytes())).collect();
    names.retain(|name| !name.starts_with('.') || segment.starts_with('.'));
    names.sort_unstable();
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// Whether a name fits a pattern. Each `*` is tried from the shortest text on.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from, mut star) = (0, 0, None);
    while from < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(sign) if *sign == b'?' || *sign == name[from] => (at, from) = (at + 1, from + 1),
            _ => match star {
                Some((begin, taken)) => {
                    star = Some((begin, taken + 1));
                    (at, from) = (begin + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|sign| *sign == b'*')
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_pattern_fits_whole_names() {
        for (pattern, name, whether) in [
            ("*.yaml", "a.yaml", true),
            ("*.yaml", "a.yaml.bak", false),
            ("team-?.yaml", "team-1.yaml", true),
            ("team-?.yaml", "team-12.yaml", false),
            ("*a*b*", "xaxxbx", true),
            ("*a*b*", "xbxa", false),
            ("**", "x", true),
            ("a", "a", true),
            ("*", "", true),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), whether, "{pattern} {name}");
        }
        // It takes no time that doubles with each star.
        assert!(!fits("*a".repeat(50).as_bytes(), "a".repeat(49).as_bytes()));
    }
}
