//! The byte rings of a pair: two rings in memory that both processes map, one for each direction, and two event descriptors by
//! which one process wakes the other.
//!
//! The socket of the pair carries no bytes then; it shows the end of the peer.
#![allow(unsafe_code)] // takes memory that one ring has to itself

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::write;
use selvedge_channels::platform::passed;
use selvedge_channels::{
    BYTE_RING_HEADER, ByteReader, ByteWriter, ChannelError, Region, SEGMENT_HEADER_BYTES, SegmentError,
};

use super::peer_socket::ReadInto;
use crate::looking::Looking;

/// The bytes that one direction holds: so many that a long body seldom waits, and so few that they stay in the processor's cache.
const CAPACITY: usize = 256 << 10;

/// The wait of a writer for room, before it sleeps: about as long as a wake-up.
const LOOKING_FOR_ROOM: Looking = Looking {
    limit: Duration::from_micros(50),
    leaves: u32::MAX,
};

/// The descriptors of the rings at one end.
pub(super) struct RingsEnd {
    /// The memory of the ring that this end reads.
    read: OwnedFd,
    /// The memory of the ring that this end writes.
    write: OwnedFd,
    /// Wakes this end.
    own_bell: OwnedFd,
    /// Wakes the other end.
    peer_bell: OwnedFd,
}

/// The number of descriptors of an end.
pub(super) const RINGS_DESCRIPTORS: usize = 4;

impl RingsEnd {
    /// Makes the rings of a pair.
    pub(super) fn pair() -> io::Result<(Self, Self)> {
        let bell = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let memory = || passed::make(SEGMENT_HEADER_BYTES + BYTE_RING_HEADER + CAPACITY).map_err(system);
        let (there, back) = (memory()?, memory()?);
        let (one, other) = (bell()?, bell()?);
        let first = RingsEnd {
            read: back.try_clone()?,
            write: there.try_clone()?,
            own_bell: one.try_clone()?,
            peer_bell: other.try_clone()?,
        };
        let second = RingsEnd {
            read: there,
            write: back,
            own_bell: other,
            peer_bell: one,
        };
        Ok((first, second))
    }

    pub(super) fn descriptors(&self) -> [BorrowedFd<'_>; RINGS_DESCRIPTORS] {
        [&self.read, &self.write, &self.own_bell, &self.peer_bell].map(OwnedFd::as_fd)
    }

    /// The end whose [descriptors](Self::descriptors) another process has passed.
    pub(super) fn of([read, write, own_bell, peer_bell]: [OwnedFd; RINGS_DESCRIPTORS]) -> Self {
        RingsEnd {
            read,
            write,
            own_bell,
            peer_bell,
        }
    }
}

/// The rings, as one end has them.
pub(super) struct PeerRings {
    writer: Mutex<ByteWriter>,
    reader: Mutex<RingReader>,
    own_bell: Arc<OwnedFd>,
    peer_bell: OwnedFd,
}

struct RingReader {
    bytes: ByteReader,
    /// Whether a thread looks for bytes by itself, so that the peer need not wake one.
    is_watched: bool,
}

impl PeerRings {
    pub(super) fn new(end: RingsEnd) -> io::Result<Self> {
        let bytes = ByteReader::attach(ring(end.read)?).map_err(broken)?;
        let reader = RingReader {
            bytes,
            is_watched: false,
        };
        Ok(PeerRings {
            writer: Mutex::new(ByteWriter::attach(ring(end.write)?).map_err(broken)?),
            reader: Mutex::new(reader),
            own_bell: Arc::new(end.own_bell),
            peer_bell: end.peer_bell,
        })
    }

    /// The descriptor that tells of bytes, and of room.
    pub(super) fn own_bell(&self) -> &Arc<OwnedFd> {
        &self.own_bell
    }

    /// Begins to be told of bytes.
    pub(super) fn begin(&self) {
        if !self.reader.lock().bytes.doze() {
            ring_bell(&self.own_bell);
        }
    }

    /// Writes everything, or else as much as there is room for, which is half of the ring or more.
    pub(super) fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let wanted = slices.iter().map(|slice| slice.len()).sum::<usize>();
        let enough = wanted.min(CAPACITY / 2);
        let mut writer = self.writer.lock();
        // An error is for the write. A reader that is at work makes room sooner than a sleeper would wake.
        let mut has_room = || writer.has_room(enough).unwrap_or(true);
        if !has_room() && !LOOKING_FOR_ROOM.until(None, 1, has_room) && writer.doze(enough).map_err(broken)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let written = writer.write(slices).map_err(broken)?;
        if writer.claim_reader() {
            ring_bell(&self.peer_bell);
        }
        Ok(written)
    }

    /// Whether half of the ring is free. If not, the peer tells this end when it is.
    pub(super) fn has_room(&self) -> bool {
        // An error is for whoever writes.
        !self.writer.lock().doze(CAPACITY / 2).unwrap_or(false)
    }

    /// Reads what is there. After a read of fewer bytes than were asked for, the peer wakes this process for the next ones, unless
    /// a thread looks for them.
    pub(super) fn try_read(&self, into: &mut ReadInto<'_>) -> io::Result<usize> {
        let mut reader = self.reader.lock();
        let most = into.most.min(into.memory.capacity() - into.memory.len());
        let mut total = 0;
        loop {
            total += reader.bytes.read(into.memory, most - total).map_err(broken)?;
            if total == most || reader.is_watched || reader.bytes.doze() {
                break;
            }
        }
        if total > 0 && reader.bytes.claim_writer().map_err(broken)? {
            ring_bell(&self.peer_bell);
        }
        Ok(total)
    }

    /// Whether there are bytes, unless a thread reads just now.
    pub(super) fn has_bytes(&self) -> bool {
        self.reader
            .try_lock()
            .is_some_and(|reader| reader.bytes.has_bytes())
    }

    /// The calling thread looks for bytes from now on.
    pub(super) fn watch(&self) {
        let mut reader = self.reader.lock();
        reader.is_watched = true;
        reader.bytes.look_out();
    }

    /// The calling thread looks no more. Returns whether there are bytes, of which the peer tells nobody.
    pub(super) fn unwatch(&self) -> bool {
        let mut reader = self.reader.lock();
        reader.is_watched = false;
        !reader.bytes.doze()
    }
}

fn ring(descriptor: OwnedFd) -> io::Result<Region> {
    let segment = passed::map(descriptor).map_err(system)?;
    if segment.len_bytes() != SEGMENT_HEADER_BYTES + BYTE_RING_HEADER + CAPACITY {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: the segment was made for this ring alone, of which this process has one end: the descriptor came for it.
    unsafe { segment.region(SEGMENT_HEADER_BYTES, BYTE_RING_HEADER + CAPACITY) }.map_err(system)
}

fn ring_bell(bell: &OwnedFd) {
    // The count has room for 2^64 - 2 rings.
    let _ = write(bell, &1_u64.to_ne_bytes());
}

fn system(error: SegmentError) -> io::Error {
    match error {
        SegmentError::System { error, .. } => error,
        other => io::Error::other(other),
    }
}

fn broken(error: ChannelError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::peer_socket::{PeerEnd, pair};

    fn passed(end: &PeerEnd) -> Vec<OwnedFd> {
        let descriptors = end.descriptors();
        descriptors
            .iter()
            .map(|fd| fd.try_clone_to_owned().unwrap())
            .collect()
    }

    fn read(end: &PeerRings) -> Vec<u8> {
        let mut memory = Vec::with_capacity(100);
        let mut into = ReadInto {
            memory: &mut memory,
            most: 100,
        };
        end.try_read(&mut into).unwrap();
        memory
    }

    #[test]
    fn each_end_reads_what_the_other_one_writes() {
        let (one, other) = RingsEnd::pair().unwrap();
        let (one, other) = (PeerRings::new(one).unwrap(), PeerRings::new(other).unwrap());
        assert_eq!(one.try_write(&[IoSlice::new(b"there")]).unwrap(), 5);
        assert_eq!(other.try_write(&[IoSlice::new(b"back")]).unwrap(), 4);
        assert_eq!((read(&other), read(&one)), (b"there".to_vec(), b"back".to_vec()));
        let more = vec![0; CAPACITY + 1];
        assert_eq!(one.try_write(&[IoSlice::new(&more)]).unwrap(), CAPACITY);
        let full = one.try_write(&[IoSlice::new(&more)]).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert!(other.has_bytes() && !one.has_room());
    }

    #[test]
    fn an_end_of_which_descriptors_are_missing_or_are_others_is_refused() {
        let (end, _other) = pair().unwrap();
        for missing in 0..passed(&end).len() {
            let mut some = passed(&end);
            some.remove(missing);
            assert!(PeerEnd::of_pair(some).is_none());
        }
        assert!(PeerEnd::of_pair(passed(&end)).is_some_and(|end| end.unwatched().is_ok()));
        let mut swapped = passed(&end);
        swapped.swap(1, 3);
        assert!(PeerEnd::of_pair(swapped).is_some_and(|end| end.unwatched().is_err()));
        let short = passed::make(SEGMENT_HEADER_BYTES + BYTE_RING_HEADER + CAPACITY / 2).unwrap();
        let mut other_size = passed(&end);
        other_size[1] = short;
        assert!(PeerEnd::of_pair(other_size).is_some_and(|end| end.unwatched().is_err()));
    }

    #[test]
    fn the_end_of_a_peer_comes_behind_all_that_it_has_written() {
        for round in 0..3_000_u64 {
            let (one, other) = pair().unwrap();
            let (writer, _) = one.unwatched().unwrap();
            let (reader, _) = other.unwatched().unwrap();
            let mut memory = Vec::with_capacity(100);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    (0..round % 100).for_each(|step| _ = std::hint::black_box(step));
                    writer.try_write(&[IoSlice::new(b"last words")]).unwrap();
                    writer.close();
                });
                loop {
                    let into = ReadInto {
                        memory: &mut memory,
                        most: 50,
                    };
                    if reader.try_read(into).is_ok_and(|read| read == 0) {
                        break;
                    }
                }
            });
            assert_eq!(memory, b"last words");
        }
    }

    #[test]
    fn bytes_in_a_socket_that_carries_none_are_an_error() {
        let (end, other) = pair().unwrap();
        let socket = passed(&other).remove(0);
        rustix::io::write(&socket, b"x").unwrap();
        let (end, _) = end.unwatched().unwrap();
        let mut memory = Vec::with_capacity(10);
        let into = ReadInto {
            memory: &mut memory,
            most: 10,
        };
        assert_eq!(end.try_read(into).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
