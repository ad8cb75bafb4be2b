//! A Prometheus of the run's own, which scrapes every second, and what it has seen.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::figures::{Closed, Report};
use super::picture::{Band, Panel, series};
use super::servers::{Running, Server};
use crate::Result;
use crate::client::Connection;
use crate::process::{Folder, Process, free_address};

pub struct Prometheus(Process);

/// The pictures: a title, a unit, a query.
const SERIES: [(&str, &str, &str); 5] = [
    ("requests", "1/s", "sum(rate(http_server_request_duration_seconds_count[3s]))"),
    (
        "mean response time",
        "ms",
        "1000 * sum(rate(http_server_request_duration_seconds_sum[3s])) / sum(rate(http_server_request_duration_seconds_count[3s]))",
    ),
    ("run queue of the machine", "threads", "items_run_queue"),
    ("connections to PostgreSQL", "", "items_postgres_connections"),
    ("CPU of the gateway", "cores", "rate(process_cpu_seconds_total{job=\"gateway\"}[3s])"),
];

/// Starts it, for these servers and the bench's own page.
pub fn start(running: &[Running], page: SocketAddr) -> Result<Prometheus> {
    let folder = Folder::new("prometheus")?;
    let address = free_address()?;
    let mut jobs = format!("- {{ job_name: bench, static_configs: [{{ targets: ['{page}'] }}] }}\n");
    for admin in running.iter().filter_map(|one| one.admin) {
        jobs += &format!("- {{ job_name: gateway, static_configs: [{{ targets: ['{admin}'] }}] }}\n");
    }
    let text = format!("global: {{ scrape_interval: 1s, scrape_timeout: 1s }}\nscrape_configs:\n{jobs}");
    let file = folder.write("prometheus.yml", &text)?;
    let mut command = Command::new("prometheus");
    command.arg("--config.file").arg(file).arg("--storage.tsdb.path").arg(folder.path().join("data"));
    command.arg(format!("--web.listen-address={address}"));
    let process = Process::start(command, address, folder)
        .map_err(|error| format!("{error}; install it with: apt install prometheus"))?;
    Ok(Prometheus(process))
}

impl Prometheus {
    /// The picture of the gateway's cases.
    pub async fn series(&self, report: &Report) -> Result<String> {
        let gateway = report.figures.iter().find(|figures| figures.server == Server::CrocodilePear);
        let closed = &gateway.ok_or("the gateway was not measured")?.closed;
        let (Some(first), Some(last)) = (closed.first(), closed.last()) else { return Err("no case ran".into()) };
        let (from, to) = (seconds(first.span.0) - 2.0, seconds(last.span.1) + 3.0);
        let mut panels = Vec::new();
        for (title, unit, query) in SERIES {
            let points = self.query(query, from, to).await?;
            panels.push(Panel {
                title,
                unit,
                points: points.into_iter().map(|(at, value)| (at - from, value)).collect(),
            });
        }
        let band = |closed: &Closed| Band {
            name: format!("{} (N = {})", closed.case.name, closed.case.clients),
            from: seconds(closed.span.0) - from,
            to: seconds(closed.span.1) - from,
        };
        let bands: Vec<Band> = closed.iter().map(band).collect();
        Ok(series("Cases A to E through the gateway, as Prometheus saw them", to - from, &bands, &panels))
    }

    async fn query(&self, query: &str, from: f64, to: f64) -> Result<Vec<(f64, f64)>> {
        let coded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let target = format!("/api/v1/query_range?query={coded}&start={from:.3}&end={to:.3}&step=0.5");
        let mut connection = Connection::open(self.0.address).await?;
        let answer = connection.exchange(&crate::load::get(&target, "prometheus")).await?;
        let document: Value = serde_json::from_slice(&answer.body)?;
        let values = document["data"]["result"][0]["values"].as_array().cloned().unwrap_or_default();
        if values.is_empty() {
            return Err(format!("Prometheus knows nothing of `{query}`").into());
        }
        let point = |value: &Value| Some((value[0].as_f64()?, value[1].as_str()?.parse().ok()?));
        Ok(values.iter().filter_map(point).filter(|(_, value): &(f64, f64)| value.is_finite()).collect())
    }
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
