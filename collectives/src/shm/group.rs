//! Groups: made by one process, joined by any of the host and user.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use selvedge_channels::process::Process;
use selvedge_channels::{Doorbell, Provider, Region, SEGMENT_HEADER_BYTES, Segment, SegmentId, Waiting};
use serde::{Deserialize, Serialize};

use super::layout::{End, Layout, Words};
use super::rank::Rank;
use crate::error::CommError;

/// Blocks of ranks that live in this process, which need not be mapped again: by rank and block, with the nonce.
type Local = Mutex<HashMap<(usize, usize), (u64, Segment)>>;

/// What the ranks of a group share within a process.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) words: Words,
    pub(crate) bells: Vec<Doorbell>,
    /// Where blocks come from.
    pub(crate) provider: Provider,
    pub(crate) local: Local,
    /// Ranks that were taken from here, whose blocks are in `local`.
    here: Mutex<Vec<usize>>,
    pub(crate) waiting: Waiting,
    pub(crate) timeout: Option<Duration>,
    /// Whether ranks are claimed by processes, whose deaths this group watches for itself.
    pub(crate) watches: bool,
}

impl Shared {
    /// Where nobody chooses otherwise: waits without end, and leaves the watch over processes to others.
    fn new(words: Words, bells: Vec<Doorbell>, provider: Provider) -> Self {
        let waiting = Waiting::auto(words.layout.ranks);
        Shared {
            words,
            bells,
            provider,
            local: Local::default(),
            here: Mutex::default(),
            waiting,
            timeout: None,
            watches: false,
        }
    }

    pub(crate) fn ranks(&self) -> usize {
        self.words.layout.ranks
    }

    /// Whether the group has this rank.
    ///
    /// # Errors
    /// [`CommError::NoSuchRank`].
    pub(crate) fn has(&self, rank: usize) -> Result<(), CommError> {
        let ranks = self.ranks();
        if rank < ranks {
            Ok(())
        } else {
            Err(CommError::NoSuchRank { rank, ranks })
        }
    }

    /// Whether a rank was taken from this same group, so that its blocks outlive it.
    pub(crate) fn is_here(&self, rank: usize) -> bool {
        self.here.lock().contains(&rank)
    }

    pub(crate) fn ring_all(&self) {
        self.bells.iter().for_each(Doorbell::ring);
    }

    /// Ends the group and wakes everybody.
    pub(crate) fn end(&self, end: End) {
        self.words.set_end(end);
        self.ring_all();
    }
}

/// Several ranks that do collective operations together.
///
/// ```
/// use selvedge_collectives::{Communicator, Group, ReduceOp};
/// use std::thread;
///
/// let group = Group::in_process(2)?;
/// thread::scope(|scope| {
///     for rank in 0..2 {
///         let mut rank = group.rank(rank).unwrap();
///         scope.spawn(move || {
///             let mut gradient = vec![rank.rank() as f32 + 1.0; 1000];
///             rank.allreduce_slice(ReduceOp::Sum, &mut gradient).unwrap();
///             assert!(gradient.iter().all(|it| *it == 3.0));
///         });
///     }
/// });
/// # Ok::<(), selvedge_collectives::CommError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Group {
    shared: Arc<Shared>,
    segment: Option<SegmentId>,
}

/// Bytes that a group of so many ranks needs of a region of somebody else, zeroed.
///
/// # Errors
/// [`CommError::GroupSize`].
pub fn group_bytes(ranks: usize) -> Result<usize, CommError> {
    Ok(Layout::new(ranks)?.len_bytes())
}

impl Group {
    /// A group of so many ranks, for this process and others of its host and user.
    ///
    /// # Errors
    /// [`CommError::GroupSize`], [`CommError::Segment`].
    pub fn new(ranks: usize) -> Result<Self, CommError> {
        Group::create(ranks, Provider::Memfd)
    }

    /// A group of so many threads of this process.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn in_process(ranks: usize) -> Result<Self, CommError> {
        Group::create(ranks, Provider::Heap)
    }

    fn create(ranks: usize, provider: Provider) -> Result<Self, CommError> {
        let layout = Layout::new(ranks)?;
        let segment = Segment::create(provider, SEGMENT_HEADER_BYTES + layout.len_bytes())?;
        Group::over(&segment, layout, provider, true)
    }

    /// The group that another process has described.
    ///
    /// # Errors
    /// [`CommError::Segment`] when its maker has gone, [`CommError::Corrupt`] when it is something else.
    pub fn open(descriptor: &GroupDescriptor) -> Result<Self, CommError> {
        let layout = Layout::new(descriptor.ranks as usize)?;
        let segment = Segment::open(&descriptor.segment)?;
        Group::over(&segment, layout, Provider::Memfd, false)
    }

    #[allow(unsafe_code)] // one place
    fn over(segment: &Segment, layout: Layout, provider: Provider, fresh: bool) -> Result<Self, CommError> {
        // SAFETY: the words of a group, which are accessed as words only.
        let region = unsafe { segment.region(SEGMENT_HEADER_BYTES, layout.len_bytes()) }?;
        let words = Words::at(region, layout, fresh)?;
        let bells = (0..layout.ranks)
            .map(|rank| words.bell(rank))
            .collect::<Result<Vec<_>, _>>()?;
        let shared = Shared {
            timeout: Some(Duration::from_secs(30)),
            watches: true,
            ..Shared::new(words, bells, provider)
        };
        let segment = segment.id();
        Ok(Group {
            shared: Arc::new(shared),
            segment,
        })
    }

    /// A group in memory of somebody else, zeroed when new and of [`group_bytes`]; each rank is woken by a bell of its own
    /// choice, and whoever owns the memory watches over the processes that use it.
    ///
    /// # Errors
    /// [`CommError::GroupSize`] when there are no bells, [`CommError::Segment`] when the region is too small.
    pub fn at(
        region: Region,
        bells: Vec<Doorbell>,
        provider: Provider,
        fresh: bool,
    ) -> Result<Self, CommError> {
        let layout = Layout::new(bells.len())?;
        let words = Words::at(region, layout, fresh)?;
        Ok(Group {
            shared: Arc::new(Shared::new(words, bells, provider)),
            segment: None,
        })
    }

    #[cfg(test)]
    pub(super) fn inner(&self) -> &Shared {
        &self.shared
    }

    fn configured(self, change: impl FnOnce(&mut Shared)) -> Self {
        let Shared { words, bells, .. } = &*self.shared;
        let mut shared = Shared {
            waiting: self.shared.waiting,
            timeout: self.shared.timeout,
            watches: self.shared.watches,
            ..Shared::new(words.clone(), bells.clone(), self.shared.provider)
        };
        change(&mut shared);
        Group {
            shared: Arc::new(shared),
            segment: self.segment,
        }
    }

    /// How ranks of this process wait for others; else they spin where every rank can have a core, and hand theirs over
    /// where not. To be chosen before ranks are taken.
    #[must_use]
    pub fn waiting(self, waiting: Waiting) -> Self {
        self.configured(|shared| shared.waiting = waiting)
    }

    /// How long ranks of this process wait for others; else 30 s. To be chosen before ranks are taken.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.configured(|shared| shared.timeout = Some(timeout))
    }

    /// Number of ranks.
    pub fn world_size(&self) -> usize {
        self.shared.ranks()
    }

    /// Takes a rank for this process. It is taken for good: who leaves does not come back.
    ///
    /// # Errors
    /// [`CommError::NoSuchRank`], [`CommError::Taken`].
    pub fn rank(&self, rank: usize) -> Result<Rank, CommError> {
        self.shared.has(rank)?;
        self.shared.words.claim(rank, Process::own())?;
        if self.shared.watches {
            // Who waits for a rank that nobody had taken looks at whose it is now.
            self.shared.ring_all();
        }
        self.shared.here.lock().push(rank);
        Rank::new(Arc::clone(&self.shared), rank)
    }

    /// Keeps a rank for a process that will [`open`](Self::open) the group and take it: nobody else can, and its death is
    /// noticed also before it comes.
    ///
    /// # Errors
    /// As [`rank`](Self::rank).
    pub fn expect(&self, rank: usize, pid: u32) -> Result<(), CommError> {
        self.shared.has(rank)?;
        self.shared.words.expect(rank, Process::numbered(pid))
    }

    /// All that another process needs to [`open`](Self::open) the group; `None` for one [`in_process`](Self::in_process).
    pub fn descriptor(&self) -> Option<GroupDescriptor> {
        let ranks = self.shared.ranks() as u32;
        self.segment
            .clone()
            .map(|segment| GroupDescriptor { ranks, segment })
    }
}

/// A group as plain data, for any serde format, and as text without blanks for a command line. It is good for as long as
/// the process that made the group keeps it, or a rank of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupDescriptor {
    ranks: u32,
    segment: SegmentId,
}

/// A text that is not a [`GroupDescriptor`].
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not the descriptor of a group: it is `selvedge-group-1` and five numbers, with colons between"
)]
pub struct NotAGroup {
    text: String,
}

selvedge_channels::debug_is_report!(NotAGroup);

const PREFIX: &str = "selvedge-group-1";

impl fmt::Display for GroupDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GroupDescriptor { ranks, segment } = self;
        let fd = segment.fd.cast_unsigned();
        write!(
            f,
            "{PREFIX}:{ranks}:{}:{fd}:{}:{}",
            segment.pid, segment.nonce, segment.len_bytes
        )
    }
}

impl FromStr for GroupDescriptor {
    type Err = NotAGroup;

    fn from_str(text: &str) -> Result<Self, NotAGroup> {
        let parse = || -> Option<Self> {
            let fields = text.trim().strip_prefix(PREFIX)?.strip_prefix(':')?;
            let fields: Vec<u64> = fields
                .split(':')
                .map(|field| field.parse().ok())
                .collect::<Option<_>>()?;
            let [ranks, pid, fd, nonce, len_bytes] = *fields.as_slice() else {
                return None;
            };
            let segment = SegmentId {
                pid: pid.try_into().ok()?,
                fd: u32::try_from(fd).ok()?.cast_signed(),
                nonce,
                len_bytes,
            };
            Some(GroupDescriptor {
                ranks: ranks.try_into().ok()?,
                segment,
            })
        };
        parse().ok_or_else(|| NotAGroup {
            text: text.chars().take(80).collect(),
        })
    }
}
