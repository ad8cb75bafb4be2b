//! A configuration of several files: `include` adds others to one.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
};

use crate::problem::{Problems, Span};
use crate::settings::{Decode, Located, Node, NodeKind};
use crate::yaml;

use super::pattern::{expand, is_pattern};
use super::sources::{Sources, bytes, reason};

/// The key that names the files to add.
const INCLUDE: &str = "include";

/// How the keys at the top of a file begin that mean nothing to the gateway.
const EXTENSION: &str = "x-";

/// The maps that files add to; any other key is set in one file.
const SHARED: [&str; 4] = ["upstreams", "databases", "endpoints", "groups"];

/// A configuration of more files is a mistake.
const MOST_FILES: usize = 256;

/// Reads a file and all that it includes.
pub fn load(path: &Path, environment: &yaml::Environment<'_>) -> (Option<Node>, Sources, Problems) {
    let mut loader = Loader {
        environment,
        sources: Sources::default(),
        problems: Problems::default(),
        loaded: HashSet::new(),
        within: Vec::new(),
        sound: true,
    };
    let node = loader.load(path, Span::default());
    let Loader { sources, problems, sound, .. } = loader;
    (node.filter(|_| sound), sources, problems)
}

struct Loader<'a> {
    environment: &'a yaml::Environment<'a>,
    sources: Sources,
    problems: Problems,
    loaded: HashSet<PathBuf>,
    /// The files whose includes are being read, outermost first.
    within: Vec<PathBuf>,
    /// Whether all files could be read.
    sound: bool,
}

impl Loader<'_> {
    /// A file with its includes; `from` is where it is named.
    fn load(&mut self, path: &Path, from: Span) -> Option<Node> {
        let read = self.read(path, from);
        self.sound &= read.is_some();
        let (file, identity) = read?;
        let Some(file) = file else { return Some(Node { span: from, kind: NodeKind::Map(Vec::new()) }) };
        let text = &self.sources.file(file)?.text;
        let node = yaml::read(file, text, self.environment, &mut self.problems);
        self.sound &= node.is_some();
        let mut node = node?;
        if let NodeKind::Map(entries) = &mut node.kind {
            // They hold what anchors name.
            entries.retain(|(key, _)| !key.value.starts_with(EXTENSION));
        }
        self.within.push(identity);
        let node = self.extend(node, path);
        self.within.pop();
        Some(node)
    }

    /// The number of a file that is now read, or nothing for one that was read before.
    fn read(&mut self, path: &Path, from: Span) -> Option<(Option<u32>, PathBuf)> {
        let identity = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if self.within.contains(&identity) {
            return self.problems.error(
                from,
                "this file includes itself, directly or through another file",
                "leave it out",
            );
        }
        if !self.loaded.insert(identity.clone()) {
            return Some((None, identity));
        }
        if self.loaded.len() > MOST_FILES + 1 {
            // It has been told.
            return None;
        }
        if self.loaded.len() > MOST_FILES {
            return self.problems.error(
                from,
                format!("more than {MOST_FILES} files are included"),
                "put some together",
            );
        }
        let text = text(path);
        let (text, fault) = match text {
            Ok(text) => (text, None),
            Err(fault) => (String::new(), Some(fault)),
        };
        // A root that cannot be read is a source too: its problem must name a file.
        let file = (fault.is_none() || self.within.is_empty()).then(|| self.sources.add(path.to_owned(), text));
        match fault {
            Some(fault) => {
                let message = format!("cannot read `{}`: {}", path.display(), reason(&fault));
                let first = self.within.is_empty() && fault.kind() == io::ErrorKind::NotFound;
                let remedy = if first { "`crocodile-pear init` writes a first one" } else { "" };
                self.problems.error(from, message, remedy)
            }
            None => Some((file, identity)),
        }
    }

    /// Adds what a file includes to what it says itself.
    fn extend(&mut self, mut node: Node, path: &Path) -> Node {
        let NodeKind::Map(entries) = &mut node.kind else { return node };
        let Some(at) = entries.iter().position(|(key, _)| key.value == INCLUDE) else { return node };
        let (_, paths) = entries.remove(at);
        let paths = match paths.as_text() {
            Some(path) => Some(vec![path]),
            None => Vec::<Located<String>>::decode(&paths, &mut self.problems),
        };
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut files: Vec<(PathBuf, Span)> = Vec::new();
        for other in paths.unwrap_or_default() {
            if !is_pattern(&other.value) {
                files.push((folder.join(&other.value), other.span));
                continue;
            }
            let found = expand(folder, &other.value);
            if found.is_empty() {
                let message = format!("no file fits `{other}`");
                self.problems.warning(
                    other.span,
                    message,
                    "`*` stands for a part of one name; paths are relative to this file",
                );
            }
            // It may fit the file itself.
            let own = self.within.last().cloned();
            let others = found.into_iter().filter(|found| fs::canonicalize(found).ok() != own);
            files.extend(others.map(|found| (found, other.span)));
        }
        for (beside, place) in files {
            let Some(added) = self.load(&beside, place) else { continue };
            match added.kind {
                NodeKind::Map(added) => self.merge(entries, added, &SHARED),
                NodeKind::Null => {}
                _ => drop(added.wrong::<()>("a map, as any configuration is", "", &mut self.problems)),
            }
        }
        node
    }

    /// Adds entries; those of a `shared` map are added to it, any other may only be there once.
    fn merge(
        &mut self,
        entries: &mut Vec<(Located<String>, Node)>,
        added: Vec<(Located<String>, Node)>,
        shared: &[&str],
    ) {
        for (key, value) in added {
            let Some((first, own)) = entries.iter_mut().find(|(other, _)| other.value == key.value) else {
                entries.push((key, value));
                continue;
            };
            match (&mut own.kind, value.kind) {
                (NodeKind::Map(own), NodeKind::Map(others)) if shared.contains(&key.as_str()) => {
                    self.merge(own, others, &[]);
                }
                (_, NodeKind::Null) if shared.contains(&key.as_str()) => {}
                (kind @ NodeKind::Null, other) if shared.contains(&key.as_str()) => *kind = other,
                _ => {
                    let path = self.sources.file(first.span.file).map(|source| source.path.display().to_string());
                    let path = path.unwrap_or_default();
                    let message = format!("`{key}` is set already, in {path}, line {}", first.span.line);
                    self.problems.error::<()>(key.span, message, "keep one of the two");
                }
            }
        }
    }
}

/// The text of a file, without a mark at its begin, with `\n` at the end of every line.
fn text(path: &Path) -> io::Result<String> {
    let text = String::from_utf8(bytes(path)?).map_err(|_| io::ErrorKind::InvalidData)?;
    // Programs and `/proc/self/environ`, which problems would quote.
    if text.contains('\0') {
        return Err(io::Error::other("it is not a text"));
    }
    // YAML takes all three for the end of a line (1.2.2, 5.4); with one of them, lines are counted alike everywhere.
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::load;
    use crate::document::{Colour, ProblemFormat, report};

    /// A folder with these files, gone with the value.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let path = std::env::temp_dir().join(format!("crocodile-pear-{}-{name}", std::process::id()));
            for (file, text) in files {
                let file = path.join(file);
                fs::create_dir_all(file.parent().expect("a folder")).expect("a folder to write in");
                fs::write(file, text).expect("a file to write");
            }
            Self(path)
        }

        /// The keys of the merged tree with the lines they stand in, and what is reported.
        fn load(&self) -> (Option<String>, String) {
            let (node, sources, problems) = load(&self.0.join("a.yaml"), &|_| None);
            let keys = node.map(|node| {
                let top = node.as_map().unwrap_or_default().iter();
                let line = top.map(|(key, value)| {
                    let inner = value.as_map().unwrap_or_default().iter();
                    let inner: Vec<_> = inner.map(|(key, _)| format!("{key}@{}", key.span.file)).collect();
                    format!("{key}({})", inner.join(" "))
                });
                line.collect::<Vec<_>>().join(" ")
            });
            let told = report(&problems.into_sorted(), &sources, ProblemFormat::Text(Colour::Never));
            (keys, told.replace(&format!("{}/", self.0.display()), ""))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn files_add_to_the_same_maps() {
        let folder = Folder::new(
            "add",
            &[
                ("a.yaml", "include: [parts/b.yaml, c.yaml]\nlisten: x\nupstreams:\n  one: u\n"),
                ("parts/b.yaml", "include: ../c.yaml\nupstreams:\n  two: u\nendpoints:\n  GET /: two /\n"),
                ("c.yaml", "\u{feff}upstreams:\nadmin: y\n"),
            ],
        );
        let (keys, told) = folder.load();
        assert_eq!(told, "");
        assert_eq!(keys.as_deref(), Some("listen() upstreams(one@0 two@1) endpoints(GET /@1) admin()"));
    }

    #[test]
    fn what_two_files_say_is_told_with_both_places() {
        let folder = Folder::new(
            "twice",
            &[
                ("a.yaml", "include: b.yaml\nlisten: x\nupstreams:\n  one: u\n"),
                ("b.yaml", "listen: x\nupstreams:\n  one: u\n"),
            ],
        );
        let wanted = "\
error: `listen` is set already, in a.yaml, line 2
 --> b.yaml:1:1
  |
1 | listen: x
  | ^^^^^^ keep one of the two

error: `one` is set already, in a.yaml, line 4
 --> b.yaml:3:3
  |
3 |   one: u
  |   ^^^ keep one of the two

2 problems
";
        assert_eq!(folder.load().1, wanted);
    }

    #[test]
    fn circles_and_missing_files_are_told() {
        let folder = Folder::new(
            "circle",
            &[("a.yaml", "include:\n  - b.yaml\n  - none.yaml\n"), ("b.yaml", "include: ./a.yaml\n")],
        );
        let (keys, told) = folder.load();
        assert_eq!(keys, None);
        let wanted = "\
error: cannot read `none.yaml`: there is no such file
 --> a.yaml:3:5
  |
3 |   - none.yaml
  |     ^^^^^^^^^

error: this file includes itself, directly or through another file
 --> b.yaml:1:10
  |
1 | include: ./a.yaml
  |          ^^^^^^^^ leave it out

2 problems
";
        assert_eq!(told, wanted);
        let empty = Folder::new("empty", &[]);
        let wanted = "\
error: cannot read `a.yaml`: there is no such file
 --> a.yaml
  `crocodile-pear init` writes a first one

1 problem
";
        assert_eq!(empty.load(), (None, wanted.to_owned()));
    }
}
