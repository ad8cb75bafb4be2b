//! A build without PostgreSQL: a database is refused when the configuration is compiled.

mod run;
mod spec;

use std::sync::Arc;

pub use self::query::{Access, Query, writes};
pub use self::run::{EarlierStatement, StatementRun, Wanted};
pub use self::spec::{DatabaseBreaker, DatabaseSpec, Statements};
use crate::config::carried_state::Carry;
use crate::config::files::Files;
use crate::config::problem::Problems;
use crate::config::spec::Located;
use crate::error::Error;
use crate::message::answer::Answer;

mod query {
    //! Statements, of which there are none.

    /// The rights of a statement.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Access {
        ReadWrite,
        /// The statement may only read.
        ReadOnly,
    }

    /// No build without PostgreSQL has one.
    pub enum Query {}

    impl Query {
        pub fn shown(&self) -> &str {
            match *self {}
        }

        pub fn access(&self) -> Access {
            match *self {}
        }

        pub fn only_reads(&self) -> bool {
            match *self {}
        }
    }

    /// Whether a statement changes something: not asked without a database.
    pub fn writes(_: &str) -> bool {
        false
    }
}

/// No build without PostgreSQL has one.
pub enum Database {}

impl DatabaseSpec {
    /// Refuses it.
    pub fn compile(&self, _: &str, _: Files<'_>, _: &Carry, problems: &mut Problems) -> Option<Arc<Database>> {
        let remedy = "build with the feature `postgres` of the crate crocodile-pear";
        problems.error(self.url.span, "this build has no PostgreSQL", remedy)
    }
}

impl Database {
    pub fn name(&self) -> &Arc<str> {
        match *self {}
    }

    pub fn query(&self, _: &Located<String>, _: usize, _: Access) -> Arc<Query> {
        match *self {}
    }

    pub async fn run(&self, _: StatementRun) -> Result<Answer, Error> {
        match *self {}
    }
}
