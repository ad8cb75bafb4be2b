//! Metrics of databases, in OpenTelemetry's names.

use std::sync::Arc;

use crocodile_pear::unstable::database::{Database, DatabaseServerState, StatementEnd};
use indexmap::IndexMap;

use super::exposition::{Exposition, label};

const DURATION: &str = "Time of a statement, from its wait for a connection to the end of its answer.";
const COUNT: &str = "Connections to the database, by whether a statement uses them.";
const PENDING: &str = "Statements that wait for a connection.";

const UP: &str =
    "1 if the server of the database gets statements, 0 if it cannot be reached or its circuit breaker is open.";
const REFUSED: &str = "Statements rejected by an open circuit breaker.";
const OPEN: &str = "1 if the circuit breaker of the server is open or half open.";
const OPENED: &str = "How often the circuit breaker opened.";

/// Writes them.
pub fn render(databases: &IndexMap<String, Arc<Database>>, out: &mut Exposition) {
    let named = || databases.iter().map(|(name, database)| (label(name), database));
    let mut family = out.histogram("db_client_operation_duration_seconds", DURATION);
    for (name, database) in named() {
        for (end, times) in database.times() {
            let end = match end {
                Some(StatementEnd::Done) => "",
                Some(StatementEnd::Failed(kind)) => kind.name(),
                Some(StatementEnd::Dropped) => "cancelled",
                None => "_OTHER",
            };
            family.times(&format!("db_system_name=\"postgresql\",database=\"{name}\",error_type=\"{end}\""), &times);
        }
    }
    let mut family = out.gauge("db_client_connection_count", COUNT);
    for (name, database) in named() {
        let (used, idle, _) = database.connections();
        family.add(format_args!("database=\"{name}\",state=\"used\""), used);
        family.add(format_args!("database=\"{name}\",state=\"idle\""), idle);
    }
    let mut family = out.gauge("db_client_connection_pending_requests", PENDING);
    for (name, database) in named() {
        family.add(format_args!("database=\"{name}\""), database.connections().2);
    }
    servers(databases, out);
}

/// Writes what is known of each server.
fn servers(databases: &IndexMap<String, Arc<Database>>, out: &mut Exposition) {
    let all = databases.iter().flat_map(|(name, database)| database.servers().map(move |state| (label(name), state)));
    let states: Vec<(String, DatabaseServerState)> =
        all.map(|(name, state)| (format!("database=\"{name}\",server=\"{}\"", label(&state.address)), state)).collect();
    let mut family = out.gauge("crocodile_pear_database_up", UP);
    states.iter().for_each(|(labels, state)| family.add(format_args!("{labels}"), u64::from(state.is_up())));
    let mut family = out.counter("crocodile_pear_database_statements_refused_total", REFUSED);
    states.iter().for_each(|(labels, state)| family.add(format_args!("{labels}"), state.refused));
    let mut family = out.gauge("crocodile_pear_database_breaker_open", OPEN);
    states.iter().for_each(|(labels, state)| family.add(format_args!("{labels}"), u64::from(state.open)));
    let mut family = out.counter("crocodile_pear_database_breaker_opened_total", OPENED);
    states.iter().for_each(|(labels, state)| family.add(format_args!("{labels}"), state.opened));
}
