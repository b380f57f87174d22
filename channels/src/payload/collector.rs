//! How a tensor inside a serde value leaves the head: while one value is encoded or decoded, a thread-local
//! scope holds its parts, and the tensor's own `Serialize` and `Deserialize` write and read an index into them.
//!
//! Scopes nest (a value's own `Serialize` may encode another value) and end with the call that opened them, also when
//! that panics.

use std::cell::RefCell;
use std::sync::Arc;
use std::thread::LocalKey;

use super::bytes64::Bytes64;

/// Parts that tensors have left.
#[derive(Default)]
struct Outgoing {
    parts: Vec<Arc<Bytes64>>,
    /// Where the value is written again: its parts of the first time, each until it comes.
    before: Vec<Option<Arc<Bytes64>>>,
}

type Incoming = Vec<Option<Arc<Bytes64>>>;

thread_local! {
    static OUT: RefCell<Option<Outgoing>> = const { RefCell::new(None) };
    static IN: RefCell<Option<Incoming>> = const { RefCell::new(None) };
}

/// The parts of one value. Those of the value around it are there again when it is closed, or dropped because the value's own
/// code panics.
struct Scope<T: 'static> {
    place: &'static LocalKey<RefCell<Option<T>>>,
    before: Option<T>,
}

impl<T> Scope<T> {
    #[inline]
    fn open(place: &'static LocalKey<RefCell<Option<T>>>, parts: T) -> Self {
        let before = place.replace(Some(parts));
        Scope { place, before }
    }

    /// Ends the scope, and returns what it holds.
    #[inline]
    fn close(mut self) -> Option<T> {
        let parts = self.place.replace(self.before.take());
        std::mem::forget(self);
        parts
    }
}

impl<T> Drop for Scope<T> {
    fn drop(&mut self) {
        drop(self.place.replace(self.before.take()));
    }
}

/// Runs `encode` and returns the parts that tensors left.
#[inline]
pub(super) fn collecting<R>(encode: impl FnOnce() -> R) -> (R, Vec<Arc<Bytes64>>) {
    collecting_into(Outgoing::default(), encode)
}

/// Runs `encode`, of a value whose tensors left these parts before: where they come again, each has the number it had.
pub(super) fn collecting_again<R>(
    parts: &[Arc<Bytes64>],
    encode: impl FnOnce() -> R,
) -> (R, Vec<Arc<Bytes64>>) {
    let outgoing = Outgoing {
        parts: Vec::new(),
        before: parts.iter().cloned().map(Some).collect(),
    };
    collecting_into(outgoing, encode)
}

#[inline]
fn collecting_into<R>(outgoing: Outgoing, encode: impl FnOnce() -> R) -> (R, Vec<Arc<Bytes64>>) {
    let scope = Scope::open(&OUT, outgoing);
    let result = encode();
    (result, scope.close().unwrap_or_default().parts)
}

/// Adds a part to the value being encoded; `None` outside a scope.
pub(super) fn push(part: Arc<Bytes64>) -> Option<u32> {
    OUT.with(|out| {
        let mut out = out.borrow_mut();
        let out = out.as_mut()?;
        let came =
            |before: &Option<Arc<Bytes64>>| before.as_ref().is_some_and(|known| Arc::ptr_eq(known, &part));
        if let Some(index) = out.before.iter().position(came) {
            out.before.get_mut(index)?.take();
            return u32::try_from(index).ok();
        }
        let index = u32::try_from(out.before.len() + out.parts.len()).ok()?;
        out.parts.push(part);
        Some(index)
    })
}

/// Runs `decode` with the parts it may take.
#[inline]
pub(super) fn providing<R>(parts: Incoming, decode: impl FnOnce() -> R) -> R {
    let scope = Scope::open(&IN, parts);
    let result = decode();
    drop(scope.close());
    result
}

/// Takes a part of the value being decoded: each once, so that hostile heads cannot multiply memory.
pub(super) fn take(index: u32) -> Option<Arc<Bytes64>> {
    IN.with(|parts_in| parts_in.borrow_mut().as_mut()?.get_mut(index as usize)?.take())
}
