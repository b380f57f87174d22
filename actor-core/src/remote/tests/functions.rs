//! Remote functions of the tests, written as `#[remote]` expands them.
#![allow(unsafe_code)] // what the linker lists lies in a section of its own

use std::fmt;
use std::time::{Duration, Instant};

use linkme::distributed_slice;
use selvedge_channels::Traits;
use serde::{Deserialize, Serialize};

use super::network::{Network, TOLD};
use crate::actor::error_probe::{ErrorProbe, TypedError};
use crate::cancel::cancellation;
use crate::error_codec::ErrorCodec;
use crate::failure::Failure;
use crate::remote::argument::Argument;
use crate::remote::function::{
    Begun, FUNCTIONS, FunctionEntry, InitEntry, RemoteBody, TypedEntry, WORKER_INITS,
};
use crate::remote::remote_call::RemoteCall;
use crate::runtime::Runtime;

/// Declares a function; `done` gives its result, or `future` its future.
macro_rules! function {
    ($name:ident, $entry:ident, ($($argument:ident: $ty:ty),*) -> $output:ty, $is_async:literal, $error:expr, $started:expr) => {
        #[allow(non_camel_case_types)]
        pub(super) struct $name {}

        pub(super) static $entry: TypedEntry<($($ty,)*), ($(Argument<$ty>,)*)> =
            TypedEntry::of::<$name>(concat!(module_path!(), "::", stringify!($name)), stringify!(($($ty),*) -> $output), "here", $error);

        impl $name {
            pub(super) fn remote($($argument: $ty),*) -> RemoteCall<$output> {
                RemoteCall::new(&$entry, ($(Argument::Value($argument),)*))
            }
        }

        impl RemoteBody for $name {
            type Arguments = ($($ty,)*);
            type Output = $output;
            const IS_ASYNC: bool = $is_async;

            fn traits() -> &'static Traits<$output> {
                const { &Traits::LETTER }
            }

            fn start(($($argument,)*): Self::Arguments) -> Begun<$output> {
                $started
            }
        }
    };
}

/// Declares a function and registers it.
macro_rules! registered {
    ($name:ident, $entry:ident, $registered:ident, $($rest:tt)*) => {
        function!($name, $entry, $($rest)*);

        #[distributed_slice(FUNCTIONS)]
        static $registered: &'static FunctionEntry = $entry.entry();
    };
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct OddNumber(pub(super) u32);

impl fmt::Display for OddNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is odd", self.0)
    }
}

impl std::error::Error for OddNumber {}

fn codec() -> Option<&'static ErrorCodec> {
    ErrorProbe::of(&OddNumber(0)).codec()
}

fn halved(x: u32) -> Result<u32, Failure> {
    match x % 2 {
        0 => Ok(x / 2),
        _ => Err(ErrorProbe::of(&OddNumber(x)).failure(OddNumber(x))),
    }
}

pub(super) fn tell(mark: u64) {
    TOLD.get_or_init(Default::default).lock().push(mark);
}

/// Tells the first mark, and the second one once its call is cancelled.
fn until_cancelled(begun: u64, ended: u64) -> bool {
    tell(begun);
    let late = Instant::now() + Duration::from_secs(60);
    while !cancellation().is_cancelled() && Instant::now() < late {
        std::thread::yield_now();
    }
    tell(ended);
    true
}

/// Tells its mark when it is dropped.
struct Telling(u64);

impl Drop for Telling {
    fn drop(&mut self) {
        tell(self.0);
    }
}

/// Tells, when it is dropped, how many letters were sent by then. Copies tell nothing.
#[derive(Serialize, Deserialize)]
pub(super) struct Observed {
    #[serde(skip)]
    pub(super) original: Option<(Network, u64)>,
}

impl Clone for Observed {
    fn clone(&self) -> Self {
        Observed { original: None }
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        if let Some((network, mark)) = &self.original {
            tell(mark + network.sent().len() as u64);
        }
    }
}

/// The process whose runtime runs this.
fn here() -> u32 {
    Runtime::current().map_or(0, |runtime| runtime.remote().me().number())
}

registered!(half, HALF, HALF_REGISTERED, (x: u32) -> u32, false, codec, Begun::Done(halved(x)));
registered!(half_later, HALF_LATER, HALF_LATER_REGISTERED, (x: u32) -> u32, true, codec, Begun::Future(Box::pin(async move {
    tokio::time::sleep(Duration::from_millis(1)).await;
    halved(x)
})));
registered!(whereabouts, WHEREABOUTS, WHEREABOUTS_REGISTERED, () -> u32, false, || None, Begun::Done(Ok(here())));
registered!(panicking, PANICKING, PANICKING_REGISTERED, (text: String) -> (), false, || None, std::panic::panic_any(text));
registered!(blocking, BLOCKING, BLOCKING_REGISTERED, (begun: u64, ended: u64) -> bool, false, || None,
    Begun::Done(Ok(until_cancelled(begun, ended))));
registered!(pending, PENDING, PENDING_REGISTERED, (begun: u64, ended: u64) -> (), true, || None, Begun::Future(Box::pin(async move {
    tell(begun);
    let _telling = Telling(ended);
    std::future::pending().await
})));
registered!(telling, TELLING, TELLING_REGISTERED, (mark: u64) -> (), false, || None, Begun::Done({ tell(mark); Ok(()) }));
registered!(bytes, BYTES, BYTES_REGISTERED, (length: usize, sent: Vec<u8>) -> Vec<u8>, false, || None, Begun::Done({
    drop(sent);
    Ok(vec![7; length])
}));
registered!(through, THROUGH, THROUGH_REGISTERED, (first: u32, second: u32) -> u32, false, || None, Begun::Done(
    Runtime::current().map_err(Failure::from_error).and_then(|runtime| {
        let call = half::remote(first).on_process(super::network::id(second));
        runtime.call(call).wait().map_err(Failure::from_error)
    })
));
registered!(prepared, PREPARED, PREPARED_REGISTERED, () -> usize, false, || None, Begun::Done(Ok(
    TOLD.get_or_init(Default::default).lock().iter().filter(|mark| **mark == PREPARED_MARK).count()
)));
registered!(watching, WATCHING, WATCHING_REGISTERED, (watched: Observed) -> (), false, || None, Begun::Done({
    drop(watched);
    Ok(())
}));
// Not in the list of functions.
function!(halv, HALV, (x: u32) -> u32, false, || None, Begun::Done(halved(x)));

/// What the initialisation of a process tells.
const PREPARED_MARK: u64 = 7_000;

#[distributed_slice(WORKER_INITS)]
static PREPARE: InitEntry = InitEntry {
    path: "prepare",
    run: || {
        tell(PREPARED_MARK);
        Ok(())
    },
};
