//! How a descriptor of device memory comes to another process: over a Unix socket of the process that made it.
//!
//! Such a descriptor is not a file that could be opened through `/proc`, so it is sent. One thread of the maker, asleep in
//! `accept`, answers who knows the number of what it asks for and is the same user; it starts with the first descriptor that
//! is offered and ends with the last. The socket has no name in any file system, so nothing is left behind.

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
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown, recvmsg, sendmsg, shutdown,
};
use serde::{Deserialize, Serialize};

/// How long either side waits for the other in the middle of it.
const PATIENCE: Duration = Duration::from_secs(5);

static OFFICE: Mutex<Option<Office>> = Mutex::new(None);

/// Where a descriptor can be asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Address {
    /// Part of the socket's name.
    office: u64,
    pid: u32,
    /// Which descriptor; hard to guess.
    number: u64,
}

impl Address {
    /// Of whom.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }
}

type Offers = Arc<Mutex<HashMap<u64, OwnedFd>>>;

struct Office {
    number: u64,
    pid: u32,
    offers: Offers,
    listener: Arc<UnixListener>,
    thread: Option<JoinHandle<()>>,
}

/// A descriptor that is offered until this is dropped.
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

fn socket_address(pid: u32, office: u64) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("selvedge-device-{pid}-{office:016x}"))
}

/// Offers a descriptor to other processes of this user.
pub(super) fn offer(descriptor: OwnedFd) -> io::Result<Offer> {
    let mut slot = OFFICE.lock();
    let office = match &mut *slot {
        Some(office) => office,
        None => slot.insert(Office::open()?),
    };
    let address = Address {
        office: office.number,
        pid: office.pid,
        number: fresh(),
    };
    office.offers.lock().insert(address.number, descriptor);
    Ok(Offer { address })
}

impl Drop for Offer {
    fn drop(&mut self) {
        let mut slot = OFFICE.lock();
        let Some(office) = slot.as_ref() else { return };
        let mut offers = office.offers.lock();
        offers.remove(&self.address.number);
        let last = offers.is_empty();
        drop(offers);
        if !last {
            return;
        }
        let office = slot.take();
        drop(slot);
        if let Some(mut office) = office {
            office.close();
        }
    }
}

impl Office {
    fn open() -> io::Result<Self> {
        let (number, pid) = (fresh(), std::process::id());
        let listener = Arc::new(UnixListener::bind_addr(&socket_address(pid, number)?)?);
        let offers = Offers::default();
        let (listens, answers) = (Arc::clone(&listener), Arc::clone(&offers));
        let thread = thread::Builder::new()
            .name("selvedge-handover".into())
            .spawn(move || serve(&listens, &answers))?;
        Ok(Office {
            number,
            pid,
            offers,
            listener,
            thread: Some(thread),
        })
    }

    fn close(&mut self) {
        // Ends `accept`. In a fork the thread is the parent's, and so is the socket.
        if self.pid != std::process::id() {
            return;
        }
        let _ = shutdown(&self.listener, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread: answers until the socket is shut down.
fn serve(listener: &UnixListener, offers: &Offers) {
    loop {
        match listener.accept() {
            // Who asks wrongly, or goes away, hears nothing; others do.
            Ok((stream, _)) => drop(answer(&stream, offers)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => return,
        }
    }
}

fn answer(mut stream: &UnixStream, offers: &Offers) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    if socket_peercred(stream)?.uid != rustix::process::getuid() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
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

/// Asks for a descriptor that another process offers.
pub(super) fn fetch(address: &Address) -> Result<OwnedFd, (&'static str, io::Error)> {
    let step = |what: &'static str| move |error: io::Error| (what, error);
    let name = socket_address(address.pid, address.office).map_err(step("naming its socket"))?;
    // Waits only where as many others ask at once as the system lets queue.
    let mut stream = UnixStream::connect_addr(&name).map_err(step("connecting to it"))?;
    stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
        .map_err(step("setting a time-out"))?;
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

    // The sockets of two tests would be one office's.
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
        drop(offered);
        assert!(fetch(&address).is_err(), "not offered any more");
        let mut pipe = io::PipeWriter::from(fetched);
        pipe.write_all(b"x").unwrap();
        drop(pipe);
        let mut text = String::new();
        reads.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
        assert!(
            OFFICE.lock().is_none(),
            "the thread has ended with the last offer"
        );
    }
}
