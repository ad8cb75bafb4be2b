//! `schema`: what editors need to check and complete a configuration.

use std::process::ExitCode;

use super::print::print;
use crate::gateway::document::Document;

pub fn execute() -> ExitCode {
    let schema = crocodile_pear::unstable::config::spec::schema::<Document>("Crocodile Pear configuration");
    print(&format!("{schema:#}\n"))
}
