//! A language model over HTTP.
