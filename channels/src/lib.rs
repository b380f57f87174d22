//! selvedge-channels
