//! The collector of tensors: takes the bytes of tensors inside a serde value out of its encoded head. While one value
//! is encoded or decoded, a thread-local scope holds its parts. The tensor's own `Serialize` and `Deserialize` write
//! and read an index into these parts.
//!
//! Scopes nest (a value's own `Serialize` may encode another value). A scope ends with the call that opened it, even if
//! that call panics.

use std::cell::RefCell;
use std::sync::Arc;
use std::thread::LocalKey;

use super::bytes64::Bytes64;

/// The parts of the value that is being encoded.
#[derive(Default)]
struct Outgoing {
    parts: Vec<Arc<Bytes64>>,
    /// When a value is encoded again: its parts from the first time. Each is `None` once it was pushed again.
    before: Vec<Option<Arc<Bytes64>>>,
}

type Incoming = Vec<Option<Arc<Bytes64>>>;

thread_local! {
    static OUT: RefCell<Option<Outgoing>> = const { RefCell::new(None) };
    static IN: RefCell<Option<Incoming>> = const { RefCell::new(None) };
}

/// A scope with something of this thread, such as the parts of one value. When it is closed, or dropped because the code
/// in it panics, what the enclosing scope holds is restored.
pub struct Scope<T: 'static> {
    place: &'static LocalKey<RefCell<Option<T>>>,
    before: Option<T>,
}

impl<T> Scope<T> {
    /// Begins a scope, with `parts` in `place`.
    #[inline]
    pub fn open(place: &'static LocalKey<RefCell<Option<T>>>, parts: T) -> Self {
        let before = place.replace(Some(parts));
        Scope { place, before }
    }

    /// Ends the scope. Returns the parts it holds.
    #[inline]
    pub fn close(mut self) -> Option<T> {
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

/// Runs `encode`. Returns its result and the parts that tensors have pushed.
#[inline]
pub(super) fn collecting<R>(encode: impl FnOnce() -> R) -> (R, Vec<Arc<Bytes64>>) {
    collecting_into(Outgoing::default(), encode)
}

/// Runs `encode` for a value that has pushed `parts` before. A part that is pushed again gets the same index.
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

/// Adds a part to the value being encoded. Returns its index, or `None` outside a scope.
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

/// Runs `decode`, which may take these parts.
#[inline]
pub(super) fn providing<R>(parts: Incoming, decode: impl FnOnce() -> R) -> R {
    let scope = Scope::open(&IN, parts);
    let result = decode();
    drop(scope.close());
    result
}

/// Takes a part of the value being decoded. Each can be taken once, so a malicious head cannot multiply memory.
pub(super) fn take(index: u32) -> Option<Arc<Bytes64>> {
    IN.with(|parts_in| parts_in.borrow_mut().as_mut()?.get_mut(index as usize)?.take())
}
