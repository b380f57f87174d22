//! Remote functions as plain data, found by number in every process.
//!
//! A worker process is the same executable, so it has the same functions. A function's number is a hash of its path and the
//! text of its signature, so a function that was changed is another one.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use linkme::distributed_slice;
use selvedge_channels::{Payload, Traits, Wire};
use selvedge_cluster::id_map::IdMap;
use serde::{Deserialize, Serialize};

use crate::actor::arguments::{Arguments, ArgumentsKind, Returned};
use crate::body::Body;
use crate::cancel::begin_here;
use crate::error_codec::ErrorCodec;
use crate::failure::Failure;
use crate::fnv::{FNV_OFFSET, fnv1a};
use crate::lineage::RETRIES;
use crate::reference::NamedRef;
use crate::reference::content::ObjectValue;
use crate::reference::handle::Handle;
use crate::reference::transit::{CARRIED_BYTES_MAX, arriving, leaving_with};
use crate::remote::argument_store::ArgumentStore;
use crate::remote::parameter::{ArgumentTuple, Arriving, InputRef};

/// All remote functions of the program. `#[remote]` adds to the list at link time.
#[distributed_slice]
pub static FUNCTIONS: [&'static FunctionEntry];

/// All functions that run once in each process before its first remote function. `#[worker_init]` adds to the list at link
/// time.
#[distributed_slice]
pub static WORKER_INITS: [InitEntry];

/// A function that runs once in a process.
pub struct InitEntry {
    /// The function's path.
    pub path: &'static str,
    /// The function.
    pub run: fn() -> Result<(), Failure>,
}

/// The number of a remote function: a hash of its path and the text of its signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct FunctionId(pub(crate) u64);

selvedge_cluster::id_key!(FunctionId as u64: |function| function.0);

/// A remote function. `#[remote]` generates one for each function.
pub struct FunctionEntry {
    /// The function's path.
    pub path: &'static str,
    /// The text of the function's signature.
    pub signature: &'static str,
    /// The place in the source, for functions with the same path and signature.
    pub place: &'static str,
    /// The codec of the function's errors, if serde knows their type.
    pub error: fn() -> Option<&'static ErrorCodec>,
    /// The facts that `#[remote(..)]` tells.
    pub facts: FunctionFacts,
    /// The function's number, once somebody has asked for it.
    id: OnceLock<FunctionId>,
    is_async: bool,
    encode: fn(&Arguments) -> Result<Body, Failure>,
    store: fn(Arguments, &mut ArgumentStore<'_>) -> Result<Arguments, Failure>,
    run: fn(Invocation) -> Running,
}

/// The facts that `#[remote(..)]` tells about a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionFacts {
    /// The times that a call may run again; `None` for a function that is not pure.
    pub retries: Option<u32>,
    /// The cpus that a call needs; `None` for the default.
    pub cpus: Option<u32>,
    /// The gpus that a call needs.
    pub gpus: u32,
}

impl FunctionFacts {
    /// The times that a call of a pure function may run again by default.
    pub const RETRIES: u32 = RETRIES;

    /// The facts of `#[remote]`.
    pub const NONE: FunctionFacts = FunctionFacts {
        retries: None,
        cpus: None,
        gpus: 0,
    };
}

/// A remote function for generic code. `#[remote]` implements the trait for a type with the function's name.
pub trait RemoteBody {
    /// The arguments, a tuple of owned values. [`TypedEntry::of`] asks for [`ArgumentTuple`], at one place of the generated
    /// code, so that an argument that cannot be sent is one error.
    type Arguments;
    /// The value; of a `Result`, the value of `Ok`.
    type Output: Payload + Sync;
    /// Whether the function is an `async fn`.
    const IS_ASYNC: bool;

    /// The traits of the value.
    fn traits() -> &'static Traits<Self::Output>;

    /// Runs the function, or creates its future.
    fn start(arguments: Self::Arguments) -> Begun<Self::Output>;
}

/// A function after its call.
pub enum Begun<T> {
    /// The function has ended.
    Done(Result<T, Failure>),
    /// The future of an `async fn`.
    Future(Pin<Box<dyn Future<Output = Result<T, Failure>>>>),
}

/// The part of a function's outcome that the caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wants {
    /// The value, or the error.
    Value,
    /// The end, or the error.
    End,
    /// Nothing.
    Nothing,
    /// The value, or the error, of a submitted call: a word as well when it waits, and when it goes on.
    Submitted {
        /// Whether a large value may stay in the store of the function's host, with which it can be lost: the call can run again then.
        may_stay: bool,
    },
    /// Nothing comes back: the value is kept where the function runs.
    Kept,
}

/// The arguments of one run of a function, and the form of its result.
pub(crate) struct Invocation {
    pub(crate) arguments: Arguments,
    /// The references in encoded arguments.
    pub(crate) handles: Vec<Arc<Handle>>,
    pub(crate) wants: Wants,
}

/// The reason that a function gave no value.
#[derive(Debug)]
pub(crate) enum FunctionFault {
    /// The arguments could not be decoded; the function did not run.
    Arguments(Failure),
    /// The function failed.
    Failed(Failure),
    /// The call was withdrawn before the function had begun.
    Withdrawn,
}

pub(crate) type Ended = Result<Returned, FunctionFault>;

/// A function after its call, its types erased.
pub(crate) enum Running {
    Done(Ended),
    Future(Pin<Box<dyn Future<Output = Ended>>>),
    /// Arguments of a function that blocks are on their way. The function runs in the poll that gets the last of them.
    Resolving(Pin<Box<dyn Future<Output = Ended> + Send>>),
}

/// A remote function that takes the arguments `A`, a tuple, which are `P` on their way.
pub struct TypedEntry<A, P> {
    entry: FunctionEntry,
    pass: fn(P) -> Arguments,
    homes: fn(&P) -> Vec<NamedRef>,
    inputs: fn(&P) -> Vec<InputRef>,
    arguments: PhantomData<fn(A)>,
}

impl<A: ArgumentTuple<Passed = P>, P: Wire> TypedEntry<A, P> {
    /// Describes the function `F`.
    #[must_use]
    pub const fn of<F: RemoteBody<Arguments = A>>(
        path: &'static str,
        signature: &'static str,
        place: &'static str,
        error: fn() -> Option<&'static ErrorCodec>,
    ) -> Self {
        let entry = FunctionEntry {
            path,
            signature,
            place,
            error,
            facts: FunctionFacts::NONE,
            id: OnceLock::new(),
            is_async: F::IS_ASYNC,
            encode: encode::<A>,
            store: |arguments, store| {
                let passed = arguments.into::<P>(const { &Traits::LETTER })?;
                Ok(Arguments::local::<P>(A::stored(passed, store)))
            },
            run: run::<F>,
        };
        TypedEntry {
            entry,
            pass: Arguments::local::<P>,
            homes: A::homes,
            inputs: A::inputs,
            arguments: PhantomData,
        }
    }
}

impl<A, P> TypedEntry<A, P> {
    /// Sets the facts.
    #[must_use]
    pub const fn with(mut self, facts: FunctionFacts) -> Self {
        self.entry.facts = facts;
        self
    }

    /// The function without the type of its arguments.
    #[must_use]
    pub const fn entry(&self) -> &FunctionEntry {
        &self.entry
    }

    pub(crate) fn pass(&self, arguments: P) -> Arguments {
        (self.pass)(arguments)
    }

    /// The references whose owner the function has to run in.
    pub(crate) fn homes(&self, arguments: &P) -> Vec<NamedRef> {
        (self.homes)(arguments)
    }

    /// The references whose values the function takes.
    pub(crate) fn inputs(&self, arguments: &P) -> Vec<InputRef> {
        (self.inputs)(arguments)
    }
}

impl FunctionEntry {
    /// Whether the function is an `async fn`.
    pub(crate) fn is_async(&self) -> bool {
        self.is_async
    }

    /// Encodes arguments, with the references in them. Their `Serialize` is user code.
    pub(crate) fn encode(&self, arguments: &Arguments) -> Result<(Body, Vec<Arc<Handle>>), Failure> {
        self.encode_with(CARRIED_BYTES_MAX, arguments)
    }

    /// Encodes arguments, with at most so many bytes of values that were fetched.
    pub(crate) fn encode_with(
        &self,
        room: usize,
        arguments: &Arguments,
    ) -> Result<(Body, Vec<Arc<Handle>>), Failure> {
        let (body, handles) = leaving_with(room, || (self.encode)(arguments));
        Ok((body?, handles))
    }

    /// Puts the large ones of the arguments into the store, so that they travel by reference. Their `Serialize` is user code.
    pub(crate) fn store(
        &self,
        arguments: Arguments,
        store: &mut ArgumentStore<'_>,
    ) -> Result<Arguments, Failure> {
        Failure::catch(|| (self.store)(arguments, store))
    }

    /// Runs the function, or creates its future. A panic is a failure.
    pub(crate) fn run(&self, invocation: Invocation) -> Running {
        let running = Failure::catch(|| Ok((self.run)(invocation)));
        running.unwrap_or_else(|panic| Running::Done(Err(FunctionFault::Failed(panic))))
    }

    /// The path and the signature, and the place if another function has the same.
    pub(crate) fn key(&self) -> String {
        let same = |other: &&&FunctionEntry| (other.path, other.signature) == (self.path, self.signature);
        let is_only = FUNCTIONS.iter().filter(same).take(2).count() < 2;
        let place = if is_only { "" } else { self.place };
        format!("{} {}{place}", self.path, self.signature)
    }

    /// The function's number.
    pub(crate) fn id(&self) -> FunctionId {
        *self.id.get_or_init(|| number(&self.key()))
    }
}

/// Encodes arguments. A failure or a panic of user code names the argument.
fn encode<A: ArgumentTuple>(arguments: &Arguments) -> Result<Body, Failure> {
    let encoded = Failure::catch(|| arguments.encoded::<A::Passed>(const { &Traits::LETTER }));
    encoded.map_err(|failure| {
        let named = arguments.tuple().and_then(A::unencodable);
        named.map_or(failure, Failure::from_error)
    })
}

fn run<F: RemoteBody<Arguments: ArgumentTuple>>(invocation: Invocation) -> Running {
    let Invocation {
        arguments,
        handles,
        wants,
    } = invocation;
    let kind = arguments.kind();
    let decode = || arguments.into::<<F::Arguments as ArgumentTuple>::Passed>(const { &Traits::LETTER });
    let passed = match Failure::catch(|| arriving(handles, decode)) {
        Ok(passed) => passed,
        Err(failure) => {
            let why = format!("the process of the function cannot decode them: {failure}");
            return Running::Done(Err(FunctionFault::Arguments(Failure::from_error(why))));
        }
    };
    let arguments = F::Arguments::resolved(passed);
    let begin = |resolved: Result<F::Arguments, Failure>| match begin_here() {
        true => Ok(resolved.map(F::start)),
        false => Err(FunctionFault::Withdrawn),
    };
    if F::IS_ASYNC {
        return Running::Future(Box::pin(async move {
            let result = match begin(arguments.arrived().await)? {
                Ok(Begun::Future(future)) => future.await,
                Ok(Begun::Done(result)) => result,
                Err(failure) => Err(failure),
            };
            returned::<F>(result, kind, wants)
        }));
    }
    let end = move |resolved| {
        let result = match begin(resolved)? {
            Ok(Begun::Done(result)) => result,
            Ok(Begun::Future(_)) => Err(Failure::Internal("a future of a function that blocks".to_owned())),
            Err(failure) => Err(failure),
        };
        returned::<F>(result, kind, wants)
    };
    let arguments = match arguments {
        Arriving::Here(arguments) => return Running::Done(end(Ok(arguments))),
        Arriving::Later(arguments) => arguments,
    };
    let mut ended = Box::pin(async move { end(arguments.await) });
    // Most arguments are there already. Whoever waits for the others polls again, with a waker.
    match ended.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(ended) => Running::Done(ended),
        Poll::Pending => Running::Resolving(ended),
    }
}

/// Puts a result into the form that the caller wants.
fn returned<F: RemoteBody>(result: Result<F::Output, Failure>, kind: ArgumentsKind, wants: Wants) -> Ended {
    let returned = result.and_then(|value| match wants {
        Wants::Value | Wants::Submitted { .. } if kind == ArgumentsKind::Bytes => {
            Returned::passed(&value, F::traits())
        }
        Wants::Value => Returned::new(value, kind, F::traits()),
        Wants::Kept | Wants::Submitted { .. } => Ok(Returned::Kept(ObjectValue::new(value, F::traits()))),
        Wants::End | Wants::Nothing => Returned::new((), kind, const { &Traits::LETTER }),
    });
    returned.map_err(FunctionFault::Failed)
}

/// Finds a function of this program.
pub(crate) fn find_function(id: FunctionId) -> Option<&'static FunctionEntry> {
    static FUNCTIONS_BY_ID: OnceLock<IdMap<FunctionId, &'static FunctionEntry>> = OnceLock::new();
    let functions = FUNCTIONS_BY_ID.get_or_init(|| {
        let numbered = FUNCTIONS.iter().map(|function| (function.id(), *function));
        numbered.collect()
    });
    functions.get(&id).copied()
}

/// The largest number of names that a process tells of its functions.
const KNOWN_MAX: usize = 256;

/// Paths of the functions of this program, sorted.
pub(crate) fn known_functions() -> Vec<String> {
    let mut known: Vec<String> = FUNCTIONS
        .iter()
        .map(|function| function.path.to_owned())
        .collect();
    known.sort_unstable();
    known.truncate(KNOWN_MAX);
    known
}

fn number(key: &str) -> FunctionId {
    FunctionId(key.bytes().fold(FNV_OFFSET, fnv1a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_by_path_and_by_signature() {
        assert_eq!(number("a fn a ()"), number("a fn a ()"));
        assert_ne!(number("a fn a ()"), number("b fn a ()"));
        assert_ne!(number("a fn a ()"), number("a fn a (x : u8)"));
    }
}
