//! Answers that are made of several: what they say of themselves, and what becomes of the parts that failed.

mod errors;
