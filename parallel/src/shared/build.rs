//! How a shared array is made.

use std::marker::PhantomData;
use std::path::Path;

use selvedge_channels::array::{ArrayMemory, ArraySpec};
use selvedge_channels::{Element, SegmentError};
use selvedge_cluster::peer::ProcessId;
use selvedge_core::{HostId, RemoteFunction, Runtime, Worker};

use super::array_type::{Identity, SharedArray};
use super::error::SharedArrayError;
use super::file::FileMode;
use super::functions::{MapOrder, map_array};
use super::mapping::{ArrayName, Mapping};

/// A shared array to be made, described by [`SharedArray::build`].
#[derive(Debug)]
#[must_use = "a described array is made by `zeroed`, `init` or `file`"]
pub struct SharedArrayBuilder<T> {
    runtime: Runtime,
    shape: Vec<usize>,
    workers: Option<Vec<Worker>>,
    of: PhantomData<T>,
}

impl<T: Element> SharedArray<T> {
    /// Describes an array of this shape, whose last dimension is the one whose elements lie beside each other. It will be mapped by
    /// this process and by the workers that [`on`](SharedArrayBuilder::on) names; by default, by all workers of this host that live.
    pub fn build(runtime: &Runtime, shape: impl Into<Vec<usize>>) -> SharedArrayBuilder<T> {
        SharedArrayBuilder {
            runtime: runtime.clone(),
            shape: shape.into(),
            workers: None,
            of: PhantomData,
        }
    }
}

impl<T: Element> SharedArrayBuilder<T> {
    /// Names the workers that map the array and have a part of it each, in this order. An empty list is as good as none: all workers of
    /// this host.
    pub fn on(mut self, workers: &[Worker]) -> Self {
        self.workers = (!workers.is_empty()).then(|| workers.to_vec());
        self
    }

    /// Makes the array. All elements are zero, and there is no file: nothing can be left behind.
    ///
    /// # Errors
    /// [`SharedArrayError`]: [`NotSameHost`](SharedArrayError::NotSameHost), [`Twice`](SharedArrayError::Twice),
    /// [`Elements`](SharedArrayError::Elements) if there is not enough memory, [`Unmapped`](SharedArrayError::Unmapped) if a worker has
    /// died or cannot map it.
    pub fn zeroed(self) -> Result<SharedArray<T>, SharedArrayError> {
        self.made(|spec, slot| Ok(ArrayMemory::create(spec, slot)?))
    }

    /// Makes the array like [`zeroed`](Self::zeroed), and calls a function with it in each of its processes, which usually writes the
    /// own part. Waits for all calls.
    ///
    /// # Errors
    /// [`SharedArrayError`]: the errors of `zeroed`, and [`Call`](SharedArrayError::Call) if a call fails.
    pub fn init<F>(self, function: F) -> Result<SharedArray<T>, SharedArrayError>
    where
        F: RemoteFunction<Arguments = (SharedArray<T>,), Output = ()>,
    {
        let array = self.zeroed()?;
        array.each(function)?;
        Ok(array)
    }

    /// Makes an array of the bytes of a file, which all processes write and read without a copy. An array that writes has its file alone,
    /// until no process maps it: [`release`](SharedArray::release) waits for the workers, where a drop does not. The file is on a local file system.
    ///
    /// The file belongs to the array as long as a process maps it. The array's lock holds up only programs that ask for one, so see to it
    /// that no other program writes the file: a slice of a part whose numbers change under it makes the behaviour of this program
    /// undefined. The file must also stay as long as it is: whoever shortens it ends all processes that touch the elements that are gone,
    /// by a signal.
    ///
    /// # Errors
    /// [`SharedArrayError`]: the errors of [`zeroed`](Self::zeroed), [`RelativePath`](SharedArrayError::RelativePath),
    /// [`NotAFile`](SharedArrayError::NotAFile), [`File`](SharedArrayError::File), [`FileInUse`](SharedArrayError::FileInUse), [`FileTooShort`](SharedArrayError::FileTooShort).
    pub fn file(self, path: impl AsRef<Path>, mode: FileMode) -> Result<SharedArray<T>, SharedArrayError> {
        self.made(|spec, slot| {
            let bytes = spec.len.checked_mul(size_of::<T>());
            let bytes = bytes.ok_or_else(|| too_long(spec.len))?;
            let file = mode.open(path.as_ref(), bytes as u64)?;
            Ok(ArrayMemory::of_file(spec, slot, file, mode.is_writable())?)
        })
    }

    /// The workers that map the array.
    fn workers(&self) -> Result<Vec<ProcessId>, SharedArrayError> {
        let Some(named) = &self.workers else {
            let all = self.runtime.workers().into_iter();
            let here = all.filter(|worker| worker.host() == HostId::DRIVER);
            return Ok(here.map(|worker| worker.process()).collect());
        };
        let mut processes: Vec<ProcessId> = Vec::new();
        for worker in named {
            let (name, process) = (worker.name().to_owned(), worker.process());
            if worker.host() != HostId::DRIVER {
                return Err(SharedArrayError::NotSameHost { worker: name });
            }
            if processes.contains(&process) {
                return Err(SharedArrayError::Twice { worker: name });
            }
            processes.push(process);
        }
        Ok(processes)
    }

    fn made(
        self,
        make: impl FnOnce(ArraySpec, usize) -> Result<ArrayMemory, SharedArrayError>,
    ) -> Result<SharedArray<T>, SharedArrayError> {
        let workers = self.workers()?;
        made(&self.runtime, self.shape, workers, make)
    }
}

/// Makes an array of this process and these workers.
pub(super) fn made<T: Element>(
    runtime: &Runtime,
    shape: Vec<usize>,
    workers: Vec<ProcessId>,
    make: impl FnOnce(ArraySpec, usize) -> Result<ArrayMemory, SharedArrayError>,
) -> Result<SharedArray<T>, SharedArrayError> {
    let len = shape
        .iter()
        .try_fold(1_usize, |len, length| len.checked_mul(*length));
    let len = len.ok_or_else(|| too_long(usize::MAX))?;
    // This process comes after the workers, and works itself if there are none.
    let slot = workers.len();
    let processes = match workers.is_empty() {
        true => vec![runtime.process()],
        false => workers.clone(),
    };
    let spec = ArraySpec {
        dtype: T::DTYPE,
        len,
        parts: processes.len(),
        slots: slot + 1,
    };
    let memory = make(spec, slot)?;
    let (name, id) = (ArrayName::fresh(), memory.id());
    let id = id.ok_or(SegmentError::Unsupported)?;
    let mapping = Mapping::new(name, memory);
    let kept = (0..).zip(workers).map(|(slot, process)| {
        let memory = id.clone();
        runtime.keep(map_array::remote(MapOrder { name, memory, slot }).on_process(process))
    });
    let (kept, identity) = (kept.collect(), Identity::new(name, shape, processes));
    let array = SharedArray::owned(identity, mapping, runtime.clone(), kept);
    array.until_mapped()?;
    Ok(array)
}

/// The error for a length that no machine has.
fn too_long(len: usize) -> SharedArrayError {
    SharedArrayError::from(SegmentError::NoMemory {
        need_bytes: len as u64,
        has_bytes: isize::MAX as u64,
        limit: selvedge_channels::MemoryLimit::Addresses,
    })
}
