//! A port of TCP that is taken before somebody listens there.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use super::tcp::{Tcp, TcpAcceptor};
use super::transport::{Acceptor, Halves, PeerInfo, Pending, Transport};

/// TCP over a port that this process has taken. Connections of other processes wait there from the beginning, and are accepted
/// once somebody listens. One listener at a time of the transport and its clones has the port, which is free again when that is
/// dropped, or all clones are.
#[derive(Clone, Debug)]
pub struct TcpPort {
    /// The socket, until somebody listens.
    listener: Arc<Mutex<Option<TcpListener>>>,
    address: SocketAddr,
}

impl TcpPort {
    /// Takes a port. Port 0 stands for one that the system chooses, and the address `0.0.0.0` or `[::]` for every interface.
    ///
    /// # Errors
    /// The port is taken, or the address is none of this host.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = Arc::new(Mutex::new(Some(listener)));
        Ok(TcpPort { listener, address })
    }

    /// The address, with the port that the system has chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The listener, which takes the port again if an earlier one has given it back.
    fn acceptor(&self) -> io::Result<TcpAcceptor> {
        let taken = self
            .listener
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let listener = match taken {
            Some(listener) => listener,
            None => {
                let listener = TcpListener::bind(self.address)?;
                listener.set_nonblocking(true)?;
                listener
            }
        };
        let listener = tokio::net::TcpListener::from_std(listener)?;
        Ok(TcpAcceptor::new(listener, self.address.to_string()))
    }
}

impl Transport for TcpPort {
    fn name(&self) -> &str {
        "tcp"
    }

    fn connect<'a>(&'a self, to: &'a PeerInfo) -> Pending<'a, Halves> {
        Box::pin(async { Tcp::on(self.address.ip()).connect(to).await })
    }

    fn listen(&self) -> Pending<'_, Box<dyn Acceptor>> {
        Box::pin(async {
            let acceptor: Box<dyn Acceptor> = Box::new(self.acceptor()?);
            Ok(acceptor)
        })
    }
}
