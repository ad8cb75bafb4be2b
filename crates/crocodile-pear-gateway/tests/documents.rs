//! Every command, configuration and answer in the documents, tried; and the pages that are generated, compared.
//!
//! `BLESS=1` writes the generated ones anew.

// What a test skips it prints.
#![allow(clippy::print_stdout)]

mod examples;
mod failures;
mod generated;
mod library;
mod page;
mod pages;
mod reference;
mod security;
mod stage;
mod tasks;

use std::path::PathBuf;

/// The root of the repository.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
