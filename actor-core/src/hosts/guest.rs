//! The worker's side of a guest: a worker that nobody has started for the driver, and that dials it.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use selvedge_cluster::handshake::{HandshakeError, Role};
use selvedge_cluster::net::{Link, LinkCause, LinkError, Listener, PeerInfo, dial};
use selvedge_cluster::peer::ProcessId;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::dialing::PlaceOfPeer;
use super::identity::{Means, identity};
use super::met_driver::MetDriver;
use crate::hub::connection::Resume;

/// The pause after the first attempt; it doubles after each one.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The address of the driver, and whether other workers can dial this one.
pub(super) struct DialPlan {
    pub(super) to: String,
    pub(super) has_port: bool,
}

/// Dials the driver until it admits this worker, for as long as `limit`. A driver that is not there yet, or that waits for no
/// worker now, may be so later; one that refuses this worker is not dialled again.
///
/// # Errors
/// A text: the driver refuses this worker, or does not answer.
pub(super) async fn dial_driver(means: Means, plan: DialPlan, limit: Duration) -> Result<MetDriver, String> {
    let listener = match plan.has_port {
        true => Some(listen(&means).await?),
        false => None,
    };
    let link = admitted(&means, &plan.to, Instant::now() + limit).await;
    let link = link.map_err(|why| format!("the driver at {} does not admit this worker: {why}", plan.to))?;
    let (me, driver) = (link.welcome.you, link.welcome.me);
    if link.hello.role != Role::Head || driver.process != ProcessId::HEAD || me.process == driver.process {
        return Err(format!("no driver listens at {}, but {driver}", plan.to));
    }
    let way = PlaceOfPeer::of_driver(me, driver, plan.to, means);
    Ok(MetDriver {
        listens_at: listener.as_ref().map(|listener| listener.connect_at().to_owned()),
        listener,
        link,
        me,
        driver,
        resume: Resume::Dials(Arc::new(way)),
    })
}

async fn listen(means: &Means) -> Result<Listener, String> {
    let identity = identity(Role::Worker, None, None, means.cookie.clone());
    let bound = Listener::bind(&*means.transport, identity).await;
    bound.map_err(|error| error.to_string())
}

/// Dials until this worker is admitted.
async fn admitted(means: &Means, to: &str, deadline: Instant) -> Result<Link, String> {
    let identity = identity(Role::Worker, None, None, means.cookie.clone());
    let place = PeerInfo {
        process: ProcessId::HEAD,
        connect_at: to.to_owned(),
    };
    let mut pause = PAUSE;
    let mut why = "nobody answers".to_owned();
    loop {
        match timeout_at(deadline, dial(&*means.transport, &place, &identity)).await {
            Ok(Ok(link)) => return Ok(link),
            Ok(Err(error)) if is_final(&error) => return Err(error.to_string()),
            Ok(Err(error)) => why = error.to_string(),
            Err(_) => return Err(why),
        }
        let next = Instant::now() + pause;
        if next >= deadline {
            return Err(why);
        }
        sleep_until(next).await;
        pause = PAUSE_MAX.min(pause * 2);
    }
}

/// Whether another attempt would end in the same way.
fn is_final(error: &LinkError) -> bool {
    !matches!(
        error.cause,
        LinkCause::Unreachable { .. }
            | LinkCause::Lost { .. }
            | LinkCause::Handshake(HandshakeError::TooLate)
    )
}

/// The address of this host from which packets to the driver leave, with a free port.
///
/// # Errors
/// A text: the driver's address is none, or no way leads there.
pub(super) fn address_towards(driver: &str) -> Result<SocketAddr, String> {
    let unknown = |error| format!("the address of the driver, `{driver}`, is not known: {error}");
    let mut found = driver.to_socket_addrs().map_err(unknown)?;
    let to = found.next().ok_or_else(|| format!("`{driver}` has no address"))?;
    let any: IpAddr = match to {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    // A datagram socket that is connected has found its way, and has sent nothing.
    let way = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(to)?;
        socket.local_addr()
    });
    let way = way.map_err(|error| format!("no way leads to the driver at {to}: {error}"))?;
    Ok(SocketAddr::new(way.ip(), 0))
}
