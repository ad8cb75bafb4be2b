//! Answers that are kept: one call for many, and nothing for anybody else.

mod composed;
mod copies;
mod crowd;
mod downstream;
mod fields;
mod identities;
mod keys;
mod once;
mod personal;
mod strangers;
