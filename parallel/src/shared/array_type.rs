//! `SharedArray`, which users hold.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use selvedge_channels::array::{ArrayMemory, ArrayPart, ArrayView, part_of};
use selvedge_channels::{Element, Wire, bytes_of};
use selvedge_cluster::peer::ProcessId;
use selvedge_core::{Ref, RemoteCall, RemoteFunction, Runtime};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::build::made;
use super::error::SharedArrayError;
use super::functions::{KeptMapping, copy_part, fill_part, give_up_array};
use super::mapping::{ArrayName, Mapping, find};
use super::view::SharedView;
use crate::all_values::all_values;

/// The description of an array in a handle.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Identity {
    name: ArrayName,
    pub(super) shape: Vec<usize>,
    processes: Vec<ProcessId>,
}

impl Identity {
    pub(super) fn new(name: ArrayName, shape: Vec<usize>, processes: Vec<ProcessId>) -> Self {
        Identity {
            name,
            shape,
            processes,
        }
    }
}

/// The things that the maker of an array holds.
struct Maker {
    runtime: Runtime,
    mapping: Arc<Mapping>,
    /// The mappings of the workers.
    kept: Vec<Ref<KeptMapping>>,
}

/// An array of numbers that several processes of one host map: each sees all elements, and each writes where it likes.
///
/// The processes are the workers that the array was made for, and the one that has made it. Each of the workers has a part of the array,
/// [`local_range`](Self::local_range). A handle that is passed to a remote function is a name: no element is copied. In a process that does
/// not map the array, the use of elements is [`SharedArrayError::NotMapped`].
///
/// The array lives as long as its maker has the handle, or a clone of it, and ends in all processes with the last one, with
/// [`release`](Self::release), or with the maker's death. Handles that have come in messages keep nothing alive, and an open view keeps the memory of
/// its own process. The memory has no name in any file system, so nothing can be left behind.
///
/// ```
/// use selvedge::parallel::SharedArray;
/// use selvedge::prelude::*;
///
/// #[remote]
/// fn fill_own_part(array: SharedArray<f64>) -> Result<()> {
///     let place = array.position().unwrap_or(0) as f64;
///     array.claim()?.fill(place);                      // a `&mut [f64]`
///     Ok(())
/// }
///
/// # fn main() -> Result<()> {
/// # if !cfg!(target_os = "linux") { return Ok(()) }
/// # selvedge::init();
/// let runtime = Runtime::new();
/// let workers = [runtime.worker("one")?, runtime.worker("two")?];
/// let array = SharedArray::<f64>::build(&runtime, [2, 3]).on(&workers).init(remote_fn!(fill_own_part))?;
/// assert_eq!(array.snapshot()?, [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
/// let view = array.view()?;
/// view.set([0, 2], 7.0)?;
/// assert_eq!(view.get([0, 2])?, 7.0);
/// # Ok(())
/// # }
/// ```
pub struct SharedArray<T> {
    identity: Arc<Identity>,
    /// `None` in a handle that has come in a message.
    maker: Option<Arc<Maker>>,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for SharedArray<T> {
    fn clone(&self) -> Self {
        SharedArray {
            identity: Arc::clone(&self.identity),
            maker: self.maker.clone(),
            of: PhantomData,
        }
    }
}

impl<T> fmt::Debug for SharedArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { shape, processes, .. } = &*self.identity;
        write!(f, "SharedArray<{}>({shape:?} on {processes:?})", type_name::<T>())
    }
}

impl<T> Serialize for SharedArray<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.identity.serialize(serializer)
    }
}

impl<'de, T> Deserialize<'de> for SharedArray<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let identity = Identity::deserialize(deserializer)?;
        Ok(SharedArray {
            identity: Arc::new(identity),
            maker: None,
            of: PhantomData,
        })
    }
}

/// The time that a process may take to map an array, or to give it up.
const MAPPED_WITHIN: Duration = Duration::from_secs(60);

impl<T: Element> SharedArray<T> {
    pub(super) fn owned(
        identity: Identity,
        mapping: Arc<Mapping>,
        runtime: Runtime,
        kept: Vec<Ref<KeptMapping>>,
    ) -> Self {
        let maker = Maker {
            runtime,
            mapping,
            kept,
        };
        SharedArray {
            identity: Arc::new(identity),
            maker: Some(Arc::new(maker)),
            of: PhantomData,
        }
    }

    /// Makes another array of this shape, on the same processes, whose elements are zero. Only the maker of this one can.
    ///
    /// # Errors
    /// As for [`zeroed`](super::SharedArrayBuilder::zeroed), and [`SharedArrayError::NotMaker`].
    pub fn alike(&self) -> Result<Self, SharedArrayError> {
        let Some(maker) = &self.maker else {
            return Err(SharedArrayError::NotMaker);
        };
        let workers = maker.kept.iter().map(|kept| kept.owner().process).collect();
        made(&maker.runtime, self.shape().to_vec(), workers, |spec, slot| {
            Ok(ArrayMemory::create(spec, slot)?)
        })
    }

    /// Waits until all workers have mapped the array.
    pub(super) fn until_mapped(&self) -> Result<(), SharedArrayError> {
        let kept = self.maker.iter().flat_map(|maker| &maker.kept);
        for mapping in kept {
            mapping
                .ready_timeout(MAPPED_WITHIN)
                .map_err(SharedArrayError::Unmapped)?;
        }
        Ok(())
    }

    /// The length of each dimension.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.identity.shape
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.identity
            .shape
            .iter()
            .fold(1, |len, length| length.saturating_mul(len))
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The processes that have a part each: the workers, or the maker if there are none.
    #[must_use]
    pub fn processes(&self) -> &[ProcessId] {
        &self.identity.processes
    }

    fn memory(&self) -> Result<Arc<ArrayMemory>, SharedArrayError> {
        let found = match &self.maker {
            Some(maker) => maker.mapping.memory(),
            None => find(self.identity.name).and_then(|mapping| mapping.memory()),
        };
        found.ok_or_else(|| self.not_mapped())
    }

    #[cold]
    fn not_mapped(&self) -> SharedArrayError {
        let process = self.runtime().ok().map(|runtime| runtime.process());
        let is_member = process.map(|process| self.maker.is_some() || self.processes().contains(&process));
        SharedArrayError::NotMapped {
            process: process.map(ProcessId::number),
            is_member,
            processes: self.processes().iter().map(|process| process.number()).collect(),
        }
    }

    /// The place of this process among [`processes`](Self::processes); `None` for one that has no part: the maker, if there are workers,
    /// and every process that does not map the array.
    #[must_use]
    pub fn position(&self) -> Option<usize> {
        let slot = self.memory().ok()?.slot();
        (slot < self.processes().len()).then_some(slot)
    }

    /// The part of this process, in memory order: contiguous, of equal length but for the last process, which takes the remainder. Empty if
    /// this process has none.
    #[must_use]
    pub fn local_range(&self) -> Range<usize> {
        self.range_of(self.position().unwrap_or(usize::MAX))
    }

    /// The part of the process at a position.
    #[must_use]
    pub fn range_of(&self, position: usize) -> Range<usize> {
        part_of(self.len(), self.processes().len(), position)
    }

    /// Opens a view of all elements.
    ///
    /// # Errors
    /// [`SharedArrayError::NotMapped`]; [`ArrayError::Claimed`](selvedge_channels::array::ArrayError::Claimed) if a process has claimed its part.
    pub fn view(&self) -> Result<SharedView<T>, SharedArrayError> {
        let view = ArrayView::open(&self.memory()?)?;
        Ok(SharedView::new(view, Arc::clone(&self.identity)))
    }

    /// Claims the part of this process: a `&mut [T]`, until it is dropped. Other processes may claim theirs meanwhile, and nobody may
    /// have a view. So a claim that meets a view is an error, in which the program's own order of work is at fault; it does not wait.
    ///
    /// # Errors
    /// [`SharedArrayError::NotMapped`]; [`ArrayError::InUse`](selvedge_channels::array::ArrayError::InUse) if a view is open, in any process;
    /// [`ArrayError::Claimed`](selvedge_channels::array::ArrayError::Claimed), [`ArrayError::ReadOnly`](selvedge_channels::array::ArrayError::ReadOnly).
    pub fn claim(&self) -> Result<ArrayPart<T>, SharedArrayError> {
        Ok(ArrayPart::claim(&self.memory()?)?)
    }

    /// Copies all elements, in memory order.
    ///
    /// # Errors
    /// As for [`view`](Self::view).
    pub fn snapshot(&self) -> Result<Vec<T>, SharedArrayError> {
        self.view()?.read(0..self.len())
    }

    /// The runtime that calls others.
    fn runtime(&self) -> Result<Runtime, SharedArrayError> {
        match &self.maker {
            Some(maker) => Ok(maker.runtime.clone()),
            None => Ok(Runtime::current()?),
        }
    }

    /// Calls a function with the array in each of its [`processes`](Self::processes), all at once, and returns the values in their order. The
    /// first error ends the wait, and cancels the others.
    ///
    /// # Errors
    /// [`SharedArrayError::Call`].
    pub fn each<F>(&self, function: F) -> Result<Vec<F::Output>, SharedArrayError>
    where
        F: RemoteFunction<Arguments = (SharedArray<T>,), Output: Wire>,
    {
        let runtime = self.runtime()?;
        let calls = self.processes().iter().map(|process| {
            let call = function.describe((self.clone(),));
            runtime.call(call.on_process(*process))
        });
        Ok(all_values(calls.collect())?)
    }

    /// Calls a function with the array in each of its processes, and combines the values here, in the order of the parts: `combine` should be
    /// associative, and need not be commutative.
    ///
    /// # Errors
    /// [`SharedArrayError::Call`].
    pub fn reduce<F>(
        &self,
        function: F,
        combine: impl FnMut(F::Output, F::Output) -> F::Output,
    ) -> Result<Option<F::Output>, SharedArrayError>
    where
        F: RemoteFunction<Arguments = (SharedArray<T>,), Output: Wire>,
    {
        Ok(self.each(function)?.into_iter().reduce(combine))
    }

    /// Writes one value to all elements: each process to those of its part.
    ///
    /// # Errors
    /// [`ArrayError::ReadOnly`](selvedge_channels::array::ArrayError::ReadOnly), [`SharedArrayError::Call`].
    pub fn fill(&self, value: T) -> Result<(), SharedArrayError> {
        let memory = self.memory()?;
        memory.writable()?;
        let value = bytes_of(&[value]).to_vec();
        self.each_by(|| fill_part::remote(self.identity.name, value.clone()))
    }

    /// Copies all elements of another array of this shape and with the same processes: each process those of its part.
    ///
    /// # Errors
    /// [`SharedArrayError::Different`]; [`ArrayError::ReadOnly`](selvedge_channels::array::ArrayError::ReadOnly), [`SharedArrayError::Call`].
    pub fn copy_from(&self, source: &Self) -> Result<(), SharedArrayError> {
        let differs = |what| Err(SharedArrayError::Different { what });
        if self.shape() != source.shape() {
            return differs("shape");
        }
        if self.processes() != source.processes() {
            return differs("processes");
        }
        self.memory()?.writable()?;
        self.each_by(|| copy_part::remote(source.identity.name, self.identity.name))
    }

    /// Calls one of our functions in each process that has a part.
    pub(crate) fn each_by(&self, describe: impl Fn() -> RemoteCall<()>) -> Result<(), SharedArrayError> {
        let runtime = self.runtime()?;
        let calls = self.processes().iter();
        let calls = calls.map(|process| runtime.call(describe().on_process(*process)));
        all_values(calls.collect())?;
        Ok(())
    }

    /// Ends the array in all processes, and waits for those that live: each frees the memory as soon as none of its views is open. Clones of
    /// the handle find no array any more.
    ///
    /// # Errors
    /// [`SharedArrayError::NoRuntime`]. A handle that has come in a message ends nothing.
    pub fn release(self) -> Result<(), SharedArrayError> {
        let Some(maker) = &self.maker else { return Ok(()) };
        maker.mapping.give_up();
        let name = self.identity.name;
        let owners = maker.kept.iter().map(|kept| kept.owner().process);
        let calls: Vec<_> = owners
            .map(|process| {
                let call = give_up_array::remote(name).on_process(process);
                maker.runtime.call(call.deadline(MAPPED_WITHIN))
            })
            .collect();
        // A process that has died has no memory any more.
        calls.into_iter().for_each(|call| drop(call.wait()));
        Ok(())
    }
}
