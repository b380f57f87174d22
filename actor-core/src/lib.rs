//! selvedge-core
