//! The short form of `bench faults`: what fails while requests come, and what clients get meanwhile.

// A test may stop at what it does not expect.
#![allow(clippy::unwrap_used)]
// What a test measures it prints.
#![allow(clippy::print_stdout)]

use std::path::Path;

use crocodile_pear_stage::faults::{self, Reload, Times};

#[test]
fn clients_get_what_they_may_get_while_something_fails() {
    let program = Path::new(env!("CARGO_BIN_EXE_crocodile-pear"));
    let mut wrong = Vec::new();
    for (at, fault) in faults::all().filter(|fault| fault.short).enumerate() {
        let reload = if at % 2 == 0 { Reload::Never } else { Reload::Meanwhile };
        let Some(figures) = faults::run(program, &[fault], Times::SHORT, reload) else { continue };
        println!("{}: {:?}, whole after {:?}", figures.name, figures.during, figures.whole);
        wrong.extend(figures.wrong.into_iter().take(5));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
