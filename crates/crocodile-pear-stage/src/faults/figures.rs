//! The figures of faults: what clients got, when all was well again, and what was told.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Fault;

/// When a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    Before,
    During,
    Mended,
    After,
    Stopping,
    Over,
}

impl Phase {
    pub(super) fn of(number: u8) -> Self {
        [Phase::Before, Phase::During, Phase::Mended, Phase::After, Phase::Stopping]
            .get(usize::from(number))
            .copied()
            .unwrap_or(Phase::Over)
    }
}

/// The reply to a request.
pub(super) struct Reply {
    /// The place of its fault.
    pub fault: usize,
    pub number: u64,
    pub phase: Phase,
    /// 0 without an answer.
    pub status: u16,
    pub right: bool,
    pub took: Duration,
    pub said: String,
}

/// How a fault went.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The fault, or the two.
    pub name: String,
    /// How many requests were sent.
    pub asked: usize,
    /// How many requests were sent while the fault lasted, by what they got; 200 are right answers.
    pub during: BTreeMap<u16, usize>,
    /// The middle, the 99th percentile and the longest time of these.
    pub times: [Duration; 3],
    /// How long after the end of the fault answers were right again.
    pub whole: Duration,
    /// Lines of the log, and the one that tells of the fault.
    pub lines: usize,
    /// The line that tells of it.
    pub told: String,
    /// Everything that should not have been.
    pub wrong: Vec<String>,
}

impl Figures {
    pub(super) fn of(
        name: String,
        replies: &[Reply],
        faults: &[&Fault],
        (whole, slack): (Duration, u32),
        said: &str,
    ) -> Self {
        let mut wrong = Vec::new();
        for reply in replies {
            if let Some(reason) = judge(reply, faults[reply.fault], slack) {
                wrong.push(format!("{} {}: {reason}", faults[reply.fault].name, reply.number));
            }
        }
        let during = |reply: &&Reply| reply.phase == Phase::During;
        let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
        replies.iter().filter(during).for_each(|reply| *counts.entry(reply.status).or_default() += 1);
        for (at, fault) in faults.iter().enumerate() {
            let own = replies.iter().filter(during).filter(|reply| reply.fault == at);
            let (all, right) = (own.clone().count(), own.filter(|reply| reply.right).count());
            if right * 100 < all * fault.meanwhile.right as usize {
                wrong.push(format!(
                    "{}: {right} of {all} answers are right, wanted are {} %",
                    fault.name, fault.meanwhile.right
                ));
            }
            if whole > fault.whole * slack {
                wrong.push(format!("{}: whole after {whole:?}, wanted is {:?}", fault.name, fault.whole));
            }
            if !said.contains(fault.told) {
                wrong.push(format!("{}: no line of the log has `{}`", fault.name, fault.told));
            }
        }
        let mut times: Vec<Duration> = replies.iter().filter(during).map(|reply| reply.took).collect();
        times.sort_unstable();
        let part =
            |part: f64| times.get(((times.len() as f64 * part) as usize).min(times.len().saturating_sub(1))).copied();
        let times = [0.5, 0.99, 1.0].map(|at| part(at).unwrap_or_default());
        let told = faults.iter().filter(|fault| !fault.told.is_empty());
        let told = told.filter_map(|fault| said.lines().find(|line| line.contains(fault.told)));
        Figures {
            name,
            asked: replies.len(),
            during: counts,
            times,
            whole,
            lines: said.lines().count(),
            told: told.collect::<Vec<_>>().join(" | "),
            wrong,
        }
    }
}

/// Why an answer is not what it may be.
fn judge(reply: &Reply, fault: &Fault, slack: u32) -> Option<String> {
    let Reply { status, said, took, .. } = reply;
    if *status == 200 && !reply.right {
        return Some(format!("a wrong body: {said}"));
    }
    match reply.phase {
        Phase::Before | Phase::After if !reply.right => Some(format!("{status} while all is well: {said}")),
        // Nobody listens any more.
        Phase::Stopping if *status == 0 && said.contains("refused") => None,
        Phase::During | Phase::Mended | Phase::Stopping
            if !reply.right && !fault.meanwhile.statuses.contains(status) =>
        {
            Some(format!("{status}: {said}"))
        }
        Phase::During if *took > fault.meanwhile.within * slack => {
            Some(format!("{status} took {took:?}, wanted is {:?}", fault.meanwhile.within))
        }
        _ => None,
    }
}
