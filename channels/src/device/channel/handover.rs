//! The handover of descriptors of device memory to other processes, over a Unix socket of the creator.
//!
//! Such a descriptor is not a file that another process could open through `/proc`, so the creator sends it. One thread
//! of the creator sleeps in `accept`. It answers a request from a process of the same user that knows the number of the
//! descriptor. A process that asks checks that the creator listens. The thread starts with the first offered descriptor and ends with the last. The socket has no name in
//! any file system, so it leaves nothing behind.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg,
    shutdown, socket_with,
};
use serde::{Deserialize, Serialize};

use crate::platform::socket_peer;

/// The time limit of each step of an exchange, on either side.
const STEP_TIMEOUT: Duration = Duration::from_secs(5);
/// The delay before the thread calls `accept` again after an error.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

static SERVER: Mutex<Option<DescriptorServer>> = Mutex::new(None);

/// The address of an offered descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Address {
    /// A number in the socket's name.
    server: u64,
    pid: u32,
    /// The number of the descriptor; hard to guess.
    number: u64,
}

impl Address {
    /// The process that offers the descriptor.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }
}

type Offers = Arc<Mutex<HashMap<u64, OwnedFd>>>;

/// The connection that the thread serves now, and the flag that tells the thread to stop.
#[derive(Default)]
struct CurrentRequest {
    closing: bool,
    stream: Option<Arc<UnixStream>>,
}

struct DescriptorServer {
    number: u64,
    pid: u32,
    offers: Offers,
    asking: Arc<Mutex<CurrentRequest>>,
    listener: Arc<UnixListener>,
    thread: Option<JoinHandle<()>>,
}

/// The offer of a descriptor, which ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Offer {
    address: Address,
}

impl Offer {
    pub(super) fn address(&self) -> &Address {
        &self.address
    }
}

fn fresh() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// The socket's name, in the abstract namespace.
fn socket_name(pid: u32, server: u64) -> String {
    format!("selvedge-device-{pid}-{server:016x}")
}

/// Offers a descriptor to other processes of this user.
pub(super) fn offer(descriptor: OwnedFd) -> io::Result<Offer> {
    let mut slot = SERVER.lock();
    let server = match &mut *slot {
        Some(server) => server,
        None => slot.insert(DescriptorServer::open()?),
    };
    let address = Address {
        server: server.number,
        pid: server.pid,
        number: fresh(),
    };
    server.offers.lock().insert(address.number, descriptor);
    Ok(Offer { address })
}

impl Drop for Offer {
    fn drop(&mut self) {
        let mut slot = SERVER.lock();
        let Some(server) = slot.as_ref() else { return };
        let mut offers = server.offers.lock();
        offers.remove(&self.address.number);
        let last = offers.is_empty();
        drop(offers);
        if !last {
            return;
        }
        let server = slot.take();
        drop(slot);
        if let Some(mut server) = server {
            server.close();
        }
    }
}

impl DescriptorServer {
    fn open() -> io::Result<Self> {
        let (number, pid) = (fresh(), std::process::id());
        let name = SocketAddr::from_abstract_name(socket_name(pid, number))?;
        let listener = Arc::new(UnixListener::bind_addr(&name)?);
        let (offers, asking) = (Offers::default(), Arc::<Mutex<CurrentRequest>>::default());
        let (listens, answers, asked) = (Arc::clone(&listener), Arc::clone(&offers), Arc::clone(&asking));
        let thread = thread::Builder::new()
            .name("selvedge-handover".into())
            .spawn(move || serve(&listens, &answers, &asked))?;
        Ok(DescriptorServer {
            number,
            pid,
            offers,
            asking,
            listener,
            thread: Some(thread),
        })
    }

    fn close(&mut self) {
        // The shutdown ends `accept`. In a forked child, thread and socket belong to the parent.
        if self.pid != std::process::id() {
            return;
        }
        let mut asking = self.asking.lock();
        asking.closing = true;
        if let Some(stream) = &asking.stream {
            // A slow client does not delay the shutdown.
            let _ = shutdown(&**stream, Shutdown::Both);
        }
        drop(asking);
        let _ = shutdown(&self.listener, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// The main function of the thread: answers requests until the socket is shut down.
fn serve(listener: &UnixListener, offers: &Offers, asking: &Mutex<CurrentRequest>) {
    let busy_with = |stream: Option<Arc<UnixStream>>| {
        let mut asking = asking.lock();
        asking.stream = stream;
        !asking.closing
    };
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                let stream = Arc::new(stream);
                if !busy_with(Some(Arc::clone(&stream))) {
                    return;
                }
                // A client that sends a wrong request or disconnects gets no answer. Other clients are not affected.
                drop(answer(&stream, offers));
                busy_with(None);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            // Either descriptors or memory are exhausted for now, and no event tells when that ends, so the thread
            // retries later; or the socket is shut down.
            Err(_) if busy_with(None) => thread::park_timeout(ACCEPT_RETRY),
            Err(_) => return,
        }
    }
}

fn answer(mut stream: &UnixStream, offers: &Offers) -> io::Result<()> {
    stream.set_read_timeout(Some(STEP_TIMEOUT))?;
    stream.set_write_timeout(Some(STEP_TIMEOUT))?;
    socket_peer::check(stream, None)?;
    let mut number = [0; 8];
    stream.read_exact(&mut number)?;
    let offers = offers.lock();
    let found = offers.get(&u64::from_ne_bytes(number));
    let descriptor = found.ok_or(io::ErrorKind::NotFound)?.try_clone()?;
    drop(offers);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(stream, &[IoSlice::new(&[1])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Connects with time limits on sends, receives and the connecting itself. The system queues concurrent requests up to
/// its limit.
fn connect(name: &SocketAddrUnix) -> io::Result<UnixStream> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    for direction in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, direction, Some(STEP_TIMEOUT))?;
    }
    rustix::net::connect(&socket, name)?;
    Ok(socket.into())
}

/// Requests a descriptor that another process offers.
pub(super) fn fetch(address: &Address) -> Result<OwnedFd, (&'static str, io::Error)> {
    let step = |what: &'static str| move |error: io::Error| (what, error);
    let name = socket_name(address.pid, address.server);
    let name = SocketAddrUnix::new_abstract_name(name.as_bytes());
    let name = name.map_err(|error| step("naming its socket")(error.into()))?;
    let mut stream = connect(&name).map_err(step("connecting to it"))?;
    // Names of sockets are public, and free again when their socket is closed: another process may have taken this one.
    socket_peer::check(&stream, Some(address.pid)).map_err(step("looking who listens"))?;
    stream
        .write_all(&address.number.to_ne_bytes())
        .map_err(step("asking"))?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    recvmsg(&stream, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)
        .map_err(|error| step("receiving")(error.into()))?;
    let descriptor = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    descriptor.ok_or_else(|| step("receiving")(io::ErrorKind::NotFound.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no sockets")]
    fn who_asks_while_there_is_no_descriptor_is_answered_when_there_is() {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "device::channel::handover::tests::starving",
                "--ignored",
            ])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    #[ignore = "a part of the test above, in a process of its own"]
    fn starving() {
        let limit = |current| {
            let maximum = getrlimit(Resource::Nofile).maximum;
            setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
        };
        let (_reads, writes) = io::pipe().unwrap();
        let offered = offer(writes.into()).unwrap();
        let address = offered.address();
        let name = socket_name(address.pid, address.server);
        let name = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        let socket = || {
            let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
            socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap()
        };
        let (first, socket) = (socket(), socket());
        let before = getrlimit(Resource::Nofile).current;
        limit(Some(0));
        // A thread that waits in `accept` already holds a descriptor, which the first connection takes.
        rustix::net::connect(&first, &name).unwrap();
        drop(first);
        rustix::net::connect(&socket, &name).unwrap();
        // Time for a faulty thread to end. A thread that ends later passes the test by mistake; a correct thread never
        // fails it.
        let gave_up = || {
            SERVER
                .lock()
                .as_ref()
                .unwrap()
                .thread
                .as_ref()
                .unwrap()
                .is_finished()
        };
        let begun = std::time::Instant::now();
        while !gave_up() && begun.elapsed() < 4 * ACCEPT_RETRY {
            thread::yield_now();
        }
        limit(before);
        let mut stream = UnixStream::from(socket);
        stream.write_all(&address.number.to_ne_bytes()).unwrap();
        stream.set_read_timeout(Some(2 * STEP_TIMEOUT)).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 1);
        fetch(address).unwrap();
    }

    const NAME: &str = "SELVEDGE_TEST_SOCKET_NAME";

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no sockets")]
    fn another_process_that_takes_the_name_of_an_ended_offer_is_not_asked() {
        let address = Address {
            server: fresh(),
            pid: std::process::id(),
            number: fresh(),
        };
        let mut thief = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "device::channel::handover::tests::taking_a_name"])
            .args(["--ignored", "--nocapture"])
            .env(NAME, socket_name(address.pid, address.server))
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let said = io::BufReader::new(thief.stdout.take().unwrap());
        let mut lines = io::BufRead::lines(said).map_while(Result::ok);
        let listens = lines.by_ref().any(|line| line.contains("the name is taken"));
        let fetched = fetch(&address).map_err(|(step, error)| (step, error.kind()));
        thief.kill().unwrap();
        thief.wait().unwrap();
        assert!(listens);
        let refused = ("looking who listens", io::ErrorKind::PermissionDenied);
        assert_eq!(fetched.unwrap_err(), refused);
    }

    #[test]
    #[ignore = "a part of the test above, in a process of its own"]
    fn taking_a_name() {
        let name = SocketAddr::from_abstract_name(std::env::var(NAME).unwrap()).unwrap();
        let listener = UnixListener::bind_addr(&name).unwrap();
        println!("the name is taken");
        let (stream, _) = listener.accept().unwrap();
        // Hands over a descriptor whatever is asked for.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [listener.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let _ = sendmsg(
            &stream,
            &[IoSlice::new(&[1])],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        );
        // Until the other process has seen what it was given.
        let _ = (&stream).read_to_end(&mut Vec::new());
    }

    // Two tests would share the socket of one `DescriptorServer`, so both cases are one test.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no sockets")]
    fn a_descriptor_is_handed_over_for_as_long_as_it_is_offered() {
        let (mut reads, writes) = io::pipe().unwrap();
        let offered = offer(writes.into()).unwrap();
        let address = offered.address().clone();
        let fetched = fetch(&address).unwrap();
        let wrong = Address {
            number: address.number ^ 1,
            ..address.clone()
        };
        assert!(fetch(&wrong).is_err(), "nothing of that number");
        // A client that connects and sends nothing does not delay other processes.
        let name = socket_name(address.pid, address.server);
        let silent = connect(&SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
        drop(offered);
        drop(silent);
        assert!(fetch(&address).is_err(), "not offered any more");
        let mut pipe = io::PipeWriter::from(fetched);
        pipe.write_all(b"x").unwrap();
        drop(pipe);
        let mut text = String::new();
        reads.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
        assert!(
            SERVER.lock().is_none(),
            "the thread has ended with the last offer"
        );
    }
}
