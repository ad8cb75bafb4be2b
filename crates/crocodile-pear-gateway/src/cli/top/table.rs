//! A status as text.

use std::fmt::Write;

use serde_json::Value;

use crate::config::visible::is_hidden;

/// Routes that are shown.
const ROUTES: usize = 20;

/// The top of the page, and its two main tables.
pub fn draw(status: &Value) -> String {
    let mut out = String::new();
    let (gateway, now, total) = (&status["gateway"], &status["now"], &status["total"]);
    let _ = writeln!(
        out,
        "crocodile-pear {}, up {} s: {} requests, {} failed",
        plain(&gateway["version"]),
        whole(&gateway["uptime"]),
        whole(&total["requests"]),
        whole(&total["failed"]),
    );
    let _ = writeln!(
        out,
        "now: {:.1} requests/s, {:.1} errors/s, p50 {}, p95 {}, p99 {}\n",
        now["requests"].as_f64().unwrap_or_default(),
        now["failed"].as_f64().unwrap_or_default(),
        time(&now["p50"]),
        time(&now["p95"]),
        time(&now["p99"]),
    );
    routes(&mut out, list(&status["routes"]));
    upstreams(&mut out, list(&status["upstreams"]));
    out
}

fn routes(out: &mut String, mut routes: Vec<&Value>) {
    routes.sort_by_key(|route| std::cmp::Reverse((whole(&route["requests"]), whole(&route["all"]))));
    let _ = writeln!(out, "{:<44} {:>8} {:>8} {:>9} {:>9} {:>9}", "ROUTE", "REQUESTS", "ERRORS", "P50", "P95", "P99");
    for route in routes.into_iter().take(ROUTES) {
        let name = match plain(&route["name"]) {
            name if name.is_empty() => "no endpoint".to_owned(),
            name => name,
        };
        let _ = writeln!(
            out,
            "{} {:>8} {:>8} {:>9} {:>9} {:>9}",
            fit(&name, 44),
            whole(&route["requests"]),
            whole(&route["failed"]),
            time(&route["p50"]),
            time(&route["p95"]),
            time(&route["p99"]),
        );
    }
}

fn upstreams(out: &mut String, upstreams: Vec<&Value>) {
    let _ = writeln!(
        out,
        "\n{:<44} {:>13} {:>7} {:>9} {:>9}  LAST FAILURE",
        "UPSTREAM SERVER", "STATE", "FAILED", "P50", "P95"
    );
    for upstream in upstreams {
        for server in list(&upstream["servers"]) {
            let name = format!("{} {}", plain(&upstream["name"]), plain(&server["address"]));
            let last = &server["last_failure"];
            let last = match last.is_null() {
                true => String::new(),
                false => format!("  {} {:.0} s ago", plain(&last["what"]), last["ago"].as_f64().unwrap_or_default()),
            };
            let _ = writeln!(
                out,
                "{} {:>13} {:>7} {:>9} {:>9}{last}",
                fit(&name, 44),
                plain(&server["state"]),
                whole(&server["failed"]),
                time(&server["p50"]),
                time(&server["p95"]),
            );
        }
    }
}

fn list(value: &Value) -> Vec<&Value> {
    value.as_array().map(|all| all.iter().collect()).unwrap_or_default()
}

/// A text in which nothing moves the terminal's cursor.
fn plain(value: &Value) -> String {
    value.as_str().unwrap_or_default().chars().map(|c| if is_hidden(c) { '?' } else { c }).collect()
}

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn time(value: &Value) -> String {
    match value.as_f64() {
        None => "-".to_owned(),
        Some(milliseconds) if milliseconds >= 1_000.0 => format!("{:.2} s", milliseconds / 1e3),
        Some(milliseconds) => format!("{milliseconds:.1} ms"),
    }
}

/// A text in so many columns.
fn fit(text: &str, columns: usize) -> String {
    match text.chars().count() > columns {
        true => text.chars().take(columns - 1).chain(['…']).collect(),
        false => format!("{text:<columns$}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_is_as_wide_as_its_head_and_holds_no_control() {
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit("ab", 4), "ab  ");
        assert_eq!(plain(&json!("a\u{1b}[2Jb\u{9b}\u{202e}")), "a?[2Jb??");
    }

    #[test]
    fn busy_routes_come_first() {
        let route = |name, requests| json!({ "name": name, "requests": requests, "failed": 0, "p95": 1_500.0 });
        let text = draw(&json!({ "routes": [route("GET /idle", 1), route("GET /busy", 9)] }));
        let at = |name| text.find(name).expect("it is shown");
        assert!(at("GET /busy") < at("GET /idle") && text.contains("1.50 s"), "{text}");
    }
}
