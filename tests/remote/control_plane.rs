//! The state of a runtime, which every process can ask for and follow.

use selvedge::prelude::*;
use selvedge::{FunctionInfo, RemoteChannel, ServiceTraffic};

#[remote]
fn listed() -> Result<Vec<(u64, String, String)>> {
    Ok(Runtime::current()?.functions().iter().map(named).collect())
}

#[remote(pure, retries = 3)]
fn never_called(x: u64) -> u64 {
    x
}

fn named(function: &FunctionInfo) -> (u64, String, String) {
    (
        function.id,
        function.path.to_owned(),
        function.signature.to_owned(),
    )
}

#[test]
fn rfn_02_rfn_03_every_process_has_the_table_of_all_functions_from_its_beginning() {
    let runtime = Runtime::new();
    let here: Vec<_> = runtime.functions().iter().map(named).collect();
    let unused = here
        .iter()
        .find(|(_, path, _)| path.ends_with("control_plane::never_called"));
    assert!(unused.is_some(), "{here:?}");
    let mut numbers: Vec<_> = here.iter().map(|(number, ..)| *number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), here.len(), "each has a number of its own");
    let worker = runtime.worker("a").unwrap();
    assert_eq!(runtime.call(listed::remote().on(&worker)).wait().unwrap(), here);
}

/// Says that it begins, and waits until the value is there.
#[remote]
fn follows(value: Ref<u64>, begun: RemoteChannel<()>) -> Result<u64> {
    // An interruption may come before the answer to this put.
    let _ = begun.put(());
    value.ready()?;
    Ok(*value.fetch()?)
}

#[remote]
fn nothing() {}

fn fetches(runtime: &Runtime) -> ServiceTraffic {
    let traffic = runtime.traffic();
    let fetches = traffic.iter().find(|entry| entry.service == "fetches");
    fetches.map_or_else(ServiceTraffic::default, |entry| entry.counts)
}

#[test]
fn rfn_01_state_that_is_awaited_is_asked_for_once_and_told_once() {
    let runtime = Runtime::new();
    let worker = runtime.worker("a").unwrap();
    let (value, begun) = (runtime.unset::<u64>(), runtime.channel::<()>(1).unwrap());
    let following = runtime.call(follows::remote(&value, &begun).on(&worker));
    begun.take().unwrap();
    while fetches(&runtime).frames_received == 0 {
        std::thread::yield_now();
    }
    // As long as these take, nobody asks again.
    for _ in 0..1000 {
        runtime.call(nothing::remote().on(&worker)).wait().unwrap();
    }
    let counts = fetches(&runtime);
    assert_eq!((counts.frames_received, counts.frames_sent), (1, 0));
    value.set(7).unwrap();
    assert_eq!(following.wait().unwrap(), 7);
    let counts = fetches(&runtime);
    assert!(
        counts.frames_received <= 2 && counts.frames_sent <= 2,
        "{counts:?}"
    );
}
