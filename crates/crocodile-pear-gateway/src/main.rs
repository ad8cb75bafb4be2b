//! The gateway: `crocodile-pear run`, `check`, `explain`, `schema`, `demo`.

#[allow(dead_code, unused_imports, reason = "the commands that read it are not there yet")]
mod config;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {}
