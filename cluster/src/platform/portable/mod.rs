//! Every other system, where processes of one host have no sockets with paths.

#[cfg(feature = "contract")]
pub(crate) mod descriptors;
pub(crate) mod private_directory;
pub(crate) mod stream_socket;
pub(crate) mod unix_socket;
