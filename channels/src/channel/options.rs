//! The options of a channel.

use std::time::Duration;

use super::endpoint_waiter::EndpointWaiter;
use super::reader::Reader;
use super::shared::{SharedChannel, whole_bytes};
use super::writer::Writer;
use crate::error::{ChannelError, MemoryLimit};
use crate::kind::{AnySink, AnySource};
use crate::memory::segment::{Provider, room};
use crate::payload::Wire;
use crate::ring::{reserved, ring};
use crate::shared::{SLOT_BYTES_MIN, SharedSpec};
use crate::wait::doorbell::Doorbell;
use crate::wait::waiting::Waiting;

/// The options of a channel. [`threads`](Self::threads) and [`shared`](Self::shared) make a channel with them.
#[derive(Clone, Debug)]
pub struct ChannelOptions {
    pub(super) slots: usize,
    pub(super) readers: usize,
    pub(super) buffer_bytes: u64,
    pub(super) max_payload_bytes: u64,
    pub(super) waiting: Option<Waiting>,
    pub(super) timeout: Option<Duration>,
    pub(super) provider: Provider,
}

impl Default for ChannelOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl ChannelOptions {
    /// The default options: one reader, 8 slots of 4 KiB that grow to 1 GiB, a time limit of 10 s.
    #[must_use]
    pub fn new() -> Self {
        ChannelOptions {
            slots: 8,
            readers: 1,
            buffer_bytes: 4096,
            max_payload_bytes: 1 << 30,
            waiting: None,
            timeout: Some(Duration::from_secs(10)),
            provider: Provider::Memfd,
        }
    }

    /// Sets the number of slots, which is the number of messages that can be in flight; at least 1. Short payloads that
    /// are sent one at a time are faster through two slots, which stay in the first-level cache: 4 KiB take two thirds
    /// to three quarters of the time that they take through eight.
    #[must_use]
    pub fn slots(mut self, slots: usize) -> Self {
        self.slots = slots;
        self
    }

    /// Sets the number of readers, each of which sees every message; at least 1.
    #[must_use]
    pub fn readers(mut self, readers: usize) -> Self {
        self.readers = readers;
        self
    }

    /// Sets the capacity in bytes of a slot before the channel grows, for channels between processes; at least 1000.
    #[must_use]
    pub fn buffer_bytes(mut self, bytes: u64) -> Self {
        self.buffer_bytes = bytes;
        self
    }

    /// Sets the size in bytes of the largest payload, for channels between processes; fewer than 1000 count as 1000. A value takes up
    /// to 64 bytes more than its contents.
    #[must_use]
    pub fn max_payload_bytes(mut self, bytes: u64) -> Self {
        self.max_payload_bytes = bytes;
        self
    }

    /// Sets the waiting strategy of the endpoints. The default spins for a moment if each endpoint can have a core of
    /// its own, else yields the core a few times; then it parks.
    #[must_use]
    pub fn waiting(mut self, waiting: Waiting) -> Self {
        self.waiting = Some(waiting);
        self
    }

    /// Sets the time limit of `send` and `recv`; default 10 s. With `None` they wait as long as the peers live;
    /// if the system refuses to watch a peer, for lack of descriptors or threads, the wait is the error [`SegmentError::System`](crate::SegmentError::System).
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets the provider of memory between processes; default a memfd.
    #[must_use]
    pub fn provider(mut self, provider: Provider) -> Self {
        self.provider = provider;
        self
    }

    fn waits(&self) -> Waiting {
        self.waiting
            .unwrap_or_else(|| Waiting::auto(self.readers.saturating_add(1)))
    }

    pub(super) fn line(&self, bell: Doorbell) -> EndpointWaiter {
        EndpointWaiter::new(bell, self.waits(), self.timeout)
    }

    pub(super) fn spec(&self) -> SharedSpec {
        SharedSpec {
            slots: u32::try_from(self.slots).unwrap_or(u32::MAX),
            slot_bytes: self.buffer_bytes,
            readers: u32::try_from(self.readers).unwrap_or(u32::MAX),
            max_bytes: self.max_payload_bytes.max(SLOT_BYTES_MIN),
        }
    }

    /// The memory that [`shared`](Self::shared) would need, computed without making the channel.
    ///
    /// # Errors
    /// [`ChannelError::InvalidSpec`] if an option is out of bounds.
    pub fn memory_plan(&self) -> Result<ChannelMemory, ChannelError> {
        ChannelMemory::of(&self.spec(), self.provider)
    }

    /// Makes a channel between threads of this process. Values move and are never encoded.
    ///
    /// # Errors
    /// [`ChannelError::InvalidSpec`] if there are no slots or no readers, [`ChannelError::Segment`] if there is no
    /// memory for the slots or the readers.
    pub fn threads<T: Wire>(&self) -> Result<(Writer<T>, Vec<Reader<T>>), ChannelError> {
        let bell = Doorbell::heap();
        let mut bells = reserved("allocation of readers", self.readers)?;
        bells.extend((0..self.readers).map(|_| Doorbell::heap()));
        let (writer, readers) = ring::<T>(self.slots, bell.clone(), bells.clone())?;
        let reader = |(reader, bell)| Reader::new(AnySource::Ring(reader), self.line(bell));
        let readers = readers.into_iter().zip(bells).map(reader).collect();
        Ok((Writer::new(AnySink::Ring(writer), self.line(bell)), readers))
    }

    /// Makes a channel between processes of this host and user. Its memory is released with its last user and, with the
    /// default provider, has no name.
    ///
    /// # Errors
    /// [`ChannelError::InvalidSpec`] if an option is out of bounds, [`ChannelError::Segment`] if there is no memory.
    pub fn shared<T: Wire>(&self) -> Result<SharedChannel<T>, ChannelError> {
        SharedChannel::create(self.clone())
    }
}

/// The shared memory that one channel between processes needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelMemory {
    /// The number of bytes before growth. Pages that are never touched take no memory.
    pub bytes: u64,
    /// The number of bytes after payloads of the largest size have been sent, without outgrown memory.
    pub grown_bytes: u64,
    /// The number of bytes of outgrown memory at most, which exists as long as readers use it: less than twice the
    /// memory for payloads of the largest size. A reader that stands still keeps the memory of each growth since, and
    /// each growth but the last has at least doubled it.
    pub outgrown_bytes: u64,
    /// The limit on the memory of a segment on this system, with the number of bytes that it leaves.
    pub limit: Option<(MemoryLimit, u64)>,
}

impl ChannelMemory {
    pub(super) fn of(spec: &SharedSpec, provider: Provider) -> Result<Self, ChannelError> {
        let bytes = whole_bytes(spec)? as u64;
        let grown = u64::from(spec.slots).saturating_mul(spec.max_bytes);
        let grows = spec.max_bytes > spec.slot_bytes;
        // A growth is to at least twice the size, or to the largest one. The first memory is a part of `bytes`.
        let grows_again = spec.max_bytes > spec.slot_bytes.saturating_mul(2);
        Ok(ChannelMemory {
            bytes,
            grown_bytes: if grows { bytes.saturating_add(grown) } else { bytes },
            outgrown_bytes: if grows_again { grown.saturating_mul(2) } else { 0 },
            limit: room(provider),
        })
    }

    /// Whether the channel can be made and can grow to its largest size, even while readers use outgrown memory.
    pub fn fits(&self) -> bool {
        let most = self.grown_bytes.saturating_add(self.outgrown_bytes);
        self.limit.is_none_or(|(_, has_bytes)| most <= has_bytes)
    }
}
