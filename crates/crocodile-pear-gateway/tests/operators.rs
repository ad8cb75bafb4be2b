//! The output for operators, where they connect and what lies on their disks: no secret, no control of their terminal, no way in for
//! a page of their browser.

// What a test waits for is bounded by the test.
#![allow(clippy::disallowed_methods)]

mod admin;
mod files;
mod lines;
mod masks;
mod redis;
