//! Configurations of other gateways are imported, and `check` must call the result good.

mod krakend;
mod nginx;

use std::fs;
use std::path::Path;

use crocodile_pear_import::report::Fate;
use crocodile_pear_import::{Imported, Unreadable};

use super::write;

/// Imports a file with this text. Returns the configuration, which `check` must call good, and the keys of all settings
/// that are reported.
fn written(
    name: &str,
    text: &str,
    import: impl Fn(&Path, &Path) -> Result<Imported, Unreadable>,
) -> (String, Vec<String>) {
    let folder = std::env::temp_dir().join(format!("crocodile-pear-import-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(name);
    fs::write(&path, text).expect("a file");
    let imported = import(&path, &folder).ok().expect("it is a configuration");
    fs::remove_dir_all(&folder).expect("the folder");
    let document = imported.configuration.document();
    let checked = write::check(Path::new("out.yaml"), &document);
    assert_eq!(checked.lines(), Vec::<String>::new(), "{document}");
    let told = imported.report.settings().into_iter().filter(|setting| setting.fate == Fate::Reported);
    (document, told.map(|setting| setting.key.clone()).collect())
}
