//! The name of this host, which is not asked for here.

/// No name.
pub(crate) fn name() -> String {
    String::new()
}

/// The name of the loopback interface.
pub(crate) fn network_name() -> String {
    "localhost".to_owned()
}
