//! JSON: checked strictly, spliced as it came.
