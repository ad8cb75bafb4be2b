//! Inputs and what is written of them.

use std::fs;

use super::import;
use crate::report::Fate;

#[test]
fn each_directive_has_one_entry() {
    let text = "worker_processes auto;\nevents { worker_connections 1; }\nhttp {\n  unknown_thing 1;\n  map $a $b { default 1; }\n  \
                server { listen 80; if ($x) { return 403; } location / { proxy_pass http://up; lua_code_cache on; } }\n}\n\
                stream { server { listen 1; } }\n";
    let folder = std::env::temp_dir();
    let path = folder.join(format!("crocodile-pear-entries-{}.conf", std::process::id()));
    fs::write(&path, text).expect("a file");
    let imported = import(&path, &folder).ok().expect("it is a configuration");
    let _ = fs::remove_file(&path);
    let fates: Vec<(String, Fate)> =
        imported.report.settings().into_iter().map(|setting| (setting.key.clone(), setting.fate)).collect();
    let wanted = [
        ("worker_processes", Fate::Ignored),
        ("events", Fate::Ignored),
        ("http", Fate::Imported),
        ("http.unknown_thing", Fate::Reported),
        ("http.map[$b]", Fate::Reported),
        ("http.server", Fate::Imported),
        ("http.server.listen", Fate::Imported),
        ("http.server.if[($x)]", Fate::Reported),
        ("http.server.location[/]", Fate::Imported),
        ("http.server.location[/].proxy_pass", Fate::Imported),
        ("http.server.location[/].lua_code_cache", Fate::Reported),
        ("stream", Fate::Reported),
    ];
    assert_eq!(fates, wanted.map(|(key, fate)| (key.to_owned(), fate)));
}
