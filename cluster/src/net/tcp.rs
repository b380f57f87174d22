//! TCP.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::transport::{Accepted, Acceptor, Halves, PeerInfo, Pending, Transport};

/// The times for which the first attempts to connect wait for an answer. The one after them waits as long as the system does.
///
/// The system asks again 1 s, 3 s and 7 s after the first question that was lost, and a network that is there for a second at a time may
/// miss all of these moments. With other attempts before, there is no second within the first four without a question.
const FIRST_ATTEMPTS: [Duration; 2] = [Duration::from_millis(400), Duration::from_millis(800)];

/// Streams over TCP, without encryption; `Tls` over it encrypts. A listener binds one interface, and a port that the system chooses unless
/// one is given.
///
/// Small frames leave at once (`TCP_NODELAY`). The keepalive of TCP stays off, because a stream says nothing about whether a
/// process works: heartbeats do.
#[derive(Clone, Copy, Debug)]
pub struct Tcp {
    address: SocketAddr,
}

impl Tcp {
    /// TCP within this host: nobody outside can connect.
    pub const fn loopback() -> Self {
        Tcp::on(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// TCP over the interface that has this address.
    pub const fn on(interface: IpAddr) -> Self {
        Tcp::at(SocketAddr::new(interface, 0))
    }

    /// TCP over the interface from which packets to a place leave, such as `10.0.0.1:7447`: other hosts reach this one there, unless
    /// something between them changes addresses. Nothing is sent. The resolution of a name blocks.
    ///
    /// # Errors
    /// The name has no address, or no way leads there.
    pub fn towards(place: impl ToSocketAddrs) -> io::Result<Self> {
        let no_address = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let to = place.to_socket_addrs()?.next().ok_or_else(no_address)?;
        let any: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        // A socket of datagrams that is connected has found its way, and has sent nothing.
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(to)?;
        Ok(Tcp::on(socket.local_addr()?.ip()))
    }

    /// The address of its listeners. Port 0 stands for one that the system chooses.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// TCP whose listeners have this address. Port 0 stands for one that the system chooses.
    pub const fn at(address: SocketAddr) -> Self {
        Tcp { address }
    }

    async fn bind(self) -> io::Result<Box<dyn Acceptor>> {
        let interface = self.address.ip();
        if interface.is_unspecified() {
            let text = format!(
                "{interface} stands for every interface: name the address that other processes connect to"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let listener = TcpListener::bind(self.address).await?;
        let connect_at = listener.local_addr()?.to_string();
        Ok(Box::new(TcpAcceptor::new(listener, connect_at)))
    }
}

impl Transport for Tcp {
    fn name(&self) -> &str {
        "tcp"
    }

    fn connect<'a>(&'a self, to: &'a PeerInfo) -> Pending<'a, Halves> {
        Box::pin(async { halves(connected(&to.connect_at).await?) })
    }

    fn listen(&self) -> Pending<'_, Box<dyn Acceptor>> {
        Box::pin(self.bind())
    }
}

pub(super) struct TcpAcceptor {
    listener: TcpListener,
    connect_at: String,
}

impl TcpAcceptor {
    pub(super) fn new(listener: TcpListener, connect_at: String) -> Self {
        TcpAcceptor { listener, connect_at }
    }
}

impl Acceptor for TcpAcceptor {
    fn connect_at(&self) -> &str {
        &self.connect_at
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        let (stream, from) = ready!(self.listener.poll_accept(cx))?;
        Poll::Ready(halves(stream).map(|halves| Accepted::new(halves, from.to_string())))
    }
}

/// Connects. A question that is lost is repeated sooner than the system does it.
async fn connected(to: &str) -> io::Result<TcpStream> {
    for patience in FIRST_ATTEMPTS {
        if let Ok(answer) = timeout(patience, TcpStream::connect(to)).await {
            return answer;
        }
    }
    TcpStream::connect(to).await
}

fn halves(stream: TcpStream) -> io::Result<Halves> {
    stream.set_nodelay(true)?;
    let (reader, writer) = stream.into_split();
    Ok(Halves::new(reader, writer))
}
