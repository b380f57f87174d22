//! Errors of sessions with routers.

use thiserror::Error;

/// The reason that there is no session with a router, or no router.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ZenohError {
    /// No router is named.
    #[error("no router is named: give `ZenohSettings::routers` one, such as `tcp/10.0.0.1:7447`")]
    NoRouter,
    /// The text is no endpoint of zenoh.
    #[error("`{endpoint}` is no endpoint: write one as `tcp/10.0.0.1:7447`")]
    Endpoint {
        /// The text.
        endpoint: String,
    },
    /// The name of the cluster cannot be a part of a key of zenoh.
    #[error("`{cluster}` names no cluster: use letters, digits, `-`, `_` and `.`")]
    Cluster {
        /// The name.
        cluster: String,
    },
    /// zenoh refuses an entry of its configuration.
    #[error("zenoh refuses the entry `{key}` of its configuration: {text}")]
    Entry {
        /// The path of the entry.
        key: String,
        /// zenoh's words.
        text: String,
    },
    /// No router answers within 10 s.
    #[error(
        "no router answers at {routers} ({text}): does one run there (`selvedge router`), and does a firewall let it through?"
    )]
    Unreachable {
        /// The endpoints.
        routers: String,
        /// zenoh's words about the last try.
        text: String,
    },
    /// The router cannot listen.
    #[error("the router cannot listen at {endpoints} ({text}): is the port taken?")]
    NotListening {
        /// The endpoints.
        endpoints: String,
        /// zenoh's words.
        text: String,
    },
    /// The system gives no thread, or no random bytes.
    #[error("the system gives the session no thread or no random bytes ({text})")]
    System {
        /// The words of the system.
        text: String,
    },
}

impl std::fmt::Debug for ZenohError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl ZenohError {
    pub(super) fn system(error: &std::io::Error) -> Self {
        let text = error.to_string();
        ZenohError::System { text }
    }
}
