//! The identity of a process: what it says of itself in a handshake, and the cookie by which it proves that.

use std::sync::OnceLock;

use selvedge_cluster::handshake::{Cookie, Hello, Identity, Role};
use selvedge_cluster::peer::Peer;

use crate::actor::registry::registry_hash;
use crate::platform::build_id;

/// The name of all clusters. What keeps two of them apart is their cookie.
const CLUSTER: &str = "selvedge";

/// The cookie of a worker's cluster.
pub(super) static COOKIE: OnceLock<Cookie> = OnceLock::new();

/// The identity of this process, as `me`, towards `to`.
pub(super) fn identity(role: Role, me: Option<Peer>, to: Option<Peer>, cookie: Cookie) -> Identity {
    Identity {
        hello: Hello {
            protocol: Hello::PROTOCOL,
            cluster: CLUSTER.to_owned(),
            build: build_id::of_this_program(),
            registry: registry_hash(),
            role,
            peer: me,
            to,
            nonce: [0; 32],
        },
        cookie,
        binding: Vec::new(),
    }
}
