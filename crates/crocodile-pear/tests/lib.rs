//! An empty library: the tests stand beside this file.
