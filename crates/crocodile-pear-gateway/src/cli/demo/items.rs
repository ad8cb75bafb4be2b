//! `demo items`: an API on a table, with a PostgreSQL of its own.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;

use crate::cli::file::compile;
use crate::cli::run;
use crate::config;
use crate::gateway::current_gateway::Live;
use crate::layers::Setting;
use crate::net::address::Address;
use crate::observe::log;
use crate::shared::events::trigger::Trigger;
use crocodile_pear_demo::postgres::{Failure, Postgres, Reach};

const CONFIG: &str = include_str!("../../../../../examples/items/items.yaml");
const SCHEMA: &str = include_str!("../../../../../examples/items/items.sql");

/// Enough for the gateway, its events, and whoever looks at the table.
const SETTINGS: [&str; 2] = ["max_connections=50", "log_min_messages=fatal"];

const MISSING: &str = "\
error: no PostgreSQL server is installed: there is no folder with `initdb` and `postgres` in PATH, and none in /usr/lib/postgresql
  Debian, Ubuntu: sudo apt install postgresql
  Fedora:         sudo dnf install postgresql-server
  macOS:          brew install postgresql
It need not run: this command starts one of its own.";

#[derive(Args)]
pub struct Items {
    /// The address of the gateway.
    #[arg(long, default_value = "127.0.0.1:8081")]
    listen: SocketAddr,
}

impl Items {
    pub fn execute(self) -> ExitCode {
        match self.database() {
            // It is stopped, and its folder removed, when nobody is served any more.
            Ok(database) => self.serve(&database),
            Err(Failure::Missing) => {
                eprintln!("{MISSING}");
                ExitCode::from(1)
            }
            Err(Failure::Failed(why)) => {
                eprintln!("error: PostgreSQL does not start: {why}");
                ExitCode::from(1)
            }
        }
    }

    fn database(&self) -> Result<Postgres, Failure> {
        let database = Postgres::reached(Reach::User, &SETTINGS)?;
        let trigger = Trigger::new("items", None, &[]).map_err(|error| Failure::Failed(error.to_string()))?;
        database.run(SCHEMA)?;
        database.run(&trigger.install())?;
        Ok(database)
    }

    fn serve(&self, database: &Postgres) -> ExitCode {
        let (node, sources, problems) = config::parse("items.yaml", CONFIG, &|name| match name {
            "LISTEN" => Some(self.listen.to_string()),
            "DATABASE_URL" => Some(database.url()),
            _ => None,
        });
        let Some((document, gateway, _)) = compile(node.as_ref(), sources, &Arc::default(), problems).usable() else {
            return ExitCode::from(1);
        };
        let _flush = log::begin(document.layers.observe.as_ref().and_then(Setting::on));
        let live = Arc::new(Live::new(gateway));
        run::serve(&document, &live, Arc::default(), |address, _| invite(address, &database.url()))
    }
}

/// Says what to try.
fn invite(gateway: &Address, url: &str) {
    let items = format!("http://{gateway}/api/items");
    eprintln!(
        "\nThe gateway is at http://{gateway}, the database at {url}. Try:\n
  curl {items}
  curl '{items}?value=true&sort=-name&limit=2'
  curl -i {items}/2
  curl -i -H 'content-type: application/json' -d '{{\"name\": \"fig\"}}' {items}
  curl -i -X PUT -H 'if-match: \"1\"' -H 'content-type: application/json' -d '{{\"name\": \"peach\"}}' {items}/2
  curl -i -X DELETE {items}/3
  psql {url} -c 'select * from items'\n
The configuration is examples/items/items.yaml, the table examples/items/items.sql. Ctrl-C stops both servers and removes the folder of the database.\n"
    );
}
