//! Compressed answers as clients see them: through the real binary, over sockets, read by decoders that are not its own.

// What a test sends is bounded by the test.
#![allow(clippy::disallowed_methods)]

mod bombs;
mod cuts;
mod drips;
mod fields;
mod programs;
mod reader;
mod scene;
