//! `security/http`: header fields of answers that concern security.

use super::keys::Item;
use crate::yaml::{Map, Yaml};

/// The fields to set.
pub fn read(item: &Item<'_>) -> Map {
    let mut set = Map::default();
    let Some(keys) = item.map() else { return set };
    let seconds = keys.take("sts_seconds").and_then(|item| item.whole()).unwrap_or(0);
    let below = keys.take("sts_include_subdomains").is_some_and(|item| item.is_true());
    if seconds > 0 {
        let more = if below { "; includeSubDomains" } else { "" };
        set.set("strict-transport-security", Yaml::text(format!("max-age={seconds}{more}")));
    }
    let custom = keys.take("custom_frame_options_value").and_then(|item| item.text()).filter(|value| !value.is_empty());
    let denied = keys.take("frame_deny").is_some_and(|item| item.is_true());
    if let Some(value) = custom.or_else(|| denied.then(|| "DENY".to_owned())) {
        set.set("x-frame-options", Yaml::text(value));
    }
    if keys.take("content_type_nosniff").is_some_and(|item| item.is_true()) {
        set.set("x-content-type-options", Yaml::text("nosniff"));
    }
    if keys.take("browser_xss_filter").is_some_and(|item| item.is_true()) {
        set.set("x-xss-protection", Yaml::text("1; mode=block"));
    }
    for (name, field) in
        [("content_security_policy", "content-security-policy"), ("referrer_policy", "referrer-policy")]
    {
        if let Some(value) = keys.take(name).and_then(|item| item.text()).filter(|value| !value.is_empty()) {
            set.set(field, Yaml::text(super::martian::literal(&value)));
        }
    }
    for name in ["hpkp_public_key", "is_development"] {
        if let Some(item) = keys.take(name) {
            item.ignore("it has no effect: browsers do not know it any more, or it is for development");
        }
    }
    let reasons = [
        ("allowed_hosts", "write the endpoints into a group with `hosts`"),
        ("host_proxy_headers", "use `clients.trust`"),
        ("ssl_redirect", "add a listener with `redirect: https`"),
        ("ssl_host", "add a listener with `redirect: https`"),
        ("ssl_certificate", "use `tls` of the listener"),
        ("ssl_private_key", "use `tls` of the listener"),
        ("ssl_proxy_headers", "use `clients.trust`"),
    ];
    for (name, instead) in reasons {
        if let Some(item) = keys.take(name) {
            let off =
                item.node.as_plain() == Some("false") || item.node.as_text().is_some_and(|text| text.value.is_empty());
            let off = off || item.node.as_list().is_some_and(<[_]>::is_empty);
            match off {
                true => item.ignore("it is off"),
                false => item.report(format!("`{name}` is not imported"), instead),
            }
        }
    }
    keys.end();
    set
}
