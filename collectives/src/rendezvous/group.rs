//! Groups: created by one process, and joined by any process of the same host and user.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use selvedge_channels::memory::process::Process;
use selvedge_channels::{Doorbell, Provider, Region, SEGMENT_HEADER_BYTES, Segment, SegmentId, Waiting};
use serde::{Deserialize, Serialize};

use super::layout::GroupLayout;
use super::participant::Participant;
use super::state::GroupState;
use super::words::GroupWords;
use crate::error::CommError;

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
    state: Arc<GroupState>,
    segment: Option<SegmentId>,
}

/// Returns the number of bytes that a group of `ranks` ranks needs in a zeroed region of another owner.
///
/// # Errors
/// [`CommError::GroupSize`].
pub fn group_bytes(ranks: usize) -> Result<usize, CommError> {
    Ok(GroupLayout::new(ranks)?.len_bytes())
}

impl Group {
    /// Creates a group of `ranks` ranks, for this process and others of the same host and user.
    ///
    /// # Errors
    /// [`CommError::GroupSize`], [`CommError::Segment`].
    pub fn new(ranks: usize) -> Result<Self, CommError> {
        Group::create(ranks, Provider::Memfd)
    }

    /// Creates a group of `ranks` threads of this process.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn in_process(ranks: usize) -> Result<Self, CommError> {
        Group::create(ranks, Provider::Heap)
    }

    fn create(ranks: usize, provider: Provider) -> Result<Self, CommError> {
        let layout = GroupLayout::new(ranks)?;
        let segment = Segment::create(provider, SEGMENT_HEADER_BYTES + layout.len_bytes())?;
        Group::over(&segment, layout, provider, true)
    }

    /// Opens the group that another process has described.
    ///
    /// # Errors
    /// [`CommError::Segment`] if the process that created the group is gone, [`CommError::Corrupt`] if the memory is
    /// not that of such a group.
    pub fn open(descriptor: &GroupDescriptor) -> Result<Self, CommError> {
        let layout = GroupLayout::new(descriptor.ranks as usize)?;
        let segment = Segment::open(&descriptor.segment)?;
        Group::over(&segment, layout, Provider::Memfd, false)
    }

    #[allow(unsafe_code)] // takes a region of the segment
    fn over(
        segment: &Segment,
        layout: GroupLayout,
        provider: Provider,
        fresh: bool,
    ) -> Result<Self, CommError> {
        // SAFETY: the region contains the words of a group, which are accessed as atomic words only.
        let region = unsafe { segment.region(SEGMENT_HEADER_BYTES, layout.len_bytes()) }?;
        let words = GroupWords::at(region, layout, fresh)?;
        let bells = (0..layout.ranks)
            .map(|rank| words.bell(rank))
            .collect::<Result<Vec<_>, _>>()?;
        let state = GroupState {
            timeout: Some(Duration::from_secs(30)),
            watches: true,
            ..GroupState::new(words, bells, provider)
        };
        let segment = segment.id();
        Ok(Group {
            state: Arc::new(state),
            segment,
        })
    }

    /// Creates or opens a group in memory of another owner. The region has [`group_bytes`] bytes; if `fresh`, the owner
    /// has zeroed it. Each rank is woken by its bell in `bells`, and the owner watches the processes that use the
    /// memory.
    ///
    /// # Errors
    /// [`CommError::GroupSize`] if there are no bells, [`CommError::Segment`] if the region is too small.
    pub fn at(
        region: Region,
        bells: Vec<Doorbell>,
        provider: Provider,
        fresh: bool,
    ) -> Result<Self, CommError> {
        let layout = GroupLayout::new(bells.len())?;
        let words = GroupWords::at(region, layout, fresh)?;
        Ok(Group {
            state: Arc::new(GroupState::new(words, bells, provider)),
            segment: None,
        })
    }

    #[cfg(test)]
    pub(crate) fn state(&self) -> &GroupState {
        &self.state
    }

    fn configured(self, change: impl FnOnce(&mut GroupState)) -> Self {
        let GroupState { words, bells, .. } = &*self.state;
        let mut state = GroupState {
            waiting: self.state.waiting,
            timeout: self.state.timeout,
            watches: self.state.watches,
            ..GroupState::new(words.clone(), bells.clone(), self.state.provider)
        };
        change(&mut state);
        Group {
            state: Arc::new(state),
            segment: self.segment,
        }
    }

    /// The group of ranks that all belong to one thread, which needs to watch nobody.
    pub(crate) fn unwatched(self) -> Self {
        self.configured(|state| state.watches = false)
    }

    /// Sets how ranks of this process wait for others. By default they spin if every rank can have a core, and yield
    /// their core if not. Call this method before ranks are taken.
    #[must_use]
    pub fn waiting(self, waiting: Waiting) -> Self {
        self.configured(|state| state.waiting = waiting)
    }

    /// Sets the time limit of waits in this process; default 30 s. Call this method before ranks are taken.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.configured(|state| state.timeout = Some(timeout))
    }

    /// Returns the number of ranks.
    pub fn world_size(&self) -> usize {
        self.state.ranks()
    }

    /// Takes a rank for this process, permanently.
    pub(crate) fn participant(&self, rank: usize) -> Result<Participant, CommError> {
        self.state.has(rank)?;
        self.state.words.claim(rank, Process::own())?;
        if self.state.watches {
            // Ranks that wait for a rank without an owner check the owner now, to watch its process.
            self.state.ring_all();
        }
        self.state.set_here(rank);
        Participant::new(Arc::clone(&self.state), rank)
    }

    /// Reserves a rank for a process that will [`open`](Self::open) the group and take it: no other process can take
    /// the rank, and the death of that process is noticed even before it has taken the rank.
    ///
    /// # Errors
    /// The errors of [`rank`](Self::rank).
    pub fn expect(&self, rank: usize, pid: u32) -> Result<(), CommError> {
        self.state.has(rank)?;
        self.state.words.expect(rank, Process::numbered(pid))
    }

    /// Returns all that another process needs to [`open`](Self::open) the group; `None` for a group that
    /// [`in_process`](Self::in_process) has created.
    pub fn descriptor(&self) -> Option<GroupDescriptor> {
        let ranks = self.state.ranks() as u32;
        self.segment
            .clone()
            .map(|segment| GroupDescriptor { ranks, segment })
    }
}

/// A group as plain data, for any serde format, and as text without blanks for a command line. It is valid as long as
/// the process that created the group keeps the group, or a rank of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupDescriptor {
    pub(super) ranks: u32,
    pub(super) segment: SegmentId,
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
