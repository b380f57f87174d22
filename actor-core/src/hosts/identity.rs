//! The identity of a process: what it says of itself in a handshake, and the cookie by which it proves that.

use std::sync::{Arc, OnceLock};

use selvedge_cluster::handshake::{Cookie, Hello, Identity, Role, Welcome};
use selvedge_cluster::net::Transport;
use selvedge_cluster::peer::Peer;

use crate::actor::registry::registry_hash;
use crate::platform::build_id;

/// The name of all clusters. What keeps two of them apart is their cookie.
const CLUSTER: &str = "selvedge";

/// The means by which a process makes links to others.
#[derive(Clone)]
pub(crate) struct Means {
    pub(super) cookie: Cookie,
    pub(super) transport: Arc<dyn Transport>,
}

/// The means of a worker that others dial.
pub(super) static MEANS: OnceLock<Means> = OnceLock::new();

/// The identity of this process, as `me`, towards `to`.
pub(super) fn identity(role: Role, me: Option<Peer>, to: Option<Peer>, cookie: Cookie) -> Identity {
    Identity {
        hello: Hello {
            peer: me,
            to,
            ..Hello::new(CLUSTER, build_id::of_this_program(), registry_hash(), role)
        },
        cookie,
        binding: Vec::new(),
    }
}

/// The words with which `me` admits `you`.
pub(super) fn welcome(me: Peer, you: Peer) -> Welcome {
    Welcome {
        you,
        me,
        note: Vec::new(),
    }
}
