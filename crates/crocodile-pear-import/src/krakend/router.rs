//! `router`: options of KrakenD's router.

use super::keys::{Item, ObjectKeys};
use crate::yaml::{Map, Yaml};

#[derive(Default)]
pub struct Options {
    pub access_log_is_off: bool,
    pub health_is_off: bool,
    pub health_path: Option<String>,
    pub trust: Vec<String>,
    pub max_body: Option<u64>,
}

pub fn read(item: &Item<'_>) -> Options {
    let mut options = Options::default();
    let Some(keys) = item.map() else { return options };
    options.access_log_is_off = keys.is_true("disable_access_log");
    options.health_is_off = keys.is_true("disable_health");
    options.health_path = keys.text("health_path");
    options.trust = keys.texts("trusted_proxies");
    options.max_body = keys.whole("max_payload").filter(|size| *size > 0);
    others(&keys);
    keys.end();
    options
}

fn others(keys: &ObjectKeys<'_>) {
    keys.ignore(
        &[
            "forwarded_by_client_ip",
            "remote_ip_headers",
            "disable_gzip",
            "hide_version_header",
            "app_engine",
            "disable_path_decoding",
        ],
        "the gateway has no such header field or setting: `clients.trust` names whom it believes",
    );
    for name in ["disable_redirect_fixed_path", "disable_redirect_trailing_slash", "remove_extra_slash"] {
        if let Some(item) = keys.take(name) {
            match item.is_true() {
                true if name != "remove_extra_slash" => item.done(),
                true => item.report("slashes that are too many are not removed", ""),
                false => item.ignore("it is off"),
            }
        }
    }
    let reasons = [
        ("return_error_msg", "errors are problem documents (RFC 9457) that name the step"),
        ("error_body", "use `reject` with a `body`, or `on_status` of the call"),
        ("logger_skip_paths", "use `log: { access: { when: … } }`"),
        ("auto_options", "the gateway answers OPTIONS of `cors` only"),
        ("disable_handle_method_not_allowed", "another method gets 405"),
        ("case_insensitive", "paths are compared with regard to case"),
        ("use_h2c", "see the page on HTTP/2 for what listeners speak"),
    ];
    for (name, instead) in reasons {
        let Some(item) = keys.take(name) else { continue };
        match item.node.as_plain() {
            Some("false") => item.ignore("it is off"),
            _ => item.report(format!("`{name}` is not imported"), instead),
        }
    }
}

impl Options {
    pub fn write(&self, clients: &mut Map) {
        clients.set_filled("trust", Yaml::texts(&self.trust));
    }
}
