//! The worker's side: it listens, says where, hears its driver, and works for it.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::num::NonZeroU16;
use std::sync::{Arc, OnceLock, Weak};

use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};
use parking_lot::Mutex;
use selvedge_cluster::handshake::{Cookie, CookieSource, Role};
use selvedge_cluster::manager::{BindAddress, WorkerFlags, WorkerPlace};
use selvedge_cluster::net::{Arrival, Listener};
use selvedge_cluster::peer::{Peer, ProcessId};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::guest::{Attempts, DialPlan, address_towards, dial_driver};
use super::identity::{MEANS, Means, identity, welcome};
use super::link_transport::of_worker;
use super::met_driver::MetDriver;
use super::way_back::WayBack;
use crate::hub::connection::Resume;
use crate::hub::post::Post;
use crate::hub::reactor::start_reactor;
use crate::hub::start::register_services;
use crate::hub::{Hub, LinkSettings};
use crate::platform;
use crate::platform::peer_socket::of_link;
use crate::remote::service::Remote;
use crate::runtime::Runtime;
use crate::worker::exit::{exit_now, refuse};
use crate::worker::letters::{WORDS, WayOn, WordOfDriver, WordsOfDriver, driver_timeout};
use crate::worker::protocol::FromWorker;
use crate::worker::serve::WorkerLanes;
use crate::worker::writer::Writer;

/// Runs a worker that was started with these flags to its end.
pub(crate) fn serve(flags: &WorkerFlags) -> ! {
    platform::premain::begin_hosted();
    let mut entry = match &flags.dial {
        None => Entry::Port,
        Some(to) => Entry::Dials(DialPlan {
            to: to.clone(),
            has_port: !flags.no_port,
            attempts: Attempts::within(driver_timeout()),
        }),
    };
    let started = reactor().and_then(|reactor| {
        let address = reactor.block_on(address(flags, &mut entry))?;
        start(&reactor, means(flags, address)?, entry)
    });
    work_or_refuse(started)
}

/// The way by which a worker and its driver meet.
pub(super) enum Entry {
    /// The worker announces a port of TCP, where the driver dials it.
    Port,
    /// The worker announces a place that only the transport of the user's own understands.
    Own,
    /// The worker dials the driver.
    Dials(DialPlan),
}

/// Runs a worker to its end.
pub(super) fn serve_over(means: Means, entry: Entry) -> ! {
    work_or_refuse(reactor().and_then(|reactor| start(&reactor, means, entry)))
}

fn work_or_refuse(started: Result<WorkingHost, String>) -> ! {
    match started {
        Ok(worker) => work(worker),
        Err(why) => refuse(&why),
    }
}

fn reactor() -> Result<Handle, String> {
    start_reactor().map_err(|error| format!("no thread for links: {error}"))
}

/// The cookie, and the transport by which this worker listens at this address.
fn means(flags: &WorkerFlags, address: SocketAddr) -> Result<Means, String> {
    let means = match &flags.cookie_file {
        Some(path) => {
            let opened = CookieSource::open(path);
            let (cookie, mut rest) = opened.map_err(|error| error.to_string())?;
            means_of(flags, address, cookie, &mut rest)?
        }
        None => {
            let mut stdin = std::io::stdin().lock();
            let cookie = CookieSource::Stdin.read(&mut stdin);
            let cookie = cookie.map_err(|error| error.to_string())?;
            means_of(flags, address, cookie, &mut stdin)?
        }
    };
    platform::premain::close_stdin()
        .map_err(|error| format!("the standard input cannot be closed: {error}"))?;
    Ok(means)
}

/// The means of a worker with these flags, of which `input` has the credentials.
fn means_of(
    flags: &WorkerFlags,
    address: SocketAddr,
    cookie: Cookie,
    input: &mut dyn Read,
) -> Result<Means, String> {
    let transport = of_worker(address, flags.tls.as_ref(), input)?;
    Ok(Means { cookie, transport })
}

/// The steps up to the link with the driver.
fn start(reactor: &Handle, means: Means, entry: Entry) -> Result<WorkingHost, String> {
    let means = MEANS.get_or_init(|| means).clone();
    let met = reactor.block_on(meet_driver(means.clone(), entry))?;
    let (me, driver) = (met.me, met.driver);
    let (hub, writer, remote) = hub_of(reactor, me, driver);
    let (sender, words) = unbounded();
    let way_back = Arc::new(WayBack {
        hub: Arc::downgrade(&hub),
        means,
        to: met.dialled,
        listens_at: met.listens_at,
        driver: Mutex::new(driver),
        terms: met.terms,
    });
    let service = WordsOfDriver {
        hub: Arc::downgrade(&hub),
        words: sender,
        way_on: Arc::clone(&way_back) as Arc<dyn WayOn>,
    };
    hub.register(WORDS, Arc::new(service));
    let lanes = WorkerLanes::with_hub(Arc::clone(&writer), Arc::clone(&hub), Runtime::of_worker(remote));
    // The word waits in the link, so a driver that dies from now on, and its next life, cannot get it twice.
    writer.send(&way_back.introduction(None));
    let adopted = {
        let _context = reactor.enter();
        of_link(met.link).and_then(|connection| hub.adopt(driver, connection, met.resume))
    };
    adopted.map_err(|error| format!("the link of the driver cannot be used: {error}"))?;
    if let Some(listener) = met.listener {
        reactor.spawn(hear_peers(listener, Arc::clone(&hub), driver));
    }
    Ok(WorkingHost {
        lanes,
        words,
        way_back,
        hub,
    })
}

/// Makes the hub and the services of a process that has met its driver, and that which asks the driver for links.
pub(super) fn hub_of(reactor: &Handle, me: Peer, driver: Peer) -> (Arc<Hub>, Arc<Writer>, Arc<Remote>) {
    let slot = Arc::<OnceLock<Weak<Writer>>>::default();
    let asking = Arc::clone(&slot);
    let hub = Hub::of_worker(me, driver, LinkSettings::default(), move |peer| {
        // Without a writer, nobody asks yet, or this process has left. The writer holds the hub, so the hub does not hold the writer.
        if let Some(writer) = asking.get().and_then(Weak::upgrade) {
            writer.send(&FromWorker::AskLink { peer });
        }
    });
    hub.set_reactor(reactor.clone());
    let writer = Arc::new(Writer::Letters {
        post: Arc::clone(&hub) as Arc<dyn Post>,
    });
    slot.get_or_init(|| Arc::downgrade(&writer));
    let remote = Remote::new(Arc::clone(&hub) as Arc<dyn Post>);
    register_services(&hub, &remote);
    (hub, writer, remote)
}

/// A worker that has met its driver.
struct WorkingHost {
    lanes: WorkerLanes,
    words: Receiver<WordOfDriver>,
    way_back: Arc<WayBack>,
    hub: Arc<Hub>,
}

impl WorkingHost {
    fn driver_has_progressed(&self) -> bool {
        let driver = self.hub.peer(ProcessId::HEAD);
        driver.is_some_and(|driver| self.hub.has_progressed(driver))
    }
}

/// Meets the driver, within the time that a worker waits for its driver.
async fn meet_driver(means: Means, entry: Entry) -> Result<MetDriver, String> {
    let limit = driver_timeout();
    let heard = match entry {
        Entry::Dials(plan) => return dial_driver(means, plan).await,
        Entry::Port => timeout(limit, hear_driver(means, false)).await,
        Entry::Own => timeout(limit, hear_driver(means, true)).await,
    };
    heard.unwrap_or_else(|_| Err(format!("no driver has come within {limit:?}")))
}

/// Listens, says where, and waits for the driver, which names this worker.
async fn hear_driver(means: Means, is_own: bool) -> Result<MetDriver, String> {
    let identity = identity(Role::Worker, None, None, means.cookie);
    let bound = Listener::bind(&*means.transport, identity).await;
    let mut listener = bound.map_err(|error| error.to_string())?;
    let connect_at = listener.connect_at();
    let place = match is_own {
        false => connect_at.parse().map(WorkerPlace::Address),
        true => WorkerPlace::own(connect_at),
    };
    let place = place.map_err(|error| format!("{connect_at}: {error}"))?;
    let mut stdout = std::io::stdout();
    let written = stdout.write_all(place.announcement().as_bytes());
    written
        .and_then(|()| stdout.flush())
        .map_err(|error| format!("the address cannot be announced: {error}"))?;
    loop {
        // An error is about one process, which was not the driver.
        let Ok(arrival) = listener.next().await else {
            continue;
        };
        let hello = arrival.hello();
        if let (Role::Head, Some(driver), Some(me)) = (hello.role, hello.peer, hello.to)
            && let Ok(link) = arrival.welcome(&welcome(me, driver)).await
        {
            return Ok(MetDriver {
                link,
                me,
                driver,
                listener: Some(listener),
                listens_at: None,
                dialled: None,
                terms: None,
                resume: Resume::Waits,
            });
        }
    }
}

/// Hears other processes as long as this one lives.
pub(super) async fn hear_peers(mut listener: Listener, hub: Arc<Hub>, driver: Peer) {
    loop {
        if let Ok(arrival) = listener.next().await {
            let hub = Arc::clone(&hub);
            tokio::spawn(async move { hear_peer(arrival, &hub, driver).await });
        }
    }
}

/// Takes the connection of a worker or a job that wants to reach this one, or of the driver whose last one has broken.
async fn hear_peer(arrival: Arrival, hub: &Hub, driver: Peer) {
    let (me, hello) = (hub.me(), arrival.hello());
    let is_welcome = |peer: &Peer| match hello.role {
        Role::Head => *peer == driver,
        Role::Worker | Role::Driver => peer.process != me.process && peer.process != driver.process,
    };
    let peer = hello.peer.filter(is_welcome).filter(|peer| !hub.is_buried(*peer));
    let (Some(peer), true) = (peer, hello.to == Some(me)) else {
        return;
    };
    let role = hello.role;
    if role == Role::Driver {
        // The driver's notice of the job may come later.
        hub.note_job(peer);
    }
    let Ok(link) = arrival.welcome(&welcome(me, peer)).await else {
        return;
    };
    let adopted = of_link(link).and_then(|connection| hub.adopt(peer, connection, Resume::Waits));
    if let (Err(error), Role::Worker | Role::Driver) = (adopted, role) {
        // The peer learns it by the end of its connection. The driver dials again.
        hub.unreachable(peer, error.to_string());
    }
}

/// Acts on the words of the driver, which end this process.
fn work(mut worker: WorkingHost) -> ! {
    let silence = driver_timeout();
    let mut limit = silence;
    loop {
        let (message, body) = match worker.words.recv_timeout(limit) {
            Ok(WordOfDriver::Word(message, body)) => (message, body),
            Ok(WordOfDriver::Died) => {
                worker.lanes.driver_died();
                // Whoever looks for the next life of the driver ends this process before.
                limit = worker.way_back.within().saturating_add(silence);
                continue;
            }
            // A long letter of the driver is arriving, and its signs of life wait behind that.
            Err(RecvTimeoutError::Timeout) if limit == silence && worker.driver_has_progressed() => continue,
            Err(RecvTimeoutError::Timeout) if worker.way_back.is_there() && limit == silence => {
                let driver = worker.hub.peer(ProcessId::HEAD);
                let why = format!("nothing was heard of it for {limit:?}");
                driver
                    .into_iter()
                    .for_each(|driver| worker.hub.cut(driver, why.clone()));
                limit = worker.way_back.within().saturating_add(silence);
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {
                refuse(&format!("nothing was heard of the driver for {limit:?}"))
            }
            // The hub has ended.
            Err(RecvTimeoutError::Disconnected) => exit_now(0),
        };
        limit = silence;
        match message {
            Ok(message) => worker.lanes.handle(message, body.to_bytes().into()),
            Err(error) => refuse(&format!("the link to the driver broke: {error}")),
        }
    }
}

/// The address to listen on: the one that was given; or that from which a guest reaches its driver; or the one at which this host was
/// reached, or that of its name. Port 0 stands for a free one.
async fn address(flags: &WorkerFlags, entry: &mut Entry) -> Result<SocketAddr, String> {
    let bind = flags.bind.as_deref().map(str::parse::<BindAddress>).transpose();
    let bind = bind.map_err(|error| format!("the address to listen on: {error}"))?;
    if let Some(bind) = bind {
        return resolve(bind.host.as_str(), bind.port.map_or(0, NonZeroU16::get));
    }
    if let Entry::Dials(plan) = entry {
        return address_towards(&plan.to, &mut plan.attempts).await;
    }
    // `sshd` says by it at which address its client has reached it.
    let reached = std::env::var("SSH_CONNECTION").ok();
    let reached: Option<IpAddr> = reached.and_then(|text| text.split(' ').nth(2)?.parse().ok());
    match reached {
        Some(address) => Ok(SocketAddr::new(address, 0)),
        None => resolve(&platform::host::network_name(), 0),
    }
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr, String> {
    let found = (host, port).to_socket_addrs();
    let mut found = found.map_err(|error| format!("the address of `{host}` is not known: {error}"))?;
    found
        .next()
        .ok_or_else(|| format!("`{host}` has no address: give one by `--bind-to`"))
}
