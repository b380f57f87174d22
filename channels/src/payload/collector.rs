//! The collector of tensors: takes the bytes of tensors inside a serde value out of its encoded head. While one value
//! is encoded or decoded, a thread-local scope holds its parts. The tensor's own `Serialize` and `Deserialize` write
//! and read an index into these parts. The scope also knows the shared values that were written or read before.
//!
//! Scopes nest (a value's own `Serialize` may encode another value). A scope ends with the call that opened it, even if
//! that call panics.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::bytes64::Bytes64;
use super::scope::{Scope, ScopePlace};

/// The parts of the value that is being encoded.
#[derive(Default)]
struct Outgoing {
    parts: Vec<Arc<Bytes64>>,
    /// When a value is encoded again, with the parts from the first time: the addresses and indices of those that were
    /// not pushed again.
    before: BTreeSet<(usize, u32)>,
    /// The shared values; `None` before the first.
    shared: Option<Box<WrittenValues>>,
}

/// The shared values that were written.
#[derive(Default)]
struct WrittenValues {
    /// The numbers of those that were written to their end, by address and type. They are kept, so that no other value gets the
    /// address of one meanwhile.
    numbers: BTreeMap<(usize, TypeId), (u32, AnyShared)>,
    /// The next number.
    next: u32,
}

/// The parts of the value that is being decoded.
struct Incoming {
    parts: Vec<Option<Arc<Bytes64>>>,
    /// The shared values that were read, by their numbers.
    shared: BTreeMap<u32, AnyShared>,
}

/// A value with several handles.
pub(super) type AnyShared = Arc<dyn Any + Send + Sync>;

/// A handle that a message meets.
pub(super) enum Met {
    /// The value is to be written, with this number.
    New(u32),
    /// The value was written before, with this number.
    Again(u32),
}

thread_local! {
    static OUT: ScopePlace<Outgoing> = const { ScopePlace::new() };
    static IN: ScopePlace<Incoming> = const { ScopePlace::new() };
}

/// The encoding of one value, to whose parts tensors add theirs.
pub(super) struct Collecting(Scope<Outgoing>);

impl Collecting {
    /// Begins to encode a value.
    #[inline]
    pub(super) fn begin() -> Self {
        Collecting(Scope::open(&OUT, Outgoing::default()))
    }

    /// Begins to encode a value that has pushed `parts` before. A part that is pushed again gets the same index.
    pub(super) fn begin_again(parts: &[Arc<Bytes64>]) -> Self {
        let outgoing = Outgoing {
            parts: parts.to_vec(),
            before: parts.iter().map(address).zip(0..).collect(),
            shared: None,
        };
        Collecting(Scope::open(&OUT, outgoing))
    }

    /// Ends, and returns the parts that tensors have pushed.
    #[inline]
    pub(super) fn end(self) -> Vec<Arc<Bytes64>> {
        self.0.close().unwrap_or_default().parts
    }
}

/// Adds a part to the value being encoded. Returns its index, or `None` outside a scope.
pub(super) fn push(part: Arc<Bytes64>) -> Option<u32> {
    ScopePlace::look(&OUT, |out| {
        let out = out.as_mut()?;
        let at = address(&part);
        let known = out.before.range((at, 0)..=(at, u32::MAX)).next().copied();
        if let Some(known) = known {
            out.before.remove(&known);
            return Some(known.1);
        }
        let index = u32::try_from(out.parts.len()).ok()?;
        out.parts.push(part);
        Some(index)
    })
}

fn address(part: &Arc<Bytes64>) -> usize {
    Arc::as_ptr(part).addr()
}

/// The decoding of one value, whose tensors may take its parts. The drop ends it, and drops the parts that nobody has taken.
pub(super) struct Providing(#[expect(dead_code, reason = "its drop ends the scope")] Scope<Incoming>);

impl Providing {
    /// Begins to decode a value that has these parts.
    #[inline]
    pub(super) fn begin(parts: Vec<Option<Arc<Bytes64>>>) -> Self {
        let shared = BTreeMap::new();
        Providing(Scope::open(&IN, Incoming { parts, shared }))
    }
}

/// Takes a part of the value being decoded. Each can be taken once, so a malicious head cannot multiply memory.
pub(super) fn take(index: u32) -> Option<Arc<Bytes64>> {
    ScopePlace::look(&IN, |incoming| {
        incoming.as_mut()?.parts.get_mut(index as usize)?.take()
    })
}

/// Says how a handle on a shared value is to be written; `None` outside a scope.
pub(super) fn meet(value: &AnyShared) -> Option<Met> {
    ScopePlace::look(&OUT, |out| {
        let shared = out.as_mut()?.shared.get_or_insert_default();
        if let Some((number, _)) = shared.numbers.get(&identity(value)) {
            return Some(Met::Again(*number));
        }
        let number = shared.next;
        shared.next = number.checked_add(1)?;
        Some(Met::New(number))
    })
}

/// A shared value was written to its end: further handles write its number only.
pub(super) fn note_written(number: u32, value: AnyShared) {
    let before = ScopePlace::look(&OUT, |out| {
        let shared = out.as_mut()?.shared.as_mut()?;
        shared.numbers.insert(identity(&value), (number, value))
    });
    // User code, which may open a scope.
    drop(before);
}

fn identity(value: &AnyShared) -> (usize, TypeId) {
    (Arc::as_ptr(value).addr(), (**value).type_id())
}

/// A shared value was read to its end. A type that reads a value a second time, as `untagged` does, means the last.
pub(super) fn note_read(number: u32, value: AnyShared) {
    let before = ScopePlace::look(&IN, |incoming| incoming.as_mut()?.shared.insert(number, value));
    // User code, which may open a scope.
    drop(before);
}

/// The shared value with a number, if it was read.
pub(super) fn read_before(number: u32) -> Option<AnyShared> {
    ScopePlace::look(&IN, |incoming| {
        incoming.as_ref()?.shared.get(&number).map(Arc::clone)
    })
}
