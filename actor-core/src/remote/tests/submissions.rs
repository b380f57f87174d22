//! Calls that another process submits.

use std::sync::Arc;

use super::functions::{HALF, TELLING, half};
use super::network::{Network, TOLD, TestProcess, id};
use crate::reference::Ref;
use crate::reference::references::Object;
use crate::remote::argument::Argument;
use crate::remote::message::CallMessage;
use crate::remote::remote_call::RemoteCall;
use crate::testing::wait_until;

/// A reference of `holder` to a value of process `owner`, which dies.
fn lost_reference(network: &Network, holder: &TestProcess, owner: u32) -> Ref<u64> {
    let remote = holder.runtime.remote();
    let lost = Ref::<u64>::of(remote.unset(id(owner)));
    network.kill(owner);
    wait_until("its owner is dead", || {
        remote.references.check(lost.id()).is_err()
    });
    lost
}

/// Nothing is left at a process of a call that it could not send: the call was named already, and its owner never hears of it.
fn leaves_nothing(processes: &[TestProcess], caller: u32) {
    let of = |process: &TestProcess| Arc::clone(&process.runtime.remote().references);
    let all: Vec<_> = processes.iter().map(of).collect();
    let references = &all[caller as usize - 1];
    assert_eq!(references.stats().pending, 0, "{references:?}");
    // Nothing is due by itself in this network.
    wait_until("nothing is left", || {
        all.iter().for_each(|references| references.tick());
        let stats = references.stats();
        stats.questions + stats.children + stats.waiting == 0
    });
}

#[test]
fn a_call_for_a_kept_value_that_is_not_sent_for_a_lost_reference_leaves_nothing() {
    let (network, processes) = Network::of(3);
    let caller = &processes[0];
    let lost = lost_reference(&network, caller, 3);
    let call: RemoteCall<()> = RemoteCall::new(&TELLING, (Argument::Reference(lost),));
    let kept = caller.runtime.keep(call.on_process(id(2)));
    leaves_nothing(&processes, 1);
    let error = kept.fetch().unwrap_err().to_string();
    assert!(error.contains("lost"), "{error}");
}

#[test]
fn a_submission_that_is_not_sent_for_a_lost_reference_leaves_nothing() {
    let (network, processes) = Network::of(3);
    let submitter = &processes[1];
    let lost = lost_reference(&network, submitter, 3);
    let call: RemoteCall<()> = RemoteCall::new(&TELLING, (Argument::Reference(lost),));
    let value = submitter.runtime.submit(call);
    leaves_nothing(&processes, 2);
    let error = value.fetch().unwrap_err().to_string();
    assert!(error.contains("lost"), "{error}");
}

/// The letter of the submission waits for the owner of an argument, and its sender dies. It has given the value away before.
#[test]
fn a_value_whose_call_waits_when_its_submitter_dies_is_a_failure() {
    let (network, processes) = Network::of(3);
    let [head, submitter, owner] = &processes[..] else {
        panic!()
    };
    let unset = submitter.runtime.remote().references.unset(owner.peer).unwrap();
    let unset = Ref::<u64>::of(unset);
    network.hold(3);
    let call: RemoteCall<()> = RemoteCall::new(&TELLING, (Argument::Reference(unset.clone()),));
    let value = submitter.runtime.submit(call);
    wait_until("it has an entry", || head.runtime.references().owned == 1);
    let references = &head.runtime.remote().references;
    let (held, _) = references.hold_again(value.id());
    assert!(matches!(references.object(held.id()), Object::Empty));
    network.kill(2);
    wait_until("it is filled", || {
        matches!(references.object(held.id()), Object::Content(Err(_)))
    });
    let error = Ref::<()>::of(held).fetch().unwrap_err().to_string();
    assert!(error.contains("has died before its call began"), "{error}");
    assert!(head.runtime.calls().is_empty());
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
    wait_until("it has an entry", || head.runtime.references().owned == 1);
    drop(value);
    // Nothing is due by itself in this network.
    let tick = || {
        let of = |process: &TestProcess| process.runtime.remote().references.tick();
        processes.iter().for_each(of);
    };
    wait_until("its entry goes", || {
        tick();
        head.runtime.references().owned == 0
    });
    assert!(head.runtime.calls().is_empty());
    network.release(3);
    wait_until("it is told", || {
        tick();
        TOLD.get().is_some_and(|told| told.lock().contains(&8300))
    });
    wait_until("no call is left", || head.runtime.calls().is_empty());
}

#[test]
fn a_call_that_is_kept_only_for_a_call_that_reads_it_is_neither_listed_nor_counted_as_left_out() {
    let (_network, processes) = Network::of(1);
    let runtime = &processes[0].runtime;
    let read = runtime.submit(half::remote(8).retries(1));
    let call: RemoteCall<u32> = RemoteCall::new(&HALF, (Argument::Reference(read.clone()),));
    let value = runtime.submit(call.retries(1));
    assert_eq!(*value.fetch().unwrap(), 2);
    drop(read);
    wait_until("one is released", || runtime.calls().len() == 1);
    let (listed, left) = runtime.remote().tasks().listed(1);
    assert_eq!((listed[0].value, left), (value.id(), 0));
}

/// A call that was submitted when there was no worker is encoded when it starts at one, and is cancelled as its letter is sent.
#[test]
fn the_cancellation_of_a_call_that_is_encoded_late_does_not_overtake_it() {
    let (network, processes) = Network::of(1);
    let head = &processes[0];
    let unset: Ref<u64> = head.runtime.unset();
    let call: RemoteCall<()> = RemoteCall::new(&TELLING, (Argument::Reference(unset.clone()),));
    let value = head.runtime.submit(call);
    let worker = network.join(2);
    network.hold(2);
    head.runtime.remote().receiver().joined(worker.peer);
    let (runtime, of_value) = (head.runtime.clone(), value.clone());
    network.before_call(2, move || runtime.cancel(&of_value));
    unset.set(8301).unwrap();
    wait_until("two letters", || network.held_calls(2).len() == 2);
    let held = network.held_calls(2);
    let [
        CallMessage::Call { call, .. },
        CallMessage::Interrupt { call: ended },
    ] = &held[..]
    else {
        panic!("{held:?}")
    };
    assert_eq!(call, ended);
    let error = value.fetch().unwrap_err().to_string();
    assert!(error.contains("cancelled"), "{error}");
}
