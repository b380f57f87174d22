//! selvedge-compiler
