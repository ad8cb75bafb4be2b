//! `telemetry/*`: the log, metrics and traces.

use super::keys::Item;
use crate::yaml::{Map, Yaml};

/// The settings that the telemetry needs of the configuration.
#[derive(Default)]
pub struct Telemetry {
    pub log: Map,
    pub admin: Option<String>,
    pub traces: Option<Map>,
}

impl Telemetry {
    /// `telemetry/logging`.
    pub fn logging(&mut self, item: &Item<'_>) {
        let Some(keys) = item.map() else { return };
        let level = keys.take("level").and_then(|item| item.text()).map(|level| level.to_ascii_uppercase());
        let level = match level.as_deref() {
            Some("DEBUG") => Some("debug"),
            Some("WARNING" | "WARN") => Some("warn"),
            Some("ERROR" | "CRITICAL" | "FATAL") => Some("error"),
            _ => None,
        };
        if let Some(level) = level {
            self.log.set("level", Yaml::plain(level));
        }
        if let Some(format) = keys.take("format") {
            match format.text().as_deref() {
                Some("logstash") => drop(self.log.set("format", Yaml::plain("json"))),
                Some("default") | None => {}
                Some(other) => format.report(format!("the format `{other}` is not imported"), "use `text` or `json`"),
            }
        }
        if let Some(item) = keys.take("syslog")
            && item.is_true()
        {
            item.report(
                "the log goes to the standard error stream",
                "use `log: { access: { to: syslog } }` for the access log, and journald",
            );
        }
        for name in ["stdout", "prefix", "syslog_facility", "backtrace", "custom_format", "access_log_format"] {
            if let Some(item) = keys.take(name) {
                item.ignore("it changes how lines look, and the lines are others here");
            }
        }
        keys.end();
    }

    /// `telemetry/metrics`.
    pub fn metrics(&mut self, item: &Item<'_>) {
        let Some(keys) = item.map() else { return };
        let address = keys.take("listen_address").and_then(|item| item.text()).unwrap_or_else(|| ":8090".to_owned());
        let off = keys.take("endpoint_disabled").is_some_and(|item| item.is_true());
        for name in ["collection_time", "proxy_disabled", "router_disabled", "backend_disabled"] {
            if let Some(item) = keys.take(name) {
                item.ignore("metrics are always counted, and read when they are asked for");
            }
        }
        keys.end();
        if !off {
            item.remark("the metrics are at `/metrics` of `admin`, for Prometheus, instead of `/__stats`", "");
            self.admin = Some(local(item, &address));
        }
    }

    /// `telemetry/opentelemetry`.
    pub fn opentelemetry(&mut self, item: &Item<'_>) {
        let Some(keys) = item.map() else { return };
        let mut traces = Map::default();
        if let Some(name) = keys.take("service_name").and_then(|item| item.text()) {
            traces.set("service", Yaml::text(name));
        }
        if let Some(rate) = keys.take("trace_sample_rate").and_then(|item| item.number()) {
            traces.set("sample", Yaml::plain(format!("{}%", rate * 100.0)));
        }
        for name in ["metric_reporting_period", "layers", "skip_paths", "service_version", "deployment_environment"] {
            if let Some(item) = keys.take(name) {
                item.ignore("spans and metrics are always whole");
            }
        }
        if let Some(exporters) = keys.take("exporters").and_then(|item| item.map()) {
            for exporter in exporters.take("prometheus").map(|item| item.list()).unwrap_or_default() {
                self.prometheus(&exporter);
            }
            for exporter in exporters.take("otlp").map(|item| item.list()).unwrap_or_default() {
                self.otlp(&exporter, &traces);
            }
            exporters.end();
        }
        keys.end();
    }

    fn prometheus(&mut self, item: &Item<'_>) {
        let Some(keys) = item.map() else { return };
        let port = keys.take("port").and_then(|item| item.whole()).unwrap_or(9090);
        let address = keys.take("listen_ip").and_then(|item| item.text()).filter(|ip| !ip.is_empty());
        for name in ["name", "process_metrics", "go_metrics", "disable_metrics"] {
            if let Some(item) = keys.take(name) {
                item.ignore("`admin` has all metrics");
            }
        }
        keys.end();
        self.admin = Some(local(item, &format!("{}:{port}", address.unwrap_or_default())));
    }

    fn otlp(&mut self, item: &Item<'_>, traces: &Map) {
        let Some(keys) = item.map() else { return };
        let host = keys.take("host").and_then(|item| item.text()).unwrap_or_else(|| "localhost".to_owned());
        let given = keys.take("port").and_then(|item| item.whole());
        let http = keys.take("use_http").is_some_and(|item| item.is_true());
        let off = keys.take("disable_traces").is_some_and(|item| item.is_true());
        for name in ["name", "disable_metrics"] {
            if let Some(item) = keys.take(name) {
                item.ignore("it has no counterpart: metrics are at `admin`");
            }
        }
        keys.end();
        if off || self.traces.is_some() {
            return;
        }
        let port = if http { given.unwrap_or(4318) } else { 4318 };
        if !http {
            item.remark(
                "traces are sent over HTTP, not gRPC",
                format!("the collector must listen for OTLP over HTTP on port {port}"),
            );
        }
        let mut all = Map::of("to", Yaml::text(format!("http://{host}:{port}")));
        for (key, value) in traces.iter() {
            all.set(key, value.clone());
        }
        self.traces = Some(all);
    }
}

/// The address for `admin`: of this machine only, because it also purges caches.
fn local(item: &Item<'_>, address: &str) -> String {
    let (host, port) = address.rsplit_once(':').unwrap_or(("", address));
    if ["127.0.0.1", "[::1]", "localhost"].contains(&host) {
        return format!("{}:{port}", if host == "localhost" { "127.0.0.1" } else { host });
    }
    item.remark(
        "`admin` listens for this machine only: it does more than show metrics",
        "for other machines write `admin: { address: ADDRESS, token: TOKEN }`",
    );
    format!("127.0.0.1:{port}")
}
