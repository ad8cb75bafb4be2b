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
        let level = keys.text("level").map(|level| level.to_ascii_uppercase());
        let level = match level.as_deref() {
            Some("DEBUG") => Some("debug"),
            Some("WARNING" | "WARN") => Some("warn"),
            Some("ERROR" | "CRITICAL" | "FATAL") => Some("error"),
            _ => None,
        };
        self.log.set_some("level", level.map(Yaml::plain));
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
        keys.ignore(
            &["stdout", "prefix", "syslog_facility", "backtrace", "custom_format", "access_log_format"],
            "it changes how lines look, and the lines are others here",
        );
        keys.end();
    }

    /// `telemetry/metrics`.
    pub fn metrics(&mut self, item: &Item<'_>) {
        let Some(keys) = item.map() else { return };
        let address = keys.text("listen_address").unwrap_or_else(|| ":8090".to_owned());
        let off = keys.is_true("endpoint_disabled");
        keys.ignore(
            &["collection_time", "proxy_disabled", "router_disabled", "backend_disabled"],
            "metrics are always counted, and read when they are asked for",
        );
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
        traces.set_some("service", keys.text("service_name").map(Yaml::text));
        let sample = keys.number("trace_sample_rate").map(|rate| format!("{}%", rate * 100.0));
        traces.set_some("sample", sample.map(Yaml::plain));
        keys.ignore(
            &["metric_reporting_period", "layers", "skip_paths", "service_version", "deployment_environment"],
            "spans and metrics are always whole",
        );
        if let Some(exporters) = keys.map("exporters") {
            for exporter in exporters.list("prometheus") {
                self.prometheus(&exporter);
            }
            for exporter in exporters.list("otlp") {
                self.otlp(&exporter, &traces);
            }
            exporters.end();
        }
        keys.end();
    }

    fn prometheus(&mut self, item: &Item<'_>) {
        let Some(keys) = item.map() else { return };
        let port = keys.whole("port").unwrap_or(9090);
        let address = keys.filled("listen_ip");
        keys.ignore(&["name", "process_metrics", "go_metrics", "disable_metrics"], "`admin` has all metrics");
        keys.end();
        self.admin = Some(local(item, &format!("{}:{port}", address.unwrap_or_default())));
    }

    fn otlp(&mut self, item: &Item<'_>, traces: &Map) {
        let Some(keys) = item.map() else { return };
        let host = keys.text("host").unwrap_or_else(|| "localhost".to_owned());
        let given = keys.whole("port");
        let http = keys.is_true("use_http");
        let off = keys.is_true("disable_traces");
        keys.ignore(&["name", "disable_metrics"], "it has no counterpart: metrics are at `admin`");
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
        all.extend(traces);
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
