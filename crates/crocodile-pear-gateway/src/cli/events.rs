//! `events`: what a source of events needs to tell what changes.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::print::print;
use crate::shared::events::trigger::Trigger;

#[derive(Args)]
pub struct Events {
    #[command(subcommand)]
    source: EventsFrom,
}

#[derive(Subcommand)]
enum EventsFrom {
    /// Print the SQL of a trigger that reports the changed rows of a table on a channel. `… | psql` installs it.
    Postgres(Postgres),
}

#[derive(Args)]
struct Postgres {
    /// The table, `TABLE` or `SCHEMA.TABLE`. As in SQL, names are in lower case unless in double quotes.
    table: String,
    /// The channel for `NOTIFY` [default: the name of the table].
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// A column to put into the messages; can be repeated [default: the columns of the primary key].
    #[arg(long, value_name = "NAME")]
    column: Vec<String>,
    /// Print the SQL to remove the trigger.
    #[arg(long)]
    remove: bool,
}

impl Events {
    pub fn execute(self) -> ExitCode {
        let EventsFrom::Postgres(Postgres { table, channel, column, remove }) = self.source;
        match Trigger::new(&table, channel.as_deref(), &column) {
            Ok(trigger) if remove => print(&trigger.remove()),
            Ok(trigger) => print(&trigger.install()),
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::from(2)
            }
        }
    }
}
