//! `probe`, run as an operator runs it, on servers of every kind.

mod advice;
mod connections;
mod failure;
mod run;
mod server;
mod tls;
