//! The contract of transports, through a router.

use std::sync::OnceLock;

use selvedge_cluster::net::Acceptor;
use selvedge_cluster::net::{Halves, PeerInfo, Pending, Transport, Zenoh, ZenohRouter};

use crate::routers::{router, session};

/// The router of all these tests.
fn at_router() -> Zenoh {
    static ROUTER: OnceLock<ZenohRouter> = OnceLock::new();
    session(ROUTER.get_or_init(router))
}

mod within_one_process {
    use selvedge_cluster::transport_contract;

    transport_contract!(super::at_router);
}

/// Two nodes, one of which listens and one dials, so that every byte goes through the router.
struct TwoNodes {
    listens: Zenoh,
    dials: Zenoh,
}

impl TwoNodes {
    fn new() -> Self {
        let (listens, dials) = (at_router(), at_router());
        TwoNodes { listens, dials }
    }
}

impl Transport for TwoNodes {
    fn name(&self) -> &str {
        self.listens.name()
    }

    fn connect<'a>(&'a self, to: &'a PeerInfo) -> Pending<'a, Halves> {
        self.dials.connect(to)
    }

    fn listen(&self) -> Pending<'_, Box<dyn Acceptor>> {
        self.listens.listen()
    }
}

mod through_a_router {
    use selvedge_cluster::transport_contract;

    transport_contract!(super::TwoNodes::new);
}

/// What the router passes on, it cannot read.
mod under_tls {
    use selvedge_cluster::net::{Issuer, PeerNames, Tls};
    use selvedge_cluster::transport_contract;

    fn tls() -> Tls {
        let credentials = Issuer::new().unwrap().issue().unwrap().credentials().unwrap();
        Tls::over(super::TwoNodes::new(), &credentials, PeerNames::Any).unwrap()
    }

    transport_contract!(tls);
}
