//! The statements of a configuration, tried at its start where the database is there.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio_postgres::error::ErrorPosition;
use tokio_postgres::{Client, Error as Failed};

use super::Database;
use super::address::{Connected, error_text};
use super::query::{Access, PreparedStatement, Query, UnfitStatement};
use super::server::DatabaseServer;
use super::spec::Statements;
use super::wire::Naming;
use crate::config::problem::Problems;

/// For all of it: a configuration is not kept waiting by a database that is away.
const PATIENCE: Duration = Duration::from_secs(3);

/// The server's verdict on one statement.
enum Finding {
    Unfit(UnfitStatement),
    Failed(Failed),
}

/// A server's findings about all of them.
struct ServerFindings {
    findings: Vec<(Arc<Query>, Finding)>,
    /// Whether a pooler is in front of the server.
    pooled: bool,
}

type VerifyResult = Result<ServerFindings, String>;

impl Database {
    /// Has the database look at the statements, and notes what it cannot run.
    pub fn verify(&self, problems: &mut Problems) -> Option<()> {
        let mut queries = self.queries.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // A reload needs no connection for what the database has run.
        queries.retain(|query| !query.known.sound.load(Relaxed));
        if queries.is_empty() {
            return Some(());
        }
        let reads = queries.iter().filter(|query| query.access == Access::ReadOnly).cloned().collect::<Vec<_>>();
        let replicas = if reads.is_empty() { &[] } else { self.readers.replicas() };
        // All at once: each may keep the start waiting.
        let asked = ask(&self.primary, queries.clone());
        let replicas: Vec<_> = replicas.iter().map(|replica| ask(replica, reads.clone())).collect();
        let (mut wrong, mut unasked) = (Vec::new(), false);
        match answer(asked) {
            Ok(verdict) => {
                if verdict.pooled {
                    self.note_pooler(problems);
                }
                note_all("the database", &verdict.findings, &mut wrong, problems);
            }
            Err(reason) => {
                let message = format!("the database `{}` cannot be reached: {reason}", self.name());
                let effect = "its statements are not checked; they fail with 503 until it is there";
                problems.warning(self.url, message, effect);
                unasked = true;
            }
        }
        for (asked, url) in replicas.into_iter().zip(&self.replica_urls) {
            match answer(asked) {
                Ok(verdict) => note_all("a replica of the database", &verdict.findings, &mut wrong, problems),
                Err(reason) => {
                    unasked = true;
                    let message = format!("a replica of the database `{}` cannot be reached: {reason}", self.name());
                    problems.warning(
                        *url,
                        message,
                        "its statements are not checked there; other replicas are used instead",
                    );
                }
            }
        }
        let sound = |query: &&Arc<Query>| !unasked && !wrong.iter().any(|(known, _)| Arc::ptr_eq(known, query));
        queries.iter().filter(sound).for_each(|query| query.known.sound.store(true, Relaxed));
        let stands = |(_, verdict): &(_, FindingEffect)| *verdict == FindingEffect::Serves;
        wrong.iter().all(stands).then_some(())
    }

    fn note_pooler(&self, problems: &mut Problems) {
        if self.primary.pool.statements() == Statements::Named {
            let message =
                format!("the database `{}` is behind a connection pooler, and `statements` is `named`", self.name());
            let remedy =
                "write `statements: unnamed`, unless the pooler is in session mode or keeps prepared statements";
            problems.warning(self.url, message, remedy);
        }
        self.servers_and_last().for_each(|server| _ = server.pool.know_pooler());
    }
}

/// Whether a configuration with such a statement serves.
#[derive(Clone, Copy, PartialEq)]
enum FindingEffect {
    /// The statement alone fails, until the database has what it names.
    Serves,
    /// The statement is wrong.
    Fails,
}

/// The codes of things that a statement names, and the database does not have or does not allow: a table, a column, a function, a type, a
/// schema, a right. A migration adds it.
const MISSING: [&str; 6] = ["42P01", "42703", "42883", "42704", "3F000", "42501"];

/// On a thread of its own: a configuration may be compiled on a thread that must not block.
fn ask(server: &DatabaseServer, queries: Vec<Arc<Query>>) -> std::io::Result<JoinHandle<VerifyResult>> {
    let address = server.pool.address.clone();
    let ask = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        runtime.block_on(async {
            let asked = async {
                let Connected { client, connection, pooled, naming, .. } = address.connect(PATIENCE).await?;
                if pooled {
                    naming.set(Naming::Unnamed);
                }
                tokio::select! {
                    findings = look(&client, &queries) => findings.map(|findings| ServerFindings { findings, pooled }),
                    _ = connection => Err("the connection was lost".to_owned()),
                }
            };
            let late = |_| Err(format!("it did not answer within {PATIENCE:?}"));
            tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(late)
        })
    };
    thread::Builder::new().name("databases".into()).spawn(ask)
}

fn answer(asked: std::io::Result<JoinHandle<VerifyResult>>) -> VerifyResult {
    let asked = asked.map_err(|error| error.to_string())?;
    asked.join().unwrap_or_else(|_| Err("the check broke its thread".to_owned()))
}

async fn look(client: &Client, queries: &[Arc<Query>]) -> Result<Vec<(Arc<Query>, Finding)>, String> {
    let mut findings = Vec::new();
    for query in queries {
        let finding = match PreparedStatement::make(client, query).await {
            Ok(Ok(_)) => continue,
            Ok(Err(unfit)) => Finding::Unfit(unfit),
            Err(failed) if failed.as_db_error().is_none() => return Err(error_text(&failed)),
            Err(failed) => Finding::Failed(failed),
        };
        findings.push((query.clone(), finding));
    }
    Ok(findings)
}

/// Notes what was found, unless it is known already: a problem on all servers is reported once.
fn note_all(
    who: &str,
    findings: &[(Arc<Query>, Finding)],
    known: &mut Vec<(Arc<Query>, FindingEffect)>,
    problems: &mut Problems,
) {
    for (query, finding) in findings {
        if !known.iter().any(|(known, _)| Arc::ptr_eq(known, query)) {
            known.push((query.clone(), note(who, query, finding, problems)));
        }
    }
}

fn note(who: &str, query: &Query, finding: &Finding, problems: &mut Problems) -> FindingEffect {
    let whole = query.text.at(0, query.text.value.len());
    match finding {
        Finding::Unfit(unfit) => drop(problems.error::<()>(whole, unfit.message(), unfit.remedy())),
        Finding::Failed(failed) => {
            let Some(error) = failed.as_db_error() else { return FindingEffect::Serves };
            let at = match error.position() {
                Some(ErrorPosition::Original(position)) => offset(&query.text.value, *position),
                _ => None,
            };
            let place = at.map_or(whole, |at| query.text.at(at, word(&query.text.value[at..])));
            let message = format!("{who} cannot run this: {}", error.message());
            let hint = error.hint().unwrap_or_default().trim_end_matches('.');
            if MISSING.contains(&error.code().code()) {
                let effect = "its requests fail with 500 until the database has it";
                let hint = if hint.is_empty() { effect.to_owned() } else { format!("{hint}; {effect}") };
                problems.warning(place, message, hint);
                return FindingEffect::Serves;
            }
            problems.error::<()>(place, message, hint);
        }
    }
    FindingEffect::Fails
}

/// Where the character of this number, from 1, begins.
fn offset(sql: &str, position: u32) -> Option<usize> {
    let before = usize::try_from(position).ok()?.checked_sub(1)?;
    sql.char_indices().nth(before).map(|(at, _)| at)
}

/// How long the word is that begins here.
fn word(sql: &str) -> usize {
    sql.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.').filter(|end| *end > 0).unwrap_or(1)
}
