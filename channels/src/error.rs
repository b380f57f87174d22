//! What can go wrong in a channel.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

#[cfg(not(loom))]
use crate::payload::{SerdeError, TensorLayout};

/// What bounds the memory of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryLimit {
    /// Memory and swap of the machine.
    Machine,
    /// `memory.max` of the process's control group, or of one above it.
    ControlGroup,
    /// `RLIMIT_FSIZE`: the length of a file, also of one without a name. Beyond it the kernel sends SIGXFSZ.
    FileSize,
    /// `RLIMIT_AS`: what the process may map, less what it has mapped.
    AddressSpace,
    /// What can be addressed at all.
    Addresses,
    /// What is free in `/dev/shm`, for segments that have a name. Beyond it their use ends in SIGBUS.
    DevShm,
}

impl SegmentError {
    /// More than any memory.
    #[cfg(not(loom))]
    pub(crate) fn unaddressable() -> Self {
        SegmentError::NoMemory {
            need_bytes: u64::MAX,
            has_bytes: isize::MAX as u64,
            limit: MemoryLimit::Addresses,
        }
    }

    /// Whether memory of another process cannot be opened: as a rule because that process has just died.
    pub fn may_be_a_death(&self) -> bool {
        match self {
            SegmentError::System { what, .. } => what.starts_with("opening /proc"),
            SegmentError::Foreign { .. } => true,
            _ => false,
        }
    }
}

/// What helps against what the system has said, where that is known.
fn mend(what: &str, source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EMFILE) => ": raise RLIMIT_NOFILE (`ulimit -n`)",
        Some(libc::ENFILE) => ": the machine has no descriptor left (`sysctl fs.file-max`)",
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) if what == "memfd_create" => {
            ": this process may not make shared memory; look at its seccomp filter, or keep actors to threads"
        }
        Some(libc::ENOENT) if what.starts_with("opening /proc") && !Path::new("/proc/self").exists() => {
            ": memory of other processes is opened there; mount /proc"
        }
        Some(libc::EACCES | libc::EPERM) if what.starts_with("opening /proc") => {
            ": processes that share memory are of one user, and none of them has capabilities or is undumpable"
        }
        _ => "",
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemoryLimit::Machine => "the machine's memory and swap",
            MemoryLimit::ControlGroup => "the control group's memory.max",
            MemoryLimit::FileSize => "RLIMIT_FSIZE (`ulimit -f`)",
            MemoryLimit::AddressSpace => "RLIMIT_AS (`ulimit -v`)",
            MemoryLimit::Addresses => "what can be addressed",
            MemoryLimit::DevShm => "the free space of /dev/shm",
        })
    }
}

/// Why memory could not be had or opened.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The system refused.
    #[error("{what}, for {len_bytes} bytes: {source}{}", mend(what, source))]
    System {
        /// The call that failed, and of what.
        what: Cow<'static, str>,
        /// Size of the segment.
        len_bytes: u64,
        /// What the system said.
        source: io::Error,
    },
    /// More than there can be.
    #[error(
        "{need_bytes} bytes of shared memory are needed and {limit} allows {has_bytes}: ask for fewer or smaller slots, \
         or raise the limit"
    )]
    NoMemory {
        /// Bytes asked for.
        need_bytes: u64,
        /// Bytes that the limit leaves.
        has_bytes: u64,
        /// The tightest limit.
        limit: MemoryLimit,
    },
    /// Memory of the heap, where another process is to map it.
    #[error("memory of the heap cannot be shared between processes: choose another provider")]
    Private,
    /// What was opened is not the segment that was meant.
    #[error("segment of process {pid}: {what}")]
    Foreign {
        /// The process that made the segment.
        pid: u32,
        /// What does not fit.
        what: &'static str,
    },
    /// A region outside its segment, or not aligned.
    #[error("region {offset}+{len_bytes} does not fit a segment of {segment_bytes} bytes, or is not aligned")]
    OutOfBounds {
        /// Offset of the region.
        offset: usize,
        /// Length of the region.
        len_bytes: usize,
        /// Length of the segment.
        segment_bytes: usize,
    },
}

crate::debug_is_report!(SegmentError);

/// Why a value could not be encoded.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The value's own `Serialize` refused.
    #[cfg(not(loom))]
    #[error("a value of `{type_name}` cannot be serialised: {source}")]
    Serialize {
        /// Its type.
        type_name: &'static str,
        /// What was said, and where in the value.
        source: SerdeError,
    },
    /// The value would arrive as another one, or not at all.
    #[cfg(not(loom))]
    #[error("a value of `{type_name}` cannot travel as itself: {source}")]
    Another {
        /// Its type.
        type_name: &'static str,
        /// What reading it back has shown.
        source: SerdeError,
    },
    /// The buffer given is too small.
    #[error("{need_bytes} bytes do not fit into {have_bytes}")]
    Buffer {
        /// Bytes needed.
        need_bytes: usize,
        /// Bytes given.
        have_bytes: usize,
    },
    /// More than fits the format's counters.
    #[error("the value is too large for the payload format")]
    TooLarge,
}

crate::debug_is_report!(EncodeError);

/// Why bytes are not a value.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The head does not decode.
    #[cfg(not(loom))]
    #[error("the bytes are not a {type_name}: {source}")]
    Deserialize {
        /// The type that was expected.
        type_name: &'static str,
        /// What the type's own `Deserialize` said, or what does not fit, and where in the value.
        source: SerdeError,
    },
    /// The frame is inconsistent.
    #[error("the payload is malformed: {0}")]
    Malformed(&'static str),
}

crate::debug_is_report!(DecodeError);

/// An end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The writer.
    Writer,
    /// Reader number so-and-so.
    Reader(u32),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Writer => f.write_str("the writer"),
            End::Reader(index) => write!(f, "reader {index}"),
        }
    }
}

/// Who brought a channel to its end by dying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// The end it had.
    pub end: End,
    /// Its process.
    pub pid: u32,
}

impl fmt::Display for Culprit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.end, self.pid)
    }
}

/// Why a channel could not be made, written or read.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The other side has gone.
    #[error("the channel is closed")]
    Closed,
    /// A peer has died, and whoever noticed said so here.
    #[error("the channel is poisoned: {culprit} has died")]
    Poisoned {
        /// Who.
        culprit: Culprit,
    },
    /// Nothing came, or no slot got free, in time. Nothing has changed.
    #[error("nothing moved for {waited:?}{}{peers}", if peers.is_empty() { "" } else { ": " })]
    Timeout {
        /// How long the wait lasted.
        waited: Duration,
        /// Who has the other ends and how far they are, for people; empty where a reader waits within a process.
        peers: String,
    },
    /// No slot is free.
    #[error("the channel is full")]
    Full,
    /// Shared memory holds something that no honest peer writes.
    #[error("the channel is corrupt: {what}")]
    Corrupt {
        /// What is wrong.
        what: &'static str,
    },
    /// The payload is above the channel's cap.
    #[error("the payload has {need_bytes} bytes and max_payload_bytes is {max_bytes}")]
    TooLarge {
        /// Size of the payload.
        need_bytes: u64,
        /// The cap.
        max_bytes: u64,
    },
    /// The value cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The bytes are not a value.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A message is there and could not be received, for want of descriptors or memory, say. The next message follows.
    #[error("a value has come and could not be received: {reason}")]
    Lost {
        /// Why.
        reason: String,
    },
    /// A tensor on a device could not be sent or received.
    #[error("a tensor on a device: {0}")]
    Device(String),
    /// A tensor lies on another device than was agreed.
    #[error("a tensor of `{edge}` is on device {found}, and its device is {expected}")]
    Elsewhere {
        /// What people call the value.
        edge: String,
        /// The device that was agreed, as the writer's process counts devices.
        expected: u32,
        /// The device it is on, counted likewise.
        found: u32,
    },
    /// Other tensors than those of the first value, where it was agreed that they look alike.
    #[cfg(not(loom))]
    #[error(
        "the shapes of `{edge}` are fixed by its first value: expected {}, found {}",
        layouts(expected),
        layouts(found)
    )]
    StaticShape {
        /// What people call the value.
        edge: String,
        /// The first value's tensors.
        expected: Vec<TensorLayout>,
        /// This value's.
        found: Vec<TensorLayout>,
    },
    /// Memory could not be had or opened.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// Two ends disagree on the type.
    #[error("expected a {expected}, found a {found}")]
    WrongType {
        /// The type asked for.
        expected: &'static str,
        /// The type of the channel.
        found: &'static str,
    },
    /// A read without a value.
    #[error("there is no value to read")]
    NoValue,
    /// A write before the last value was read.
    #[error("the last value has not been read")]
    Unread,
    /// A channel's messages and the executions they belong to have come apart.
    #[error("the channel is at message {found}, execution {expected} was asked for")]
    OutOfStep {
        /// The execution asked for.
        expected: u64,
        /// The message the channel is at.
        found: u64,
    },
    /// This end of the channel is somebody else's already.
    #[error("{end} of the channel is attached already, by process {pid}")]
    Attached {
        /// Which end.
        end: End,
        /// By whom; 0 when that end has left again.
        pid: u32,
    },
    /// A name under which a channel cannot be published or found.
    #[error("a channel named `{name}`: {what}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong.
        what: &'static str,
    },
    /// The spec of a channel is out of bounds.
    #[error("{what} is {value}, and must be at least {least}")]
    InvalidSpec {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The smallest allowed.
        least: u64,
    },
}

crate::debug_is_report!(ChannelError);

impl ChannelError {
    /// Whether it is the value that could not be sent: nothing was, and the channel goes on.
    pub fn refuses_value(&self) -> bool {
        #[cfg(not(loom))]
        if matches!(self, ChannelError::StaticShape { .. }) {
            return true;
        }
        matches!(
            self,
            ChannelError::TooLarge { .. }
                | ChannelError::Encode(_)
                | ChannelError::Segment(_)
                | ChannelError::Device(_)
                | ChannelError::Elsewhere { .. }
        )
    }
}

impl ChannelError {
    /// Whether the value could not be read: the value counts as read, and the channel goes on.
    pub fn loses_value(&self) -> bool {
        matches!(
            self,
            ChannelError::Decode(_) | ChannelError::Device(_) | ChannelError::Lost { .. }
        ) || self.is_shortage()
    }

    /// Whether this process has no descriptor or memory left, for now.
    pub(crate) fn is_shortage(&self) -> bool {
        let ChannelError::Segment(SegmentError::System { source, .. }) = self else {
            return false;
        };
        let shortages = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EAGAIN];
        source
            .raw_os_error()
            .is_some_and(|code| shortages.contains(&code))
    }
}

/// Layouts of tensors, for people.
#[cfg(not(loom))]
pub fn layouts(layouts: &[TensorLayout]) -> String {
    let layouts: Vec<_> = layouts.iter().map(ToString::to_string).collect();
    format!("({})", layouts.join(", "))
}
