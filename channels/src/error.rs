//! The errors of channels.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::time::Duration;

#[cfg(not(loom))]
use crate::payload::{SerdeError, TensorLayout};

use crate::platform;

/// A limit on the memory of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryLimit {
    /// The memory and swap of the machine.
    Machine,
    /// `memory.max` of the process's control group, or of one above it.
    ControlGroup,
    /// `RLIMIT_FSIZE`: the length of a file, even of one without a name. Beyond it the kernel sends SIGXFSZ.
    FileSize,
    /// `RLIMIT_AS`: the address space the process may map, less the part it has mapped.
    AddressSpace,
    /// The largest size that can be addressed.
    Addresses,
    /// The free space of `/dev/shm`, for segments that have a name. Accesses beyond it end in SIGBUS.
    DevShm,
}

impl SegmentError {
    /// The error for a size that no machine can have.
    #[cfg(not(loom))]
    pub(crate) fn unaddressable() -> Self {
        SegmentError::NoMemory {
            need_bytes: u64::MAX,
            has_bytes: isize::MAX as u64,
            limit: MemoryLimit::Addresses,
        }
    }

    /// Whether the memory of another process cannot be opened. The usual reason is that the process has just died.
    pub fn may_be_a_death(&self) -> bool {
        match self {
            SegmentError::System { what, .. } => platform::error::opens_foreign_memory(what),
            SegmentError::Foreign { .. } => true,
            _ => false,
        }
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

/// The reason why memory could not be allocated or opened.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// A system call failed.
    #[error(
        "{what}, for {len_bytes} bytes: {error}{}",
        platform::error::mend(what, error)
    )]
    System {
        /// The call that failed, and its object.
        what: Cow<'static, str>,
        /// The size of the segment.
        len_bytes: u64,
        /// The error of the system.
        error: io::Error,
    },
    /// The size exceeds a limit.
    #[error(
        "{need_bytes} bytes of shared memory are needed and {limit} allows {has_bytes}: ask for less (of a graph or a channel: fewer or smaller slots), \
         or raise the limit"
    )]
    NoMemory {
        /// The number of bytes asked for.
        need_bytes: u64,
        /// The number of bytes that the limit leaves.
        has_bytes: u64,
        /// The tightest limit.
        limit: MemoryLimit,
    },
    /// The system has no memory that processes share; selvedge has it on Linux.
    #[error(
        "memory that processes share needs Linux: keep actors to threads of one process, whose memory is the heap"
    )]
    Unsupported,
    /// Heap memory was given, but another process has to map it.
    #[error("memory of the heap cannot be shared between processes: choose another provider")]
    Private,
    /// The memory that was opened is not the expected segment.
    #[error("segment of process {pid}: {what}")]
    Foreign {
        /// The process that made the segment.
        pid: u32,
        /// The mismatch.
        what: &'static str,
    },
    /// The region is outside its segment or not aligned.
    #[error("region {offset}+{len_bytes} does not fit a segment of {segment_bytes} bytes, or is not aligned")]
    OutOfBounds {
        /// The offset of the region.
        offset: usize,
        /// The length of the region.
        len_bytes: usize,
        /// The length of the segment.
        segment_bytes: usize,
    },
}

crate::debug_is_report!(SegmentError);

/// The reason why a value could not be encoded.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The value's `Serialize` returned an error.
    #[cfg(not(loom))]
    #[error("a value of `{type_name}` cannot be serialised: {error}")]
    Serialize {
        /// The type of the value.
        type_name: &'static str,
        /// The error of `Serialize`, and its place in the value.
        error: SerdeError,
    },
    /// The value would be decoded as a different value, or not at all.
    #[cfg(not(loom))]
    #[error("a value of `{type_name}` cannot travel as itself: {error}")]
    Another {
        /// The type of the value.
        type_name: &'static str,
        /// The difference that was found when the value was read back.
        error: SerdeError,
    },
    /// The value nests deeper than a value may, or contains itself.
    #[error(
        "a value of `{type_name}` nests deeper than {levels_max} levels, or contains itself (help: keep what is nested in a `Vec`, \
         and let its elements name each other by their indices)"
    )]
    TooDeep {
        /// The type of the value.
        type_name: &'static str,
        /// The number of levels that are allowed: each list, map, struct, newtype, option and variant with content is one.
        levels_max: u16,
    },
    /// The buffer is too small.
    #[error("{need_bytes} bytes do not fit into {have_bytes}")]
    Buffer {
        /// The number of bytes needed.
        need_bytes: usize,
        /// The number of bytes in the buffer.
        have_bytes: usize,
    },
    /// A length or count exceeds the fields of the payload format.
    #[error("the value is too large for the payload format")]
    TooLarge,
}

crate::debug_is_report!(EncodeError);

/// The reason why bytes are not a value.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The encoded head cannot be decoded.
    #[cfg(not(loom))]
    #[error("the bytes are not a {type_name}: {error}")]
    Deserialize {
        /// The type that was expected.
        type_name: &'static str,
        /// The error of the type's `Deserialize` or of the format, and its place in the value.
        error: SerdeError,
    },
    /// The bytes nest deeper than a value may.
    #[error("the bytes are not a {type_name}: they nest deeper than {levels_max} levels")]
    TooDeep {
        /// The type that was expected.
        type_name: &'static str,
        /// The number of levels that are allowed: each list, map, struct, newtype, option and variant with content is one.
        levels_max: u16,
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
    /// The reader with this number.
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

/// The process whose death has ended a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// The end that the process had.
    pub end: End,
    /// The id of the process.
    pub pid: u32,
}

impl fmt::Display for Culprit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.end, self.pid)
    }
}

/// How an end of a channel is taken: by a process, or by one that has left it, whose number is 0.
fn attached_by(pid: u32) -> String {
    match pid {
        0 => "was attached before and has been left, and an end is attached once: make another channel"
            .to_owned(),
        _ => format!("is attached already, by the process with pid {pid}"),
    }
}

/// The reason why a channel could not be made, written or read.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The peer has closed its end.
    #[error("the channel is closed")]
    Closed,
    /// A peer has died, and another peer has recorded its death in the channel.
    #[error("the channel is poisoned: {culprit} has died")]
    Poisoned {
        /// The peer that died.
        culprit: Culprit,
    },
    /// The time limit has passed: no message has arrived, or no slot has become free. Nothing has changed.
    #[error("nothing moved for {waited:?}{}{peers}", if peers.is_empty() { "" } else { ": " })]
    Timeout {
        /// The duration of the wait.
        waited: Duration,
        /// The processes at the other ends and their positions, as text; empty for a reader within one process.
        peers: String,
    },
    /// No slot is free.
    #[error("the channel is full")]
    Full,
    /// Shared memory contains data that no correct peer writes.
    #[error("the channel is corrupt: {what}")]
    Corrupt {
        /// The inconsistency.
        what: &'static str,
    },
    /// The payload is larger than the channel's `max_payload_bytes`.
    #[error("the payload has {need_bytes} bytes and max_payload_bytes is {max_bytes}")]
    TooLarge {
        /// The size of the payload.
        need_bytes: u64,
        /// The value of `max_payload_bytes`.
        max_bytes: u64,
    },
    /// The value cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The bytes are not a value.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A message has arrived but could not be received, for lack of descriptors or memory, for example. The next
    /// message can be received.
    #[error("a value has come and could not be received: {reason}")]
    Lost {
        /// The reason.
        reason: String,
    },
    /// A tensor on a device could not be sent or received.
    #[error("a tensor on a device: {0}")]
    Device(String),
    /// Something in a value cannot be passed to the other process, or taken over from it: [`RecordsOut`](crate::RecordsOut).
    #[error("{0}")]
    Record(Box<dyn std::error::Error + Send + Sync>),
    /// A tensor is on a different device than the schema says.
    #[error("a tensor of `{edge}` is on device {found}, and its device is {expected}")]
    WrongDevice {
        /// The name of the value in error messages.
        edge: String,
        /// The device in the schema, by its number in the writer's process.
        expected: u32,
        /// The device of the tensor, by its number in the writer's process.
        found: u32,
    },
    /// The layouts of the tensors differ from those of the first value, and the schema says that they are fixed.
    #[cfg(not(loom))]
    #[error(
        "the shapes of `{edge}` are fixed by its first value: expected {}, found {}",
        layouts(expected),
        layouts(found)
    )]
    StaticShape {
        /// The name of the value in error messages.
        edge: String,
        /// The layouts of the first value.
        expected: Vec<TensorLayout>,
        /// The layouts of this value.
        found: Vec<TensorLayout>,
    },
    /// Memory could not be allocated or opened.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// Memory or descriptors are lacking to read a message that must not be skipped: the channel ends.
    #[error("a message with references cannot be read, and must not be skipped: {0}")]
    Unskippable(Box<ChannelError>),
    /// The two ends have different types.
    #[error("expected a {expected}, found a {found}")]
    WrongType {
        /// The type asked for.
        expected: &'static str,
        /// The type of the channel.
        found: &'static str,
    },
    /// A read has found no value.
    #[error("there is no value to read")]
    NoValue,
    /// The last value has not been read, so no other can be written.
    #[error("the last value has not been read")]
    Unread,
    /// A value would have to be cloned for a further reader.
    #[error(
        "`{type_name}` has several readers and is not `Clone` (help: derive `Clone`, or share it in an `Arc`)"
    )]
    NotClone {
        /// The type of the values.
        type_name: &'static str,
    },
    /// A value would have to be read by several threads at a time.
    #[error(
        "`{type_name}` has readers in several threads and is not `Clone` and `Sync` (help: share it in an `Arc`)"
    )]
    NotSync {
        /// The type of the values.
        type_name: &'static str,
    },
    /// A value would have to be encoded.
    #[error(
        "`{type_name}` cannot cross a process (help: #[derive(Clone, Serialize, Deserialize)], or keep its actors in one process)"
    )]
    NotWire {
        /// The type of the values.
        type_name: &'static str,
    },
    /// The numbers of a channel's messages no longer match the executions they belong to.
    #[error("the channel is at message {found}, execution {expected} was asked for")]
    OutOfStep {
        /// The execution asked for.
        expected: u64,
        /// The number of the next message in the channel.
        found: u64,
    },
    /// Another owner has attached this end of the channel already.
    #[error("{end} of the channel {}", attached_by(*pid))]
    Attached {
        /// The end.
        end: End,
        /// The process that has attached it; 0 if it has left again.
        pid: u32,
    },
    /// A channel has no reader of this number.
    #[error(
        "the channel has no reader {index}: it has {readers}, numbered from 0 (`ChannelOptions::readers`)"
    )]
    NoReader {
        /// The number that was asked for.
        index: u32,
        /// The number of readers of the channel.
        readers: u32,
    },
    /// A channel cannot be published or found under this name.
    #[error("a channel named `{name}`: {what}")]
    Name {
        /// The name.
        name: String,
        /// The reason.
        what: &'static str,
    },
    /// An output has two channels of one kind. Its messages could not be written to both or to none.
    #[error(
        "an output has two channels that {how} its values, and may have one: give one channel several readers"
    )]
    TooManyRoutes {
        /// The operation of both channels on a value: `move` or `encode`.
        how: &'static str,
    },
    /// A number in the specification of a channel is too small.
    #[error("{what} is {value}, and must be at least {least}")]
    InvalidSpec {
        /// The name of the number.
        what: &'static str,
        /// The value given.
        value: u64,
        /// The smallest value allowed.
        least: u64,
    },
}

crate::debug_is_report!(ChannelError);

impl ChannelError {
    /// Whether the error concerns only the value to be sent. The value was not sent, and the channel stays usable.
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
                | ChannelError::Record(_)
                | ChannelError::WrongDevice { .. }
        )
    }
}

impl ChannelError {
    /// Whether the error concerns only the value to be read. The value counts as read, and the channel stays usable.
    pub fn loses_value(&self) -> bool {
        matches!(
            self,
            ChannelError::Decode(_)
                | ChannelError::Device(_)
                | ChannelError::Record(_)
                | ChannelError::Lost { .. }
        ) || self.is_shortage()
    }

    /// The error of a channel on which no message may be skipped.
    pub(crate) fn ends_channel(self) -> Self {
        match self.loses_value() {
            true => ChannelError::Unskippable(Box::new(self)),
            false => self,
        }
    }

    /// Whether this process has temporarily run out of descriptors or memory.
    pub(crate) fn is_shortage(&self) -> bool {
        let ChannelError::Segment(SegmentError::System { error, .. }) = self else {
            return false;
        };
        platform::error::is_shortage(error)
    }
}

/// Formats the layouts of tensors for error messages.
#[cfg(not(loom))]
pub fn layouts(layouts: &[TensorLayout]) -> String {
    let layouts: Vec<_> = layouts.iter().map(ToString::to_string).collect();
    format!("({})", layouts.join(", "))
}
