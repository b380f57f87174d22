//! Batches: several calls of one function that travel as one, with one message there and one back.
//!
//! A batch is a call of the function [`run`], whose arguments are the number of the user's function and the encoded arguments of each
//! call. A function that is async, or whose arguments hold references, is called by itself: a batch of one.
#![allow(unsafe_code)] // what the linker lists lies in a section of its own

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use linkme::distributed_slice;
use selvedge_channels::{Payload, Traits, Wire, as_bytes};
use selvedge_cluster::peer::ProcessId;
use serde::{Deserialize, Serialize};

use crate::actor::arguments::{Arguments, Returned};
use crate::body::Body;
use crate::call::remote_error::RemoteError;
use crate::call::request::CALL_TIMEOUT;
use crate::call::{Call, CallError};
use crate::cancel::cancellation;
use crate::failure::Failure;
use crate::reference::transit::Beside;
use crate::remote::argument::Argument;
use crate::remote::asking::Asking;
use crate::remote::function::{
    Begun, Ended, FUNCTIONS, FunctionEntry, FunctionId, Invocation, RemoteBody, Running, TypedEntry, Wants,
    find_function,
};
use crate::remote::job::fault;
use crate::remote::message::Fault;
use crate::remote::parameter::{Arriving, Parameter};
use crate::remote::remote_call::RemoteCall;
use crate::remote::request::EncodedArguments;
use crate::remote::turns::Turn;
use crate::runtime::Runtime;

/// The bytes of the arguments of a batch at most; a batch of one call may have more.
const BATCH_BYTES_MAX: usize = 256 << 20;

/// The name of a map, another one for each.
#[derive(Clone, Copy, Debug)]
pub struct MapName(u64);

impl MapName {
    /// A new name.
    #[must_use]
    pub fn next(runtime: &Runtime) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // Relaxed: the numbers only have to differ.
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        // Maps of several processes meet in a worker.
        MapName(u64::from(runtime.process().number()) << 32 | number & u64::from(u32::MAX))
    }
}

/// Encoded calls of one function, whose values are `T`s. They may be sent several times.
pub struct CallBatch<T> {
    function: &'static FunctionEntry,
    sent: Sent,
    stops: bool,
    value: PhantomData<fn() -> T>,
}

#[derive(Clone)]
enum Sent {
    /// One call, as it is.
    Alone(EncodedArguments),
    /// Several calls, as the argument of [`run`].
    Together(EncodedArguments, usize),
}

/// A batch in flight. The drop cancels it.
pub struct BatchCall<T> {
    call: Call<Values>,
    function: &'static FunctionEntry,
    is_alone: bool,
    count: usize,
    /// Whether the first error ends the batch.
    stops: bool,
    value: PhantomData<fn() -> T>,
}

/// The arguments of [`run`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Calls {
    function: u64,
    /// The name of the map that the batch belongs to: its batches run one after the other.
    map: u64,
    /// Whether the first error ends the batch.
    stops: bool,
    /// The end of each call's arguments among the bytes.
    ends: Vec<u64>,
    #[serde(with = "as_bytes")]
    bytes: Vec<u8>,
}

/// The calls of a batch whose turn has come: the argument that [`run`] takes.
struct CallsInTurn {
    calls: Calls,
    turn: Turn,
}

/// The outcomes of a batch, in the order of the calls. After an error that stops it, the rest is missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Values {
    /// The end of each call's outcome among the bytes.
    ends: Vec<u64>,
    /// The places of outcomes that are faults.
    faults: Vec<u64>,
    #[serde(with = "as_bytes")]
    bytes: Vec<u8>,
}

/// Runs the calls of a batch, one after the other.
#[allow(non_camel_case_types)]
struct run;

static RUN: TypedEntry<(CallsInTurn,), (Argument<Calls>,)> =
    TypedEntry::of::<run>(concat!(module_path!(), "::run"), "(Calls) -> Values", "", || None);

#[distributed_slice(FUNCTIONS)]
static RUN_REGISTERED: &'static FunctionEntry = RUN.entry();

impl RemoteBody for run {
    type Arguments = (CallsInTurn,);
    type Output = Values;
    const IS_ASYNC: bool = false;

    fn traits() -> &'static Traits<Values> {
        const { &Traits::LETTER }
    }

    fn start((CallsInTurn { calls, turn: _turn },): (CallsInTurn,)) -> Begun<Values> {
        Begun::Done(calls.run())
    }
}

impl Parameter for CallsInTurn {
    type Passed = Argument<Calls>;

    fn resolved(calls: Argument<Calls>) -> Arriving<Self> {
        Arriving::Later(Box::pin(async move {
            let calls = Calls::resolved(calls).arrived().await?;
            let turn = Turn::of(calls.map).await;
            Ok(CallsInTurn { calls, turn })
        }))
    }
}

impl Calls {
    fn run(self) -> Result<Values, Failure> {
        let function = find_function(FunctionId(self.function));
        // A batch of batches would wait for its own turn.
        let function = function.filter(|function| !std::ptr::eq(*function, RUN.entry()));
        let function =
            function.ok_or_else(|| Failure::Internal("a batch of an unknown function".to_owned()))?;
        let wanted = cancellation();
        let (bytes, mut values) = (Bytes::from(self.bytes), Values::default());
        for range in ranges(&self.ends, bytes.len())? {
            if wanted.is_cancelled() {
                return Err(Failure::Interrupted);
            }
            let outcome = outcome(function, bytes.slice(range).into());
            let is_fault = outcome.is_err();
            values.add(outcome);
            if is_fault && self.stops {
                break;
            }
        }
        Ok(values)
    }
}

/// Runs one call of a batch.
fn outcome(function: &'static FunctionEntry, arguments: Body) -> Result<Body, Fault> {
    let invocation = Invocation {
        arguments: Arguments::Bytes(arguments),
        handles: Vec::new(),
        wants: Wants::Value,
    };
    match function.run(invocation) {
        Running::Done(ended) => encoded(ended),
        Running::Future(_) | Running::Resolving(_) => Err(internal("an async function in a batch")),
    }
}

fn encoded(ended: Ended) -> Result<Body, Fault> {
    match ended {
        Ok(Returned::Passed(body, Beside(handles))) if handles.is_empty() => Ok(body),
        Ok(Returned::Passed(..)) => Err(internal(
            "a value with references in a batch of several calls (help: `.batch(1)`)",
        )),
        Ok(Returned::Local(_) | Returned::Kept(_)) => Err(internal("a value of a batch without bytes")),
        Err(error) => Err(fault(error).into()),
    }
}

fn internal(text: &str) -> Fault {
    Fault::Failed(Failure::Internal(text.to_owned()).into_report())
}

impl Values {
    fn add(&mut self, outcome: Result<Body, Fault>) {
        match outcome {
            Ok(body) => body
                .segments()
                .for_each(|segment| self.bytes.extend_from_slice(segment)),
            Err(fault) => {
                self.faults.push(self.ends.len() as u64);
                self.bytes.extend_from_slice(&fault.encode());
            }
        }
        self.ends.push(self.bytes.len() as u64);
    }

    fn outcomes(self) -> Result<Vec<Result<Body, Fault>>, Failure> {
        let bytes = Bytes::from(self.bytes);
        let mut faults = self.faults.iter().copied().peekable();
        let outcomes = ranges(&self.ends, bytes.len())?.into_iter().zip(0_u64..);
        let outcomes = outcomes.map(|(range, place)| match faults.next_if_eq(&place) {
            Some(_) => Err(Fault::decode(&bytes.slice(range))),
            None => Ok(bytes.slice(range).into()),
        });
        Ok(outcomes.collect())
    }
}

/// The ranges between ends, within so many bytes. The ends come from another process.
fn ranges(ends: &[u64], bytes: usize) -> Result<Vec<std::ops::Range<usize>>, Failure> {
    let mut begin = 0;
    let ranges = ends.iter().map(|end| {
        let end = usize::try_from(*end)
            .ok()
            .filter(|end| (begin..=bytes).contains(end))?;
        let range = begin..end;
        begin = end;
        Some(range)
    });
    let ranges: Option<Vec<_>> = ranges.collect();
    ranges.ok_or_else(|| Failure::Internal("a batch whose parts lie outside of it".to_owned()))
}

impl<T: Wire> CallBatch<T> {
    /// One call.
    ///
    /// # Errors
    /// [`CallError::Remote`]: the arguments cannot be encoded.
    pub fn one(runtime: &Runtime, call: RemoteCall<T>) -> Result<Self, CallError> {
        let function = call.request.function;
        let sent = Sent::Alone(
            call.request
                .encode()
                .map_err(|error| refused(runtime, function, error))?,
        );
        Ok(CallBatch {
            function,
            sent,
            stops: false,
            value: PhantomData,
        })
    }

    /// A call, and some that follow it, of the same function: up to `most` calls, as far as they fit into one message. Batches of one
    /// `map` run one after the other in a process, unless they have one call. With `stops`, the first error ends the batch.
    ///
    /// # Errors
    /// [`CallError::Remote`]: the arguments of a call cannot be encoded. The calls that were taken are lost.
    pub fn of(
        runtime: &Runtime,
        first: RemoteCall<T>,
        calls: &mut impl Iterator<Item = RemoteCall<T>>,
        most: usize,
        (map, stops): (MapName, bool),
    ) -> Result<Self, CallError> {
        let alone = Self::one(runtime, first)?;
        let function = alone.function;
        let Sent::Alone(EncodedArguments { body, handles }) = &alone.sent else {
            return Ok(alone);
        };
        if most < 2 || function.is_async() || !handles.is_empty() || body.len() >= BATCH_BYTES_MAX {
            return Ok(alone);
        }
        let Some(second) = calls.next() else {
            return Ok(alone);
        };
        let refused = |error| refused(runtime, function, error);
        let mut together = Calls {
            function: function.id().0,
            map: map.0,
            stops,
            ends: Vec::new(),
            bytes: Vec::new(),
        };
        together.add(body);
        let mut next = Some(second);
        while let Some(call) = next {
            let encoded = call.request.encode().map_err(refused)?;
            if !encoded.handles.is_empty() {
                let text = "only some of the calls of a batch take references (help: `.batch(1)`)";
                let failure = Failure::from_error(text.to_owned());
                return Err(refused(RemoteError::Arguments(failure.into_report())));
            }
            together.add(&encoded.body);
            let has_room = together.ends.len() < most && together.bytes.len() < BATCH_BYTES_MAX;
            next = if has_room { calls.next() } else { None };
        }
        let count = together.ends.len();
        let call = RemoteCall::<Values>::new(&RUN, (Argument::Value(together),));
        let sent = Sent::Together(call.request.encode().map_err(refused)?, count);
        Ok(CallBatch {
            function,
            sent,
            stops,
            value: PhantomData,
        })
    }

    /// Whether the arguments hold references.
    pub fn has_references(&self) -> bool {
        let (Sent::Alone(encoded) | Sent::Together(encoded, _)) = &self.sent;
        !encoded.handles.is_empty()
    }

    /// Whether this is one call, which does not wait for others of its map.
    pub fn is_alone(&self) -> bool {
        matches!(self.sent, Sent::Alone(_))
    }

    /// The number of calls.
    pub fn count(&self) -> usize {
        match &self.sent {
            Sent::Alone(_) => 1,
            Sent::Together(_, count) => *count,
        }
    }

    /// Makes the calls in a process.
    pub fn call(&self, runtime: &Runtime, process: ProcessId) -> BatchCall<T> {
        let (entry, encoded, is_alone) = match &self.sent {
            Sent::Alone(encoded) => (self.function, encoded, true),
            Sent::Together(encoded, _) => (RUN.entry(), encoded, false),
        };
        let remote = runtime.remote();
        let asking = match runtime.is_open() {
            true => remote.ask_encoded(process, entry, encoded.clone()),
            false => Asking::failed(process, RemoteError::Shutdown),
        };
        let callee = remote.callee(self.function, process);
        BatchCall {
            call: Call::new(asking.answer, asking.cancel, callee, const { &Traits::LETTER }),
            function: self.function,
            is_alone,
            count: self.count(),
            stops: self.stops,
            value: PhantomData,
        }
    }
}

fn refused(runtime: &Runtime, function: &'static FunctionEntry, error: RemoteError) -> CallError {
    let remote = runtime.remote();
    remote.callee(function, remote.me()).error(error)
}

impl Calls {
    fn add(&mut self, arguments: &Body) {
        let segments = arguments.segments();
        segments.for_each(|segment| self.bytes.extend_from_slice(segment));
        self.ends.push(self.bytes.len() as u64);
    }
}

impl<T: Wire> BatchCall<T> {
    /// Waits at most `timeout` until one of the batches has ended. Returns its place; `None` if the time is over first.
    ///
    /// # Errors
    /// [`CallError::Remote`]: the function that waits must not wait, or its call was cancelled.
    pub fn wait_any(batches: &[Self], timeout: Duration) -> Result<Option<usize>, CallError> {
        Call::wait_any_of(batches.iter().map(|batch| &batch.call), timeout)
    }

    /// The outcomes, in the order of the calls. After an error that stops the batch, the rest is missing.
    ///
    /// # Errors
    /// [`CallError`] for the batch as a whole: its process has died, for example.
    pub fn outcomes(
        self,
        runtime: &Runtime,
        process: ProcessId,
    ) -> Result<Vec<Result<T, CallError>>, CallError> {
        if self.is_alone {
            return match self
                .call
                .of_type::<T>(const { &Traits::LETTER })
                .wait_timeout(CALL_TIMEOUT)
            {
                Err(error) if is_of_process(&error) => Err(error),
                outcome => Ok(vec![outcome]),
            };
        }
        let callee = runtime.remote().callee(self.function, process);
        let values = self.call.wait()?;
        let failed = |failure| callee.error(RemoteError::Failed(failure));
        let outcomes = values.outcomes().map_err(failed)?;
        let is_stopped = outcomes.len() < self.count && outcomes.last().is_some_and(Result::is_err);
        if outcomes.len() != self.count && !(self.stops && is_stopped) {
            let text = format!("{} values of a batch of {}", outcomes.len(), self.count);
            return Err(failed(Failure::Internal(text)));
        }
        let decoded = outcomes.into_iter().map(|outcome| match outcome {
            Ok(body) => decoded(&body).map_err(failed),
            Err(fault) => Err(callee.fault(fault.into())),
        });
        Ok(decoded.collect())
    }
}

fn decoded<T: Payload + Wire>(body: &Body) -> Result<T, Failure> {
    // User code runs here: `Deserialize`.
    Failure::catch(|| body.decoded(const { &Traits::LETTER }))
}

/// Whether a call failed by its process, and not by the function.
fn is_of_process(error: &CallError) -> bool {
    !matches!(
        error.remote(),
        Some(RemoteError::Failed(_) | RemoteError::Arguments(_) | RemoteError::UnknownFunction { .. })
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_lie_outside_of_a_batch_are_refused() {
        assert_eq!(ranges(&[2, 2, 5], 5).unwrap(), [0..2, 2..2, 2..5]);
        assert_eq!(
            ranges(&[2, 2], 5).unwrap(),
            [0..2, 2..2],
            "bytes that nobody names"
        );
        for ends in [&[6][..], &[3, 2], &[u64::MAX], &[5, 6]] {
            assert!(ranges(ends, 5).is_err(), "{ends:?}");
        }
    }

    #[test]
    fn a_batch_of_a_function_that_this_program_lacks_is_an_error() {
        let calls = Calls {
            function: 7,
            map: 0,
            stops: false,
            ends: vec![0],
            bytes: Vec::new(),
        };
        assert!(calls.run().is_err());
    }

    #[test]
    fn outcomes_keep_their_order_and_faults_their_places() {
        let mut values = Values::default();
        values.add(Ok("one".into()));
        values.add(Err(internal("no value")));
        values.add(Ok(Body::EMPTY));
        let outcomes = values.outcomes().unwrap();
        assert_eq!(outcomes[0], Ok("one".into()));
        assert_eq!(outcomes[1], Err(internal("no value")));
        assert_eq!(outcomes[2], Ok(Body::EMPTY));
    }
}
