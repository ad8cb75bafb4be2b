//! JSON as bytes and as values. Documents are checked strictly, passed on as the same bytes, and parsed only when a
//! step needs their values.

mod block;
mod check;
mod data;
pub mod fields;
pub mod items;
mod look;
mod number;
mod quote;
mod raw;
mod read;
pub mod scan;
mod simd;
pub mod skeleton;
mod text;
pub mod value;
pub mod walk;
mod write;

pub use check::{Checker, check};
pub use data::Data;
pub use data::is_small;
pub use quote::write_string;
pub use raw::Raw;
pub use read::read;
pub use text::{DEPTH, compact, trim, unmarked};
pub use value::Value;
pub use write::{SIZE, write_within};
pub use write::{to_bytes, write};

#[cfg(test)]
mod suite;
#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn trimming_shares_the_bytes() {
        let bytes = Bytes::from_static(b" \r\n{ } \t");
        let trimmed = trim(&bytes);
        assert_eq!(&trimmed[..], b"{ }");
        assert_eq!(trimmed.as_ptr(), bytes[3..].as_ptr());
        assert!(trim(&Bytes::from_static(b" \n ")).is_empty());
    }

    #[test]
    fn compact_documents_are_one_line() {
        let mut out = b"data: ".to_vec();
        compact(b"{ \"a b\" :\n[1 ,\t\"\\\" \\\\\" , true]\r\n}", &mut out);
        assert_eq!(out, b"data: {\"a b\":[1,\"\\\" \\\\\",true]}");
    }
}
