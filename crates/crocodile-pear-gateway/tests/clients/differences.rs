//! The differences that are made on purpose, each with its reason. A difference that is gone fails the test, too.

#[derive(Debug)]
pub struct Difference {
    /// The beginning of the names of the programs; all without one.
    program: &'static str,
    /// The beginning of the names of the cases.
    case: &'static str,
    /// The part of the answer.
    part: &'static str,
    #[allow(dead_code, reason = "the list is read by people, and printed when one is gone")]
    why: &'static str,
}

impl Difference {
    pub fn is(&self, program: &str, case: &str, part: &str) -> bool {
        program.starts_with(self.program) && case.starts_with(self.case) && part == self.part
    }
}

const fn differs(program: &'static str, case: &'static str, part: &'static str, why: &'static str) -> Difference {
    Difference { program, case, part, why }
}

pub const DIFFERENCES: [Difference; 4] = [
    differs("", "chunked-back", "field content-length", "a small answer that is there at once gets a length"),
    differs("", "events", "field content-length", "a small answer that is there at once gets a length"),
    differs(
        "Go HTTP/2",
        "cookies-sent",
        "body",
        "Go sends each cookie as a field of its own; HTTP/1.1 has one field for all",
    ),
    differs("Go HTTP/2", "cookies-sent", "field content-length", "the server tells of one field instead of two"),
];
