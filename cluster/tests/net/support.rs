//! What several tests need.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use selvedge_cluster::handshake::{Cookie, Hello, Identity, Role, Welcome};
use selvedge_cluster::net::{
    Acceptor, Arrival, Bridge, Halves, Link, LinkError, Listener, PeerInfo, Tcp, Transport,
};
use selvedge_cluster::peer::ProcessId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::join;
use tokio::runtime::Builder;
use tokio::time::timeout;

/// Runs a test on one thread. A wait that does not end fails it.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let ended = runtime.block_on(async { timeout(Duration::from_secs(60), test).await });
    ended.expect("a wait has not ended")
}

/// Runs a test in virtual time, which goes on whenever everybody waits. A wait that does not end fails it.
pub(crate) fn run_in_virtual_time<T>(test: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build();
    let days = Duration::from_secs(30 * 86_400);
    let ended = runtime.unwrap().block_on(async { timeout(days, test).await });
    ended.expect("a wait has not ended")
}

/// The transports of the system, and the one in memory.
pub(crate) fn transports() -> Vec<Box<dyn Transport>> {
    let mut all: Vec<Box<dyn Transport>> = vec![Box::new(Tcp::loopback()), Box::new(Bridge::new(1000))];
    #[cfg(target_os = "linux")]
    all.push(Box::new(selvedge_cluster::net::Uds::new().unwrap()));
    all
}

/// All transports, the encrypted one too.
pub(crate) fn transports_and_tls() -> Vec<Box<dyn Transport>> {
    let mut all = transports();
    all.push(Box::new(crate::tls::tls()));
    all
}

pub(crate) fn identity(role: Role) -> Identity {
    Identity {
        hello: Hello::new("lab", "one", 7, role),
        cookie: Cookie::new([5; 32]),
        binding: Vec::new(),
    }
}

pub(crate) fn stranger() -> Identity {
    Identity {
        cookie: Cookie::new([6; 32]),
        ..identity(Role::Worker)
    }
}

pub(crate) fn welcome() -> Welcome {
    let peer = ProcessId::HEAD.first_life();
    Welcome {
        you: peer,
        me: peer,
        note: b"a note".to_vec(),
    }
}

pub(crate) async fn listener(transport: &dyn Transport) -> Listener {
    Listener::bind(transport, identity(Role::Head)).await.unwrap()
}

pub(crate) fn at(connect_at: &str) -> PeerInfo {
    PeerInfo {
        process: ProcessId::new(3).unwrap(),
        connect_at: connect_at.to_owned(),
    }
}

/// The first process that proves itself; strangers before it are refused.
pub(crate) async fn first_arrival(listener: &mut Listener) -> Arrival {
    loop {
        if let Ok(arrival) = listener.next().await {
            return arrival;
        }
    }
}

/// The error of the next stranger.
pub(crate) async fn refusal(listener: &mut Listener) -> LinkError {
    listener.next().await.expect_err("a stranger was let in")
}

/// Accepts a stream without a handshake.
pub(crate) async fn accept(acceptor: &mut dyn Acceptor) -> Halves {
    let accepted = poll_fn(|cx| acceptor.poll_accept(cx)).await.unwrap();
    accepted.halves.await.unwrap()
}

/// Sends these bytes over a link, ends its direction, and returns what the peer has sent until it has ended its own.
pub(crate) async fn exchange(link: Link, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let Halves {
        mut reader,
        mut writer,
        ..
    } = link.halves;
    let write = async {
        writer.write_all(bytes).await?;
        writer.shutdown().await
    };
    let mut read = link.beyond;
    let (written, done) = join!(write, reader.read_to_end(&mut read));
    written.and(done)?;
    Ok(read)
}
