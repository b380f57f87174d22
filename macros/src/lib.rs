//! selvedge-macros
