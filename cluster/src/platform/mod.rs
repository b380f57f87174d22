//! The platform: all that this crate takes from the operating system beyond `std`.
//!
//! - `file_access`: who may read a file.

pub(crate) mod file_access;
