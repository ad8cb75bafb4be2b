//! `security/http`: header fields of answers that concern security.

use super::keys::Item;
use crate::yaml::{Map, Yaml};

/// The fields to set.
pub fn read(item: &Item<'_>) -> Map {
    let mut set = Map::default();
    let Some(keys) = item.map() else { return set };
    let seconds = keys.whole("sts_seconds").unwrap_or(0);
    let below = keys.is_true("sts_include_subdomains");
    if seconds > 0 {
        let more = if below { "; includeSubDomains" } else { "" };
        set.set("strict-transport-security", Yaml::text(format!("max-age={seconds}{more}")));
    }
    let custom = keys.filled("custom_frame_options_value");
    let denied = keys.is_true("frame_deny");
    set.set_some("x-frame-options", custom.or_else(|| denied.then(|| "DENY".to_owned())).map(Yaml::text));
    if keys.is_true("content_type_nosniff") {
        set.set("x-content-type-options", Yaml::text("nosniff"));
    }
    if keys.is_true("browser_xss_filter") {
        set.set("x-xss-protection", Yaml::text("1; mode=block"));
    }
    for (name, field) in
        [("content_security_policy", "content-security-policy"), ("referrer_policy", "referrer-policy")]
    {
        set.set_some(field, keys.filled(name).map(|value| Yaml::text(super::martian::literal(&value))));
    }
    keys.ignore(
        &["hpkp_public_key", "is_development"],
        "it has no effect: browsers do not know it any more, or it is for development",
    );
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
