//! Named references, between processes in memory. Process 1 is the head.

use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use selvedge_cluster::frame::Class;
use selvedge_objects::names::{NameChange, NamedObject};
use selvedge_objects::refs::RefError;

use super::functions::{blocking, half};
use super::network::{Network, TestProcess, id, wait_until_told};
use crate::current::as_async;
use crate::hub::post::Letter;
use crate::naming::message::NAMES;
use crate::naming::{NameError, NameInfo};
use crate::reference::Ref;
use crate::runtime::Runtime;
use crate::testing::wait_until;

/// Has process `by` keep a value in process `at`.
fn kept(processes: &[TestProcess], by: usize, at: u32) -> Ref<u32> {
    let kept = processes[by - 1].runtime.keep(half::remote(8).on_process(id(at)));
    assert_eq!(*kept.fetch().unwrap(), 4);
    kept
}

/// The number of objects of a process. Time passes for all of them, so what waits for a frame goes out.
fn owned(processes: &[TestProcess], number: u32) -> usize {
    let remotes = processes.iter().map(|process| process.runtime.remote());
    remotes.for_each(|remote| remote.references.tick());
    processes[number as usize - 1].runtime.references().owned
}

/// Waits until these processes hold no object for a name, and have no open question and no object.
fn until_nothing_is_left(processes: &[TestProcess], numbers: impl IntoIterator<Item = u32>) {
    for number in numbers {
        wait_until("nothing is left", || {
            let figures = processes[number as usize - 1].runtime.remote().naming().figures();
            figures == (0, 0) && owned(processes, number) == 0
        });
    }
}

fn held(process: &TestProcess) -> usize {
    process.runtime.remote().naming().figures().0
}

fn names(process: &TestProcess) -> Vec<String> {
    let names = process.runtime.names().unwrap();
    names.into_iter().map(|info| info.name).collect()
}

#[test]
fn rft_08_a_named_reference_outlives_its_namer_and_every_process_finds_it() {
    let (network, processes) = Network::of(4);
    let value = kept(&processes, 2, 3);
    let by = processes[1].runtime.process();
    processes[1].runtime.name("four", &value).unwrap();
    drop(value);
    network.kill(2);
    for process in [&processes[0], &processes[2], &processes[3]] {
        let found = process.runtime.named::<u32>("four").unwrap();
        assert_eq!(*found.fetch().unwrap(), 4);
        let [
            NameInfo {
                name,
                type_name,
                id: it,
                owner,
                namer,
            },
        ] = &process.runtime.names().unwrap()[..]
        else {
            panic!("one name")
        };
        assert_eq!(
            (name.as_str(), type_name.as_str(), *it),
            ("four", "u32", found.id())
        );
        assert_eq!((owner.process(), namer.process()), (id(3), by));
    }
    let left = processes[3].runtime.named::<u32>("four").unwrap();
    processes[3].runtime.unname("four").unwrap();
    wait_until("the hold ends", || held(&processes[2]) == 0);
    assert_eq!(
        *left.fetch().unwrap(),
        4,
        "a reference that was found is one like others"
    );
    assert_eq!(owned(&processes, 3), 1);
    drop(left);
    until_nothing_is_left(&processes, [1, 3, 4]);
}

#[test]
fn a_name_that_is_not_there_is_of_another_type_or_is_none_says_so() {
    let (_network, processes) = Network::of(3);
    let value = kept(&processes, 2, 3);
    let runtime = &processes[1].runtime;
    runtime.name("weights", &value).unwrap();
    let text = runtime.named::<u64>("weights").unwrap_err().to_string();
    assert_eq!(text, "`weights` is a `Ref<u32>`, and no `Ref<u64>`");
    let error = runtime.named::<u32>("weigths").unwrap_err();
    assert!(
        matches!(&error, NameError::Unknown { near, .. } if near == &["weights"]),
        "{error}"
    );
    let text = error.to_string();
    assert_eq!(
        text,
        "no reference has the name `weigths`; similar names: `weights`"
    );
    let error = processes[0]
        .runtime
        .name("weights", &value_of(&processes[0]))
        .unwrap_err();
    assert!(
        matches!(&error, NameError::Taken { by, .. } if by.process() == id(2)),
        "{error}"
    );
    assert!(matches!(runtime.name("", &value), Err(NameError::Empty)));
    let long = "x".repeat(256);
    let error = runtime.name(&long, &value).unwrap_err();
    assert!(
        matches!(
            error,
            NameError::TooLong {
                bytes: 256,
                limit: 255
            }
        ),
        "{error}"
    );
    assert!(matches!(runtime.unname(&long), Err(NameError::Unknown { .. })));
    let error = as_async(|| runtime.named::<u32>("weights")).unwrap_err();
    assert!(matches!(error, NameError::WouldBlock), "{error}");
    runtime.unname("weights").unwrap();
    assert!(matches!(
        runtime.unname("weights"),
        Err(NameError::Unknown { .. })
    ));
    drop(value);
    until_nothing_is_left(&processes, 1..=3);
}

/// A value of this process.
fn value_of(process: &TestProcess) -> Ref<u32> {
    process.runtime.put(7).unwrap()
}

#[test]
fn a_reference_of_another_runtime_and_one_after_the_shutdown_have_no_name() {
    let (runtime, other) = (Runtime::new(), Runtime::new());
    let value = runtime.put(7_u32).unwrap();
    let error = other.name("seven", &value).unwrap_err();
    assert!(
        matches!(error, NameError::Reference(RefError::Foreign(_))),
        "{error}"
    );
    runtime.name("seven", &value).unwrap();
    assert!(other.names().unwrap().is_empty());
    drop(value);
    assert_eq!(*runtime.named::<u32>("seven").unwrap().fetch().unwrap(), 7);
    let _ = runtime.shutdown(Duration::from_secs(10));
    assert!(matches!(runtime.names(), Err(NameError::Shutdown)));
}

#[test]
fn of_two_processes_that_give_a_name_at_once_one_wins_and_the_other_is_told_by_whom_it_is_taken() {
    let (_network, processes) = Network::of(4);
    let values = [kept(&processes, 2, 4), kept(&processes, 3, 4)];
    for _ in 0..50 {
        let barrier = Barrier::new(2);
        let name = |number: usize| {
            barrier.wait();
            processes[number - 1].runtime.name("one", &values[number - 2])
        };
        let results = thread::scope(|scope| {
            [2, 3]
                .map(|number| scope.spawn(move || name(number)))
                .map(|it| it.join().unwrap())
        });
        let (winner, loser) = match &results {
            [Ok(()), Err(error)] => (2, error),
            [Err(error), Ok(())] => (3, error),
            other => panic!("{other:?}"),
        };
        assert!(
            matches!(loser, NameError::Taken { by, .. } if by.process() == id(winner)),
            "{loser}"
        );
        let found = processes[0].runtime.named::<u32>("one").unwrap();
        assert_eq!(found.id(), values[winner as usize - 2].id());
        processes[3].runtime.unname("one").unwrap();
    }
    drop(values);
    until_nothing_is_left(&processes, 1..=4);
}

#[test]
fn the_death_of_the_owner_takes_its_names_away_and_tells_those_that_wait() {
    let (network, processes) = Network::of(5);
    let [first, second] = [kept(&processes, 2, 3), kept(&processes, 2, 4)];
    let runtime = &processes[1].runtime;
    runtime.name("first", &first).unwrap();
    network.kill(3);
    wait_until("the head has heard", || names(&processes[0]).is_empty());
    for process in [&processes[0], &processes[1], &processes[4]] {
        let error = process.runtime.named::<u32>("first").unwrap_err();
        assert!(
            matches!(&error, NameError::OwnerDead { owner, .. } if owner.process() == id(3)),
            "{error}"
        );
    }
    let error = runtime.name("first", &first).unwrap_err();
    assert!(matches!(&error, NameError::OwnerDead { .. }), "{error}");
    runtime.name("first", &second).unwrap();

    // One waits for the owner to hold a value, and one for the value that has a name.
    network.hold_after(4, NAMES, 0);

    thread::scope(|scope| {
        let naming = scope.spawn(|| processes[1].runtime.name("second", &second));
        let finding = scope.spawn(|| processes[4].runtime.named::<u32>("first"));
        network.wait_until_held(1, 4, 1);
        network.wait_until_held(5, 4, 1);
        network.kill(4);
        for error in [
            naming.join().unwrap().unwrap_err(),
            finding.join().unwrap().unwrap_err(),
        ] {
            assert!(
                matches!(&error, NameError::OwnerDead { owner, .. } if owner.process() == id(4)),
                "{error}"
            );
        }
    });
    wait_until("the head has heard", || names(&processes[0]).is_empty());
}

#[test]
fn a_namer_that_dies_leaves_a_name_with_its_hold_or_neither() {
    let (network, processes) = Network::of(4);
    // Before the head has heard: neither.
    let value = kept(&processes, 2, 4);
    network.hold(1);
    thread::scope(|scope| {
        scope.spawn(|| processes[1].runtime.name("lost", &value));
        network.wait_until_held(2, 1, 1);
        network.kill(2);
        processes[1].runtime.remote().naming().stop();
    });
    network.release(1);
    wait_until("the value goes with the namer", || owned(&processes, 4) == 0);
    assert_eq!((names(&processes[0]).len(), held(&processes[3])), (0, 0));

    // Before the owner has heard: neither, unless the owner has heard of the head's reference. Then both.
    let mut network_of = [Network::of(4), Network::of(4)];
    for (is_listed, (network, processes)) in [false, true].into_iter().zip(&mut network_of) {
        let value = kept(processes, 3, 4);
        // The question of the head about its reference, and that about the name, or the latter alone.
        match is_listed {
            true => network.hold_after(4, NAMES, 0),
            false => network.hold(4),
        }
        thread::scope(|scope| {
            scope.spawn(|| processes[2].runtime.name("found", &value));
            let letters = if is_listed { 1 } else { 2 };
            wait_until("the questions of the head are held", || {
                // The one about the reference may be due a little later.
                owned(processes, 4);
                network.held(1, 4) >= letters
            });
            assert!(names(&processes[0]).is_empty(), "not before the owner holds it");
            if is_listed {
                let head = processes[0].peer;
                wait_until("the head is listed", || {
                    owned(processes, 4);
                    let (listed, _) = processes[3].runtime.remote().references.listed(1);
                    listed[0].holders.contains(&head)
                });
            }
            network.kill(3);
            processes[2].runtime.remote().naming().stop();
        });
        if !is_listed {
            wait_until("the value goes with the namer", || owned(processes, 4) == 0);
        }
        network.release(4);
        if is_listed {
            wait_until("the name is there", || names(&processes[0]) == ["found"]);
            let found = processes[0].runtime.named::<u32>("found").unwrap();
            assert_eq!(*found.fetch().unwrap(), 4);
            processes[0].runtime.unname("found").unwrap();
        }
        drop(value);
        until_nothing_is_left(processes, [1, 4]);
        assert!(names(&processes[0]).is_empty());
    }
}

#[test]
fn the_death_of_the_head_is_told_to_those_that_wait_and_owners_hold_on() {
    let (network, processes) = Network::of(3);
    let value = kept(&processes, 2, 3);
    processes[1].runtime.name("four", &value).unwrap();
    network.hold(1);
    thread::scope(|scope| {
        let finding = scope.spawn(|| processes[1].runtime.named::<u32>("four"));
        network.wait_until_held(2, 1, 1);
        network.kill(1);
        assert!(matches!(finding.join().unwrap(), Err(NameError::NoHead)));
    });
    assert!(matches!(processes[1].runtime.names(), Err(NameError::NoHead)));
    assert!(matches!(
        processes[2].runtime.unname("four"),
        Err(NameError::NoHead)
    ));
    drop(value);
    assert_eq!((held(&processes[2]), owned(&processes, 3)), (1, 1));
}

#[test]
fn rft_07_a_head_that_goes_on_has_the_recorded_names_and_owners_let_the_others_go() {
    let (_network, processes) = Network::of(3);
    let values = [kept(&processes, 2, 3), kept(&processes, 2, 3)];
    for (name, value) in ["recorded", "unrecorded"].iter().zip(&values) {
        processes[1].runtime.name(name, value).unwrap();
    }
    drop(values);
    let naming = processes[0].runtime.remote().naming();
    let is_recorded = |object: &NamedObject| object.name == "recorded";
    let recorded = naming.names().into_iter().filter(is_recorded);
    let (changes, log) = channel::<(Vec<NameChange>, Box<dyn FnOnce() + Send>)>();
    let record = move |change, then| changes.send((change, then)).unwrap();
    let logged = Arc::new(Mutex::new(Vec::new()));
    let keeper = Arc::clone(&logged);
    thread::spawn(move || {
        while let Ok((changes, then)) = log.recv() {
            keeper.lock().extend(changes);
            then();
        }
    });
    naming.restore(recorded.map(NameChange::Named), Box::new(record));
    for process in &processes[1..] {
        processes[0].runtime.remote().receiver().joined(process.peer);
    }
    wait_until("the other one goes", || held(&processes[2]) == 1);
    wait_until("its value goes", || owned(&processes, 3) == 1);
    assert_eq!(names(&processes[1]), ["recorded"]);
    assert_eq!(
        *processes[1]
            .runtime
            .named::<u32>("recorded")
            .unwrap()
            .fetch()
            .unwrap(),
        4
    );
    processes[1].runtime.unname("recorded").unwrap();
    let name = "recorded".to_owned();
    assert_eq!(
        *logged.lock(),
        [NameChange::Unnamed { name }],
        "before it was answered"
    );

    until_nothing_is_left(&processes, 1..=3);
}

/// What a head and one that asks it do, in their order.
enum HeadStep {
    Records(Vec<NameChange>, Box<dyn FnOnce() + Send>),
    Told(Vec<String>),
}

#[test]
fn rfn_01_a_list_of_names_is_told_when_the_changes_before_are_in_the_log() {
    let (_network, processes) = Network::of(3);
    let value = kept(&processes, 2, 3);
    processes[1].runtime.name("four", &value).unwrap();
    let naming = processes[0].runtime.remote().naming();
    let (steps, next) = channel();
    let records = steps.clone();
    let record = move |changes, then| records.send(HeadStep::Records(changes, then)).unwrap();
    let names_before = naming.names();
    naming.restore(names_before.into_iter().map(NameChange::Named), Box::new(record));
    thread::scope(|scope| {
        scope.spawn(|| processes[1].runtime.unname("four").unwrap());
        let HeadStep::Records(changes, unnamed) = next.recv().unwrap() else {
            panic!("nobody has asked")
        };
        assert_eq!(changes.len(), 1);
        scope.spawn(|| steps.send(HeadStep::Told(names(&processes[2]))).unwrap());
        let HeadStep::Records(changes, listed) = next.recv().unwrap() else {
            panic!(
                "the name is gone for the one that has asked, and may be there in the next life of the head"
            )
        };
        assert!(changes.is_empty());
        unnamed();
        listed();
        let HeadStep::Told(names) = next.recv().unwrap() else {
            panic!("nothing else is recorded")
        };
        assert!(names.is_empty());
    });
}

#[test]
fn a_process_that_cannot_be_reached_is_named() {
    let (network, processes) = Network::of(3);
    let value = kept(&processes, 2, 3);
    network.limit(1, 0);
    let error = processes[1].runtime.name("four", &value).unwrap_err();
    assert!(
        matches!(&error, NameError::Unreachable { process, .. } if process.process() == id(1)),
        "{error}"
    );
    network.limit(1, 100);
    network.limit(3, 0);
    let error = processes[1].runtime.name("four", &value).unwrap_err();
    assert!(matches!(&error, NameError::Unheld { .. }), "{error}");
    network.limit(3, 100);
    processes[1].runtime.name("four", &value).unwrap();
}

#[test]
fn a_value_that_was_not_made_has_no_name_and_one_that_is_being_made_has() {
    let (_network, processes) = Network::of(3);
    let runtime = &processes[1].runtime;
    let failed = runtime.keep(half::remote(7).on_process(id(3)));
    assert!(failed.fetch().is_err());
    let error = runtime.name("half", &failed).unwrap_err();
    assert!(error.to_string().contains("7 is odd"), "{error}");
    let made = runtime.keep(blocking::remote(1200, 1201).on_process(id(3)));
    wait_until_told(1200);
    runtime.name("made", &made).unwrap();
    assert_eq!(runtime.names().unwrap().len(), 1);
    processes[0].runtime.unname("made").unwrap();
    processes[2].runtime.remote().interrupt();
    wait_until_told(1201);
}

fn letter(head: Vec<u8>, body: Vec<u8>) -> Letter {
    Letter {
        service: NAMES,
        class: Class::Ordered,
        stream: 0,
        head: head.into(),
        body: body.into(),
    }
}

#[test]
fn rser_10_a_process_outlives_any_letters_about_names() {
    let (network, processes) = Network::of(3);
    let value = kept(&processes, 2, 3);
    processes[1].runtime.name("four", &value).unwrap();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let bytes = proptest::collection::vec(0_u8..14, 0..24);
    for number in 0..3_000 {
        let head = bytes.new_tree(&mut runner).unwrap().current();
        let body = bytes.new_tree(&mut runner).unwrap().current();
        network.forge(processes[1].peer, 1 + 2 * (number % 2), letter(head, body));
    }
    assert!(
        network.cut().iter().all(|(_, whom)| *whom == 2),
        "only the sender is cut off"
    );
    assert!(!network.cut().is_empty());
    assert_eq!(
        held(&processes[2]),
        1,
        "what another process holds is not its own to let go"
    );
    let found = processes[0].runtime.named::<u32>("four").unwrap();
    assert_eq!(*found.fetch().unwrap(), 4);
}
