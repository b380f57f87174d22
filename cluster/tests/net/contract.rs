//! The contract of every transport.

mod tcp {
    use selvedge_cluster::net::Tcp;
    use selvedge_cluster::transport_contract;

    transport_contract!(Tcp::loopback);
}

mod tcp_port {
    use std::net::{Ipv4Addr, SocketAddr};

    use selvedge_cluster::net::TcpPort;
    use selvedge_cluster::transport_contract;

    transport_contract!(|| TcpPort::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap());
}

#[cfg(target_os = "linux")]
mod uds {
    use selvedge_cluster::net::Uds;
    use selvedge_cluster::transport_contract;

    transport_contract!(|| Uds::new().unwrap());
}

mod tls_over_tcp {
    use selvedge_cluster::transport_contract;

    transport_contract!(crate::tls::tls);
}

/// The writer of TLS waits in the middle of a record.
mod tls_over_bridge {
    use selvedge_cluster::net::{Bridge, PeerNames};
    use selvedge_cluster::transport_contract;

    use crate::tls::Lab;

    transport_contract!(|| Lab::new().transport(Bridge::new(500), PeerNames::Any));
}

mod bridge {
    use selvedge_cluster::net::Bridge;
    use selvedge_cluster::transport_contract;

    transport_contract!(|| Bridge::new(5000));
}

/// Every dial works.
mod direct {
    use selvedge_cluster::net::{DirectOr, Tcp};
    use selvedge_cluster::transport_contract;

    use crate::direct_or::Unreachable;

    transport_contract!(|| DirectOr::new(Tcp::loopback(), Unreachable));
}

/// No dial works.
mod not_direct {
    use selvedge_cluster::net::{DirectOr, Tcp};
    use selvedge_cluster::transport_contract;

    use crate::direct_or::Unreachable;

    transport_contract!(|| DirectOr::new(Unreachable, Tcp::loopback()));
}

/// A transport of the user's own, which carries messages and has no streams.
mod messages {
    use selvedge_cluster::transport_contract;

    use crate::messages::Messages;

    transport_contract!(Messages::default);
}
