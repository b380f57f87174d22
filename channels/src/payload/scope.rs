//! Scopes: something that a thread holds while some code runs, such as the parts of the value that it encodes.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::thread::LocalKey;

/// The place of a thread for what the present [`Scope`] holds; `None` outside a scope.
///
/// Each scope takes away what it has put there, so a thread that ends has nothing to drop, and the place needs no destructor.
pub struct ScopePlace<T>(RefCell<ManuallyDrop<Option<T>>>);

impl<T> ScopePlace<T> {
    /// An empty place.
    #[must_use]
    pub const fn new() -> Self {
        ScopePlace(RefCell::new(ManuallyDrop::new(None)))
    }

    /// Calls `look` with what the present scope of this thread holds.
    #[inline]
    pub fn look<R>(place: &'static LocalKey<Self>, look: impl FnOnce(&mut Option<T>) -> R) -> R {
        place.with(|place| look(&mut place.0.borrow_mut()))
    }

    #[inline]
    fn replace(&self, held: Option<T>) -> Option<T> {
        ManuallyDrop::into_inner(self.0.replace(ManuallyDrop::new(held)))
    }
}

impl<T> Default for ScopePlace<T> {
    fn default() -> Self {
        ScopePlace::new()
    }
}

/// A scope with something of this thread. When it is closed, or dropped because the code in it panics, what the enclosing scope
/// holds is restored.
pub struct Scope<T: 'static> {
    place: &'static LocalKey<ScopePlace<T>>,
    before: Option<T>,
}

impl<T> Scope<T> {
    /// Begins a scope, with `held` in `place`.
    #[inline]
    pub fn open(place: &'static LocalKey<ScopePlace<T>>, held: T) -> Self {
        let before = place.with(|place| place.replace(Some(held)));
        Scope { place, before }
    }

    /// Ends the scope. Returns what it holds.
    #[inline]
    pub fn close(mut self) -> Option<T> {
        let held = self.end();
        std::mem::forget(self);
        held
    }

    #[inline]
    fn end(&mut self) -> Option<T> {
        let before = self.before.take();
        self.place.with(|place| place.replace(before))
    }
}

impl<T> Drop for Scope<T> {
    fn drop(&mut self) {
        drop(self.end());
    }
}
