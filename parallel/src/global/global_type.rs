//! `Global`, which users hold.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use selvedge_channels::{Wire, encode};
use selvedge_cluster::id_map::IdSet;
use selvedge_cluster::peer::ProcessId;
use selvedge_core::{CallError, FetchError, Ref, Runtime};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::copies::{EndedValues, GlobalInfo, forget, kept};
use super::error::GlobalError;
use super::functions::forget_global;

/// A value with a name, of which each process that uses it keeps a copy.
///
/// The process that makes a global sets its value. A remote function takes it as an argument of type `Global<T>`, or as a `&T` with
/// `#[global]`. A process fetches the value when a call brings a handle whose value it lacks, and keeps it for the next call. So
/// a value that does not change moves once to each process, and a new one is sent again only in the context of a call. Workers are not
/// kept equal: one that gets no call keeps the old value.
///
/// Each copy lives until the global is set anew and used there, until [`clear`](Self::clear), or until the last handle of its maker is dropped, which
/// drops them without a wait. A maker that dies leaves the copies, until another value of that name comes. A handle that is used later,
/// in a process that has it still, fetches the value for that use alone. A process keeps one value for each name: give two globals two names.
///
/// ```
/// use selvedge::prelude::*;
///
/// #[remote]
/// fn scaled(#[global] weights: &[f64], at: usize) -> f64 { 2.0 * weights[at] }
///
/// # fn main() -> Result<()> {
/// # if !cfg!(target_os = "linux") { return Ok(()) }
/// # selvedge::init();
/// let runtime = Runtime::new();
/// let worker = runtime.worker("one")?;
/// let weights = runtime.global("weights");
/// weights.set(vec![1.0, 2.0, 3.0])?;
/// for at in 0..3 {                                     // the vector moves once
///     let call = runtime.call(scaled::remote(&weights, at).on(&worker));
///     assert_eq!(call.wait()?, 2.0 * (at + 1) as f64);
/// }
/// assert_eq!(runtime.globals(&worker)?[0].name, "weights");
/// # Ok(())
/// # }
/// ```
pub struct Global<T: Wire> {
    source: Source<T>,
}

/// The source of a handle's value.
enum Source<T: Wire> {
    /// The global was made by this process.
    Made(Arc<Made<T>>),
    /// The handle has come in a message.
    Passed(Value<T>),
}

/// A value of a global, or none.
#[derive(Clone, Serialize, Deserialize)]
#[serde(bound = "")]
struct Value<T: Wire> {
    info: GlobalInfo,
    /// The number of the global, which distinguishes it from others of its name.
    nonce: u64,
    reference: Option<Ref<T>>,
}

impl<T: Wire> Value<T> {
    /// The values up to this one, as those that were taken away.
    fn ended(&self) -> EndedValues {
        EndedValues {
            name: self.info.name.clone(),
            nonce: self.nonce,
            version: self.info.version,
        }
    }
}

/// A global in the process that has made it.
struct Made<T: Wire> {
    runtime: Runtime,
    state: Mutex<State<T>>,
}

struct State<T: Wire> {
    value: Value<T>,
    is_constant: bool,
}

impl<T: Wire> Drop for Made<T> {
    fn drop(&mut self) {
        let ended = self.state.get_mut().value.ended();
        forget(&ended);
        // Whoever has a copy has fetched it from this process.
        let links = self.runtime.traffic();
        let peers: IdSet<ProcessId> = links
            .iter()
            .filter_map(|link| ProcessId::new(link.process))
            .collect();
        for process in peers {
            let call = forget_global::remote(ended.clone()).on_process(process);
            self.runtime.call(call).detach();
        }
    }
}

impl<T: Wire> Clone for Global<T> {
    fn clone(&self) -> Self {
        let source = match &self.source {
            Source::Made(made) => Source::Made(Arc::clone(made)),
            Source::Passed(value) => Source::Passed(value.clone()),
        };
        Global { source }
    }
}

impl<T: Wire> fmt::Debug for Global<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Global").field(&self.value().info).finish()
    }
}

impl<T: Wire> Serialize for Global<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

impl<'de, T: Wire> Deserialize<'de> for Global<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(Global {
            source: Source::Passed(value),
        })
    }
}

impl<T: Wire> Global<T> {
    pub(crate) fn new(runtime: &Runtime, name: impl Into<String>) -> Self {
        let info = GlobalInfo {
            name: name.into(),
            version: 0,
            size_bytes: 0,
        };
        let state = State {
            value: Value {
                info,
                nonce: fresh_nonce(),
                reference: None,
            },
            is_constant: false,
        };
        let made = Made {
            runtime: runtime.clone(),
            state: Mutex::new(state),
        };
        Global {
            source: Source::Made(Arc::new(made)),
        }
    }

    fn value(&self) -> Value<T> {
        match &self.source {
            Source::Made(made) => made.state.lock().value.clone(),
            Source::Passed(value) => value.clone(),
        }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> String {
        self.value().info.name
    }

    fn made(&self) -> Result<&Arc<Made<T>>, GlobalError> {
        match &self.source {
            Source::Made(made) => Ok(made),
            Source::Passed(value) => Err(GlobalError::NotMaker {
                name: value.info.name.clone(),
            }),
        }
    }

    /// Gives the global another value. A process gets it with the next call that brings the global there.
    ///
    /// # Errors
    /// [`GlobalError::Constant`], [`GlobalError::NotMaker`], [`GlobalError::Unset`] if the runtime was shut down.
    pub fn set(&self, value: T) -> Result<(), GlobalError> {
        self.put(value, false)
    }

    /// Gives the global a value that stays: later values are refused, and so is [`clear`](Self::clear).
    ///
    /// # Errors
    /// As for [`set`](Self::set).
    pub fn set_const(&self, value: T) -> Result<(), GlobalError> {
        self.put(value, true)
    }

    fn put(&self, value: T, is_constant: bool) -> Result<(), GlobalError> {
        let made = self.made()?;
        let refused = |state: &State<T>| match state.is_constant {
            true => Err(GlobalError::Constant {
                name: state.value.info.name.clone(),
            }),
            false => Ok(()),
        };
        refused(&made.state.lock())?;
        // User code, and so before the lock. A value whose length is not known outside of a message has none.
        let size_bytes = encode(&value).map_or(0, |encoded| encoded.len_bytes() as u64);
        let reference = made.runtime.unset::<T>();
        let set = reference.set(value);
        let mut state = made.state.lock();
        // Again: another thread may have made it one.
        refused(&state)?;
        let name = state.value.info.name.clone();
        set.map_err(|error| GlobalError::Unset {
            name,
            error: Box::new(error),
        })?;
        state.is_constant = is_constant;
        let info = &mut state.value.info;
        (info.version, info.size_bytes) = (info.version + 1, size_bytes);
        let old = state.value.reference.replace(reference);
        drop(state);
        drop(old);
        Ok(())
    }

    /// Returns the value: the maker's own, or the copy of this process, which is fetched if it is not there. Waits at most one minute.
    ///
    /// # Errors
    /// [`GlobalError::Empty`], [`GlobalError::Unfetched`].
    pub fn get(&self) -> Result<Arc<T>, GlobalError> {
        let (reference, name) = self.reference()?;
        let fetched = reference.fetch();
        fetched.map_err(|error| unfetched(name, error))
    }

    /// Returns the value like [`get`](Self::get), by `.await`.
    ///
    /// # Errors
    /// As for `get`.
    pub async fn get_async(&self) -> Result<Arc<T>, GlobalError> {
        let (reference, name) = self.reference()?;
        let fetched = (&reference).await;
        fetched.map_err(|error| unfetched(name, error))
    }

    /// The reference by way of which this process has the value, or gets it.
    fn reference(&self) -> Result<(Ref<T>, String), GlobalError> {
        let Value {
            info,
            nonce,
            reference,
        } = self.value();
        let Some(reference) = reference else {
            return Err(GlobalError::Empty { name: info.name });
        };
        match &self.source {
            Source::Made(_) => Ok((reference, info.name)),
            Source::Passed(_) => Ok((kept(&info, nonce, &reference), info.name)),
        }
    }

    /// Takes the value away, in all processes, and waits for those that live.
    ///
    /// # Errors
    /// [`GlobalError::Constant`], [`GlobalError::NotMaker`]; [`GlobalError::NotDropped`] if a process that lives did not do so within a minute.
    pub fn clear(&self) -> Result<(), GlobalError> {
        let made = self.made()?;
        let mut state = made.state.lock();
        let name = state.value.info.name.clone();
        if state.is_constant {
            return Err(GlobalError::Constant { name });
        }
        let (ended, old) = (state.value.ended(), state.value.reference.take());
        drop(state);
        drop(old);
        let cleared = made.runtime.everywhere(forget_global::remote(ended));
        let failed = cleared.err().into_iter().flat_map(|composite| composite.errors);
        match failed.into_iter().find(|error| !is_death(error)) {
            Some(error) => Err(GlobalError::NotDropped {
                name,
                error: Box::new(error),
            }),
            None => Ok(()),
        }
    }
}

/// A number that no other global has.
fn fresh_nonce() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: only the uniqueness of each number counts. The keys of the hash are another process's own.
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    RandomState::new().hash_one((std::process::id(), number))
}

fn unfetched(name: String, error: FetchError) -> GlobalError {
    GlobalError::Unfetched {
        name,
        error: Box::new(error),
    }
}

/// Whether a process has gone, and its copies with it.
fn is_death(error: &CallError) -> bool {
    use selvedge_core::RemoteError::{Died, NoSuchProcess};
    matches!(error.remote(), Some(Died { .. } | NoSuchProcess { .. }))
}
