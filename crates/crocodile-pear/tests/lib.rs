//! Nothing: the tests stand beside this file.
