//! What is counted of databases, in OpenTelemetry's names.

use std::sync::Arc;

use crocodile_pear::database::{Database, StatementEnd};
use indexmap::IndexMap;

use super::exposition::{Exposition, label};

const DURATION: &str = "Time of a statement, from its wait for a connection to the end of its answer.";
const COUNT: &str = "Connections to the database, by whether a statement uses them.";
const PENDING: &str = "Statements that wait for a connection.";

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
}
