//! The text formats in which metrics are read: of Prometheus, version 0.0.4, and OpenMetrics 1.0.

use std::fmt::{Arguments, Display, Write};

use crocodile_pear::unstable::http::list;
use crocodile_pear::unstable::telemetry::histogram::{BucketBounds, Snapshot};

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpositionFormat {
    Prometheus,
    /// The standard that was made of it.
    OpenMetrics,
}

impl ExpositionFormat {
    /// The best of those that a scraper takes, by its `accept`.
    pub fn choose(accept: &str) -> Self {
        if list::takes(accept, "application/openmetrics-text") {
            ExpositionFormat::OpenMetrics
        } else {
            ExpositionFormat::Prometheus
        }
    }

    /// Its media type.
    pub fn media(self) -> &'static str {
        match self {
            ExpositionFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            ExpositionFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Metrics as text, while it is written.
pub struct Exposition {
    out: String,
    format: ExpositionFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetricType {
    Counter,
    Gauge,
    Histogram,
    Summary,
    Info,
}

impl Exposition {
    /// An empty exposition.
    pub fn new(format: ExpositionFormat) -> Self {
        Exposition { out: String::with_capacity(64 * 1024), format }
    }

    /// The whole text.
    pub fn end(mut self) -> String {
        if self.format == ExpositionFormat::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }

    /// A metric that only grows; its name ends in `_total`.
    pub fn counter<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family(name, MetricType::Counter, help)
    }

    /// A metric that grows and shrinks.
    pub fn gauge<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family(name, MetricType::Gauge, help)
    }

    /// Times in buckets.
    pub fn histogram<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family(name, MetricType::Histogram, help)
    }

    /// A number of things and their sum.
    pub fn summary<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family(name, MetricType::Summary, help)
    }

    /// A metric whose labels are the information; its name ends in `_info`.
    pub fn info<'a>(&'a mut self, name: &'a str, help: &str) -> Family<'a> {
        self.family(name, MetricType::Info, help)
    }

    fn family<'a>(&'a mut self, name: &'a str, kind: MetricType, help: &str) -> Family<'a> {
        let open = self.format == ExpositionFormat::OpenMetrics;
        let base = match kind {
            MetricType::Counter if open => name.strip_suffix("_total").unwrap_or(name),
            MetricType::Info if open => name.strip_suffix("_info").unwrap_or(name),
            _ => name,
        };
        let word = match kind {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
            MetricType::Summary => "summary",
            MetricType::Info if open => "info",
            MetricType::Info => "gauge",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(self.out, "# HELP {base} {help}\n# TYPE {base} {word}");
        let unit = ["seconds", "bytes"].into_iter().find(|unit| base.ends_with(&format!("_{unit}")));
        if let (true, Some(unit)) = (open, unit) {
            let _ = writeln!(self.out, "# UNIT {base} {unit}");
        }
        Family { out: &mut self.out, name, format: self.format, marks: Marks::default() }
    }
}

/// The samples of one metric.
pub struct Family<'a> {
    out: &'a mut String,
    name: &'a str,
    format: ExpositionFormat,
    marks: Marks,
}

/// The bounds of a histogram as text.
#[derive(Default)]
struct Marks {
    bounds: BucketBounds,
    texts: Vec<String>,
}

impl Marks {
    fn read(&mut self, bounds: BucketBounds, format: ExpositionFormat) {
        if self.bounds == bounds {
            return;
        }
        let text = |bound: &u64| match (format, *bound as f64 / 1e9) {
            (ExpositionFormat::OpenMetrics, seconds) => format!("{seconds:?}"),
            (ExpositionFormat::Prometheus, seconds) => seconds.to_string(),
        };
        (self.bounds, self.texts) = (bounds, bounds.iter().map(text).collect());
    }
}

impl Family<'_> {
    /// The one sample of a metric without labels.
    pub fn only(&mut self, value: impl Display) {
        let _ = writeln!(self.out, "{} {value}", self.name);
    }

    /// A sample with these labels.
    pub fn add(&mut self, labels: Arguments<'_>, value: impl Display) {
        let _ = writeln!(self.out, "{}{{{labels}}} {value}", self.name);
    }

    /// The samples of a summary without labels.
    pub fn whole(&mut self, number: u64, sum: impl Display) {
        let name = self.name;
        let _ = writeln!(self.out, "{name}_sum {sum}\n{name}_count {number}");
    }

    /// The samples of a summary.
    pub fn sum(&mut self, labels: Arguments<'_>, number: u64, sum: impl Display) {
        let name = self.name;
        let _ = writeln!(self.out, "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {number}");
    }

    /// The samples of a histogram without labels.
    pub fn all(&mut self, times: &Snapshot) {
        self.marks.read(times.bounds, self.format);
        let infinite = "+Inf".to_owned();
        for (mark, number) in self.marks.texts.iter().chain([&infinite]).zip(&times.buckets) {
            let _ = writeln!(self.out, "{}_bucket{{le=\"{mark}\"}} {number}", self.name);
        }
        self.whole(times.number(), times.sum.as_secs_f64());
    }

    /// The samples of a histogram.
    pub fn times(&mut self, labels: &str, times: &Snapshot) {
        self.marks.read(times.bounds, self.format);
        let (name, out) = (self.name, &mut *self.out);
        let mut numbers = itoa::Buffer::new();
        let infinite = "+Inf".to_owned();
        for (mark, number) in self.marks.texts.iter().chain([&infinite]).zip(&times.buckets) {
            // Put together by hand: of a thousand routes there are a hundred thousand.
            let end = numbers.format(*number);
            for piece in [name, "_bucket{", labels, ",le=\"", mark, "\"} ", end, "\n"] {
                out.push_str(piece);
            }
        }
        self.sum(format_args!("{labels}"), times.number(), times.sum.as_secs_f64());
    }
}

/// A text as the value of a label.
pub fn label(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crocodile_pear::unstable::telemetry::histogram::Histogram;

    use super::super::exposition::*;

    fn written(format: ExpositionFormat) -> String {
        let mut out = Exposition::new(format);
        out.counter("calls_total", "Calls.").add(format_args!("to=\"{}\"", label("a\"b")), 3);
        out.info("build_info", "The build.").add(format_args!("version=\"1\""), 1);
        let times = Histogram::new(&[5_000_000, 1_000_000_000]);
        [1, 5, 6, 2_000].into_iter().for_each(|ms| times.count(Duration::from_millis(ms)));
        out.histogram("wait_seconds", "Waits.").times("of=\"a\"", &times.snapshot());
        out.end()
    }

    #[test]
    fn prometheus_reads_its_own_format() {
        let text = "# HELP calls_total Calls.\n# TYPE calls_total counter\ncalls_total{to=\"a\\\"b\"} 3\n\
            # HELP build_info The build.\n# TYPE build_info gauge\nbuild_info{version=\"1\"} 1\n\
            # HELP wait_seconds Waits.\n# TYPE wait_seconds histogram\n\
            wait_seconds_bucket{of=\"a\",le=\"0.005\"} 2\nwait_seconds_bucket{of=\"a\",le=\"1\"} 3\n\
            wait_seconds_bucket{of=\"a\",le=\"+Inf\"} 4\nwait_seconds_sum{of=\"a\"} 2.012\nwait_seconds_count{of=\"a\"} 4\n";
        assert_eq!(written(ExpositionFormat::Prometheus), text);
    }

    #[test]
    fn openmetrics_has_its_own_rules() {
        let text = "# HELP calls Calls.\n# TYPE calls counter\ncalls_total{to=\"a\\\"b\"} 3\n\
            # HELP build The build.\n# TYPE build info\nbuild_info{version=\"1\"} 1\n\
            # HELP wait_seconds Waits.\n# TYPE wait_seconds histogram\n# UNIT wait_seconds seconds\n\
            wait_seconds_bucket{of=\"a\",le=\"0.005\"} 2\nwait_seconds_bucket{of=\"a\",le=\"1.0\"} 3\n\
            wait_seconds_bucket{of=\"a\",le=\"+Inf\"} 4\nwait_seconds_sum{of=\"a\"} 2.012\nwait_seconds_count{of=\"a\"} 4\n\
            # EOF\n";
        assert_eq!(written(ExpositionFormat::OpenMetrics), text);
    }

    #[test]
    fn a_scraper_gets_the_format_that_it_takes() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        assert_eq!(ExpositionFormat::choose(prometheus), ExpositionFormat::OpenMetrics);
        assert_eq!(
            ExpositionFormat::choose("text/html, application/openmetrics-text;q=0"),
            ExpositionFormat::Prometheus
        );
        assert_eq!(ExpositionFormat::choose("*/*"), ExpositionFormat::Prometheus);
    }
}
