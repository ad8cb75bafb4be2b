//! Advice for an upstream: the YAML to write, and why. The gateway itself tries it.

use std::sync::Arc;
use std::time::Duration;

use crocodile_pear::unstable::config::spec::Decode;
use crocodile_pear::unstable::net::protocol::Protocol;
use crocodile_pear::unstable::upstream::{ReadyUpstream, UpstreamCall};

use crate::found::{Advice, ProbeResult};
use crate::keep::ConnectionLimits;
use crate::link::Dial;
use crate::measure::ConnectionKind;
use crate::trouble::{Trouble, TroubleCause, milliseconds, span};
use crate::trust::TlsFiles;
use crate::way::{Http, ProtocolStack};

/// Makes the upstream `server` of a configuration. The error says why the gateway does not accept the configuration.
pub type MakeUpstream = fn(yaml: &str) -> Result<Arc<ReadyUpstream>, String>;

/// Slower by less is what another run would find the other way round.
const SLOWER: f64 = 1.1;

pub fn advise(found: &ProbeResult, files: &TlsFiles) -> Advice {
    let (protocol, way) = choose(found);
    let mut fields: Vec<(String, String)> = Vec::new();
    fields.extend(protocol.map(|(protocol, why)| (why.to_owned(), format!("protocol: {}", protocol.word()))));
    fields.extend(tls(found, files));
    let keep = way.and_then(|way| found.kept(way.http)).and_then(keep);
    fields.extend(keep.map(|(keep, why)| (why, format!("keep: {}", written(keep)))));
    let timeouts = way.and_then(|way| timeouts(found, way));
    let why = "Ten times the p99 here, at least 1s; other paths may need more.";
    fields.extend(timeouts.map(|timeouts| (why.to_owned(), format!("timeout: {timeouts}"))));
    let fields: String = fields.iter().map(|(why, field)| format!("    # {why}\n    {field}\n")).collect();
    let url = quoted(&found.target.origin());
    Advice { why: sentence(found, way), yaml: format!("upstreams:\n  server:\n    url: {url}\n{fields}") }
}

fn tls(found: &ProbeResult, files: &TlsFiles) -> Option<(String, String)> {
    let named = [("ca", &files.ca), ("certificate", &files.certificate), ("key", &files.key)];
    let named = named.into_iter().filter_map(|(name, file)| Some((name, file.as_ref()?.display().to_string())));
    let named: String = named.map(|(name, file)| format!("\n      {name}: {}", quoted(&file))).collect();
    let why = match (&files.ca, &files.certificate) {
        _ if found.doubted() => "The gateway always verifies: name here who has signed the certificate.",
        (None, None) => return None,
        (Some(_), None) => "Who has signed its certificate.",
        (None, Some(_)) => "What it asks for.",
        (Some(_), Some(_)) => "Who has signed its certificate, and what it asks for.",
    };
    let field = match (found.doubted(), named.as_str()) {
        (false, named) => format!("tls:{named}"),
        (true, "") => "# tls: { ca: FILE }".to_owned(),
        (true, named) => format!("tls:{named}\n      # ca: FILE"),
    };
    Some((why.to_owned(), field))
}

/// Which protocol to write, if the usual one is not the best, and in which way calls are made then.
fn choose(found: &ProbeResult) -> (Option<(Protocol, &'static str)>, Option<ProtocolStack>) {
    let ways = found.newest();
    let way = |http| ways.iter().copied().find(|way| way.http == http);
    let (one, two) = (way(Http::One), way(Http::Two));
    let kept = |http| found.kept(http).is_some_and(ConnectionLimits::reusable);
    let usual = if found.is_tls() { two.or(one) } else { one };
    match usual {
        None => (Some((Protocol::Http2, "It speaks HTTP/2 alone.")), two),
        Some(usual) if kept(usual.http) => (None, Some(usual)),
        Some(usual) if usual.http == Http::One && two.is_some() && kept(Http::Two) => {
            (Some((Protocol::Http2, "Over HTTP/1.1 it closes every connection after one answer.")), two)
        }
        Some(usual) if usual.http == Http::Two && one.is_some() && kept(Http::One) => {
            (Some((Protocol::Http1, "Over HTTP/2 it closes every connection after one answer.")), one)
        }
        Some(usual) => (None, Some(usual)),
    }
}

/// How long to keep a connection, if the default does not fit.
fn keep(kept: &ConnectionLimits) -> Option<(Duration, String)> {
    const USUAL: Duration = Duration::from_secs(30);
    if !kept.reusable() {
        return Some((Duration::ZERO, "It closes every connection after one answer.".to_owned()));
    }
    let limit = kept.idle_limit()?;
    // A call must not meet the server's hand on the connection.
    let safe = if limit >= Duration::from_secs(2) { limit - Duration::from_secs(1) } else { limit / 2 };
    let rounded = match safe.as_secs() {
        0 => Duration::from_millis(u64::try_from(safe.as_millis()).unwrap_or(u64::MAX) / 10 * 10),
        seconds => Duration::from_secs(seconds),
    };
    let why = format!("It closes a connection after {} without a call.", span(limit));
    (rounded < USUAL).then_some((rounded, why))
}

fn timeouts(found: &ProbeResult, way: ProtocolStack) -> Option<String> {
    let cold = found.cell(way, ConnectionKind::Cold)?;
    let connect = cold.connect()[1]? + cold.tls()[1].unwrap_or_default();
    Some(format!("{{ connect: {}, first_byte: {} }}", written(ample(connect)), written(ample(cold.first()[1]?))))
}

/// Ten times this, in whole seconds.
fn ample(time: Duration) -> Duration {
    Duration::from_secs((time * 10).as_secs_f64().ceil().max(1.0) as u64)
}

fn sentence(found: &ProbeResult, way: Option<ProtocolStack>) -> String {
    let Some(way) = way else { return "nothing could be measured".to_owned() };
    let total = |way, connection| found.cell(way, connection).and_then(|cell| cell.total()[0]);
    let (cold, kept) = (total(way, ConnectionKind::Cold), total(way, ConnectionKind::Kept));
    let told = match (cold, kept) {
        (Some(cold), Some(kept)) if kept < cold => {
            format!("a kept connection saves {} of {} ms a call", milliseconds(cold - kept), milliseconds(cold))
        }
        (Some(cold), Some(kept)) => {
            format!("a kept connection saves nothing: {} ms a call against {}", milliseconds(kept), milliseconds(cold))
        }
        (Some(cold), None) => format!("no connection is kept, and each call costs {} ms", milliseconds(cold)),
        (None, _) => "nothing could be measured".to_owned(),
    };
    let other = found.newest().into_iter().find(|other| other.http != way.http);
    let other = other.and_then(|other| Some((other.http, total(other, ConnectionKind::Kept)?)));
    match (other, kept) {
        (Some((Http::One, one)), Some(two)) if two.as_secs_f64() > one.as_secs_f64() * SLOWER => {
            let more = (two.as_secs_f64() / one.as_secs_f64() - 1.0) * 100.0;
            format!("{told}; HTTP/2 is {more:.0} % slower for one call at a time, and lets calls share a connection")
        }
        (Some((Http::One, _)), Some(_)) => format!("{told}; over HTTP/2 calls share a connection"),
        (Some((Http::Two, _)), Some(_)) => format!("{told}; `protocol: http2` would let calls share a connection"),
        _ => told,
    }
}

/// Makes a call as advised, through the gateway's own parts.
pub async fn attempt(found: &mut ProbeResult, dial: &Dial, upstream: MakeUpstream) {
    let limit = dial.limit();
    let Some(advice) = found.advice.as_ref().filter(|_| !limit.is_zero()) else { return };
    let whole = format!("{}endpoints: {{ 'GET /': server / }}\n", advice.yaml);
    let upstream = match upstream(&whole) {
        Ok(upstream) => upstream,
        Err(reason) => {
            let what = format!("the gateway does not take this as an upstream: {reason}");
            return found.problems.push(Trouble::new(TroubleCause::Broken, what));
        }
    };
    let call = UpstreamCall { headers: dial.headers.clone(), ..UpstreamCall::get(dial.target.path.clone()) };
    let answer = tokio::time::timeout(limit, upstream.call(call)).await;
    let failed = match answer {
        Ok(Ok(_)) => return,
        Ok(Err(error)) => error.detail().to_owned(),
        Err(_) => format!("no answer within {}", span(limit)),
    };
    let what = format!("a call as advised fails in the gateway: {failed}");
    found.problems.push(Trouble::new(TroubleCause::Broken, what));
}

/// The time as a configuration has it.
pub fn written(time: Duration) -> String {
    Decode::written(&time).and_then(|written| Some(written.as_str()?.to_owned())).unwrap_or_default()
}

/// Text that YAML and the variables leave as it is.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''").replace("${", "$${"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keep::{Announced, IdleTime, RequestCount};
    use crate::link::ServerClose;

    fn advised(answered: u32, idle: Option<u64>, announced: Option<u64>) -> Option<String> {
        let ended = Some(ServerClose::Close);
        let idle = idle.map(|millis| IdleTime { time: Duration::from_millis(millis), ended });
        let announced = Announced { timeout: announced, max: None };
        let requests = RequestCount { answered, ended: ended.filter(|_| answered == 1) };
        keep(&ConnectionLimits { http: Http::One, requests, idle, announced, streams: None })
            .map(|(keep, _)| written(keep))
    }

    #[test]
    fn a_connection_is_kept_for_less_than_the_server_keeps_it() {
        assert_eq!(advised(1, None, Some(60)), Some("0s".into()));
        assert_eq!(advised(9, Some(5_003), None), Some("4s".into()));
        assert_eq!(advised(9, Some(5_003), Some(4)), Some("3s".into()));
        assert_eq!(advised(9, Some(1_004), None), Some("500ms".into()));
        assert_eq!(advised(9, None, Some(75)), None);
        assert_eq!(advised(9, None, None), None);
    }

    #[test]
    fn text_stays_what_it_is() {
        assert_eq!(quoted("it's/${HOME}.pem"), "'it''s/$${HOME}.pem'");
    }

    #[test]
    fn times_to_wait_are_ample_and_whole() {
        let ample = |millis| written(ample(Duration::from_millis(millis)));
        assert_eq!([1, 100, 101, 1_000].map(ample), ["1s", "1s", "2s", "10s"]);
    }
}
