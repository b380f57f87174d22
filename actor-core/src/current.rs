//! The surroundings of the user code on a thread: the runtime of a remote function or an actor, and its place among the threads of its
//! process.
//!
//! A remote function finds its runtime here, also if it has made a runtime of its own: only the one that runs the function
//! is ever noted. An actor with a thread finds the runtime that spawned it. A function that waits gives its place to another one for the time, so functions that wait for each
//! other never use up all places.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use selvedge_channels::{Scope, ScopePlace};

use crate::task::outer::OuterCall;

/// The reason that a function must not wait by blocking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoBlocking {
    /// The function is async, and others run on its thread.
    Async,
    /// The limit of functions that wait is reached.
    TooMany { limit: usize },
}

/// The place of a function among the threads of its process.
pub(crate) trait Place: Send + Sync {
    /// Gives the place back, because the function is about to wait.
    fn block(&self) -> Result<(), NoBlocking>;

    /// The function goes on, with a place.
    fn resume(&self);
}

/// The place of an actor. The thread is the actor's own, so a wait on it keeps nobody from running but the actors of its lane, with
/// their methods in flight: an async method is not refused a wait either.
#[derive(Default)]
pub(crate) struct OwnThread {
    is_waiting: AtomicBool,
}

impl OwnThread {
    /// Whether the thread waits.
    pub(crate) fn is_waiting(&self) -> bool {
        // Relaxed: it is one word in an error.
        self.is_waiting.load(Ordering::Relaxed)
    }
}

impl Place for OwnThread {
    fn block(&self) -> Result<(), NoBlocking> {
        // Relaxed, as in `is_waiting`.
        self.is_waiting.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn resume(&self) {
        // Relaxed, as in `is_waiting`.
        self.is_waiting.store(false, Ordering::Relaxed);
    }
}

/// The runtime and the place of the function that runs on a thread.
#[derive(Clone)]
pub(crate) struct Current {
    /// The runtime, whose type this module does not know.
    pub(crate) owner: Arc<dyn Any + Send + Sync>,
    pub(crate) place: Arc<dyn Place>,
    /// The call, if it is a submitted one that may run again.
    pub(crate) outer: Option<Arc<OuterCall>>,
}

/// The surroundings of the code on a thread.
struct ThreadSurroundings {
    current: Arc<Current>,
    /// Whether the function has given its place back. It has one, however many waits are within each other.
    has_given: bool,
}

thread_local! {
    static HERE: ScopePlace<ThreadSurroundings> = const { ScopePlace::new() };
}

/// Runs `act` with `current` noted for this thread.
pub(crate) fn within_current<R>(current: &Arc<Current>, act: impl FnOnce() -> R) -> R {
    let here = ThreadSurroundings {
        current: Arc::clone(current),
        has_given: false,
    };
    let _scope = Scope::open(&HERE, here);
    act()
}

/// The surroundings of the code on this thread.
pub(crate) fn current() -> Option<Arc<Current>> {
    ScopePlace::look(&HERE, |here| here.as_ref().map(|here| Arc::clone(&here.current)))
}

/// A place that this thread's function has given back, if a function runs here that had one. The drop takes it again.
pub(crate) struct GivenPlace(Option<Arc<Current>>);

impl Drop for GivenPlace {
    fn drop(&mut self) {
        if let Some(current) = &self.0 {
            current.place.resume();
            note_given(false);
        }
    }
}

/// Notes whether the function of this thread has given its place back.
fn note_given(has_given: bool) {
    ScopePlace::look(&HERE, |here| {
        if let Some(here) = here {
            here.has_given = has_given;
        }
    });
}

/// Gives the place of this thread's function back, because the function is about to wait. A wait within another one gives none.
///
/// # Errors
/// [`NoBlocking`].
pub(crate) fn give_place() -> Result<GivenPlace, NoBlocking> {
    let has_place = |here: &&ThreadSurroundings| !here.has_given;
    let current = ScopePlace::look(&HERE, |here| {
        let here = here.as_ref().filter(has_place)?;
        Some(Arc::clone(&here.current))
    });
    if let Some(current) = &current {
        current.place.block()?;
        note_given(true);
    }
    Ok(GivenPlace(current))
}

/// Runs `act` as an async function runs, which must not block.
#[cfg(test)]
pub(crate) fn as_async<R>(act: impl FnOnce() -> R) -> R {
    let place = Arc::new(crate::remote::async_thread::AsyncPlace);
    let owner = Arc::new(());
    let outer = None;
    within_current(&Arc::new(Current { owner, place, outer }), act)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Counts the functions that wait.
    #[derive(Default)]
    struct CountedPlace(AtomicUsize);

    impl Place for CountedPlace {
        fn block(&self) -> Result<(), NoBlocking> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn resume(&self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_function_that_waits_within_a_wait_gives_its_place_once() {
        let place = Arc::<CountedPlace>::default();
        let waiting = || place.0.load(Ordering::Relaxed);
        let current = Arc::new(Current {
            owner: Arc::new(()),
            place: Arc::clone(&place) as Arc<dyn Place>,
            outer: None,
        });
        within_current(&current, || {
            let outer = give_place().unwrap();
            let inner = give_place().unwrap();
            assert_eq!(waiting(), 1);
            drop(inner);
            assert_eq!(waiting(), 1, "the outer wait goes on");
            drop(outer);
            assert_eq!(waiting(), 0);
            let _again = give_place().unwrap();
            assert_eq!(waiting(), 1);
        });
        assert_eq!(waiting(), 0);
    }
}
