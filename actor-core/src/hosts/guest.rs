//! The worker's side of a guest: a worker that nobody has started for the driver, and that dials it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use selvedge_cluster::handshake::{HandshakeError, Role};
use selvedge_cluster::net::{Link, LinkCause, LinkError, Listener, PeerInfo, Tcp, dial};
use selvedge_cluster::peer::{Peer, ProcessId};
use tokio::net::lookup_host;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::dialing::PlaceOfPeer;
use super::identity::{Means, identity};
use super::met_driver::MetDriver;
use super::rejoin_terms::terms_of;
use crate::deadline::deadline_after;
use crate::hub::connection::Resume;

/// The pause after the first attempt; it doubles after each one.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The address of the driver, and whether other workers can dial this one.
pub(super) struct DialPlan {
    pub(super) to: String,
    pub(super) has_port: bool,
    /// The time that this worker waits for its driver.
    pub(super) attempts: Attempts,
}

/// Attempts at what may be possible later, with growing pauses between them, until a deadline.
pub(super) struct Attempts {
    deadline: Instant,
    pause: Duration,
}

impl Attempts {
    pub(super) fn within(limit: Duration) -> Self {
        Attempts {
            deadline: deadline_after(limit).into(),
            pause: PAUSE,
        }
    }

    /// Makes attempts until one succeeds or fails for good.
    ///
    /// # Errors
    /// A text: why the last attempt has failed.
    async fn make<T, A>(&mut self, attempt: impl Fn() -> A) -> Result<T, String>
    where
        A: Future<Output = Result<T, Attempt>>,
    {
        let mut why = "nobody answers".to_owned();
        loop {
            match timeout_at(self.deadline, attempt()).await {
                Ok(Ok(made)) => return Ok(made),
                Ok(Err(Attempt::IsFinal(why))) => return Err(why),
                Ok(Err(Attempt::MaySucceedLater(now))) => why = now,
                Err(_) => return Err(why),
            }
            let next = Instant::now() + self.pause;
            if next >= self.deadline {
                return Err(why);
            }
            sleep_until(next).await;
            self.pause = PAUSE_MAX.min(self.pause * 2);
        }
    }
}

/// A failed attempt, with its reason.
enum Attempt {
    IsFinal(String),
    MaySucceedLater(String),
}

/// Dials the driver until it admits this worker. A driver that is not there yet, or that waits for no worker now, may be so later; one that
/// refuses this worker is not dialled again. Each attempt looks up the name of the driver.
///
/// # Errors
/// A text: the driver refuses this worker, or does not answer.
pub(super) async fn dial_driver(means: Means, mut plan: DialPlan) -> Result<MetDriver, String> {
    let listener = match plan.has_port {
        true => Some(listen(&means).await?),
        false => None,
    };
    let link = admitted(&means, None, &plan.to, &mut plan.attempts).await;
    let link = link.map_err(|why| format!("the driver at {} does not admit this worker: {why}", plan.to))?;
    let (me, driver) = (link.welcome.you, link.welcome.me);
    if link.hello.role != Role::Head || driver.process != ProcessId::HEAD || me.process == driver.process {
        return Err(format!("no driver listens at {}, but {driver}", plan.to));
    }
    let terms = terms_of(&link.welcome.note)?;
    let way = PlaceOfPeer::of_driver(Role::Worker, me, driver, plan.to.clone(), means);
    Ok(MetDriver {
        dialled: Some(plan.to),
        listens_at: listener.as_ref().map(|listener| listener.connect_at().to_owned()),
        listener,
        link,
        me,
        driver,
        terms,
        resume: Resume::Dials(Arc::new(way)),
    })
}

async fn listen(means: &Means) -> Result<Listener, String> {
    let identity = identity(Role::Worker, None, None, means.cookie.clone());
    let bound = Listener::bind(&*means.transport, identity).await;
    bound.map_err(|error| error.to_string())
}

/// Dials until this worker is admitted: under a new name, or under the one that it has.
///
/// # Errors
/// A text: the driver refuses this worker, or does not answer in time.
pub(super) async fn admitted(
    means: &Means,
    me: Option<Peer>,
    to: &str,
    attempts: &mut Attempts,
) -> Result<Link, String> {
    let identity = identity(Role::Worker, me, None, means.cookie.clone());
    let place = PeerInfo {
        process: ProcessId::HEAD,
        connect_at: to.to_owned(),
    };
    let (place, identity) = (&place, &identity);
    let attempt = move || async move {
        let dialled = dial(&*means.transport, place, identity).await;
        // The next life of a driver says whom it refuses. One that ends meanwhile has a next life, too.
        let is_cut_off = |error: &LinkError| me.is_some() && error.cause == LinkCause::HungUp;
        dialled.map_err(|error| match is_final(&error) && !is_cut_off(&error) {
            true => Attempt::IsFinal(error.to_string()),
            false => Attempt::MaySucceedLater(error.to_string()),
        })
    };
    attempts.make(attempt).await
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

/// The address of this host from which packets to the driver leave, with a free port. The driver's name, and the way to it, may be known
/// later than this worker is started.
///
/// # Errors
/// A text: the driver's address is none, or no way leads there in time.
pub(super) async fn address_towards(driver: &str, attempts: &mut Attempts) -> Result<SocketAddr, String> {
    let unknown = |error: io::Error| {
        let why = format!("the address of the driver, `{driver}`, is not known: {error}");
        match error.kind() {
            // It has no port, or a wrong one.
            io::ErrorKind::InvalidInput => Attempt::IsFinal(why),
            _ => Attempt::MaySucceedLater(why),
        }
    };
    let attempt = || async {
        let found = lookup_host(driver).await.map_err(unknown)?.next();
        let to = found.ok_or_else(|| Attempt::MaySucceedLater(format!("`{driver}` has no address")))?;
        let way = Tcp::towards(to);
        way.map(|tcp| tcp.address())
            .map_err(|error| Attempt::MaySucceedLater(format!("no way leads to the driver at {to}: {error}")))
    };
    attempts.make(attempt).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn attempts_may_go_on_without_a_limit() {
        let tries = std::cell::Cell::new(0);
        let mut attempts = Attempts::within(Duration::MAX);
        let made = attempts.make(|| async {
            tries.set(tries.get() + 1);
            match tries.get() {
                5 => Ok(5),
                _ => Err(Attempt::MaySucceedLater("not yet".to_owned())),
            }
        });
        assert_eq!(made.await, Ok(5));
    }
}
