//! The gateway: `crocodile-pear run`, `check`, `explain`, `schema`, `demo`.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {}
