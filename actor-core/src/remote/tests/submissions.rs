//! Calls that another process submits.

use std::thread;
use std::time::{Duration, Instant};

use super::functions::TELLING;
use super::network::{Network, TOLD, TestProcess};
use crate::reference::Ref;
use crate::remote::argument::Argument;
use crate::remote::remote_call::RemoteCall;

#[track_caller]
fn wait_until(is_so: impl Fn() -> bool) {
    let late = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < late, "it does not happen");
        thread::yield_now();
    }
}

/// The letter of the submission waits for the owner of an argument, and the reference to the value is dropped meanwhile.
#[test]
fn a_call_whose_value_was_freed_before_the_call_was_known_leaves_nothing() {
    let (network, processes) = Network::of(3);
    let [head, submitter, owner] = &processes[..] else {
        panic!()
    };
    let unset = submitter.runtime.remote().references.unset(owner.peer).unwrap();
    let unset = Ref::<u64>::of(unset);
    unset.set(8300).unwrap();
    network.hold(3);
    let call: RemoteCall<()> = RemoteCall::new(&TELLING, (Argument::Reference(unset.clone()),));
    let value = submitter.runtime.submit(call);
    wait_until(|| head.runtime.references().owned == 1);
    drop(value);
    // Nothing is due by itself in this network.
    let tick = || {
        let of = |process: &TestProcess| process.runtime.remote().references.tick();
        processes.iter().for_each(of);
    };
    wait_until(|| {
        tick();
        head.runtime.references().owned == 0
    });
    assert!(head.runtime.calls().is_empty());
    network.release(3);
    wait_until(|| {
        tick();
        TOLD.get().is_some_and(|told| told.lock().contains(&8300))
    });
    wait_until(|| head.runtime.calls().is_empty());
}
