//! The rows of remote calls, between processes in memory.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;

use selvedge_cluster::frame::Service;

use super::functions::{
    Observed, OddNumber, blocking, bytes, half, half_later, halv, panicking, pending, prepared, tell,
    telling, through, watching, whereabouts,
};
use super::network::{BODY_MAX, Network, TOLD, id, wait_until_told};
use crate::call::remote_error::{Ran, RemoteError};
use crate::call::{Call, CallError};
use crate::cancel::{CallCancel, Cancellation, Scope, within};
use crate::current::{Current, NoBlocking, Place, as_async, within_current};
use crate::remote::message::CALLS;
use crate::remote::remote_call::RemoteCall;
use crate::testing::wait_until;

fn reason<T: std::fmt::Debug>(answer: Result<T, CallError>) -> RemoteError {
    match answer.unwrap_err() {
        CallError::Remote { error, .. } => *error,
        other => panic!("{other}"),
    }
}

#[test]
fn jrem_03_a_call_returns_at_once_and_jrem_08_its_wait_tells_the_end() {
    let (_network, processes) = Network::of(2);
    // The function ends only after this thread has gone on.
    let call = processes[0].runtime.call(blocking::remote(30, 31));
    wait_until_told(30);
    drop(call);
    wait_until_told(31);
}

#[test]
fn jrem_05_processes_are_numbered_from_one() {
    let (_network, processes) = Network::of(3);
    for number in 1..=3 {
        let call = whereabouts::remote().on_process(id(number));
        assert_eq!(processes[0].runtime.call(call).wait().unwrap(), number);
    }
}

#[test]
fn jrem_06_workers_are_all_processes_but_the_first() {
    let (_network, processes) = Network::of(3);
    for process in &processes {
        let at = |_| process.runtime.call(whereabouts::remote()).wait().unwrap();
        let mut places: Vec<u32> = (0..4).map(at).collect();
        places.sort_unstable();
        assert_eq!(places, [2, 2, 3, 3], "{}", process.peer);
    }
}

#[test]
fn jrem_07_a_call_is_two_messages_and_leaves_nothing() {
    let (network, processes) = Network::of(2);
    assert_eq!(processes[0].runtime.call(half::remote(8)).wait().unwrap(), 4);
    let between: Vec<_> = network.sent().iter().map(|(from, to, _)| (*from, *to)).collect();
    assert_eq!(between, [(1, 2), (2, 1)]);
    for process in &processes {
        assert_eq!(process.runtime.remote().open_calls(), (0, 0));
    }
    assert_eq!(CALLS, Service(16));
}

#[test]
fn jrem_09_a_cast_is_one_message_and_its_error_stays_there() {
    let (network, processes) = Network::of(2);
    processes[0]
        .runtime
        .cast(panicking::remote("lost".to_owned()))
        .unwrap();
    processes[0].runtime.cast(telling::remote(90)).unwrap();
    wait_until_told(90);
    assert_eq!(network.sent().len(), 2);
    let refused = processes[0]
        .runtime
        .cast(telling::remote(91).on_process(id(9_000_000)));
    assert!(matches!(reason(refused), RemoteError::NoSuchProcess { .. }));
}

#[test]
fn jrem_10_calls_are_delivered_in_order() {
    let (network, processes) = Network::of(2);
    let calls: Vec<_> = (0..50)
        .map(|length| processes[0].runtime.call(bytes::remote(0, vec![0; length])))
        .collect();
    for call in calls {
        call.wait().unwrap();
    }
    let asked: Vec<usize> = network
        .sent()
        .into_iter()
        .filter(|(from, ..)| *from == 1)
        .map(|(.., bytes)| bytes)
        .collect();
    assert!(asked.is_sorted() && asked.len() == 50, "{asked:?}");
}

#[test]
fn jrem_17_an_error_names_process_and_function_and_keeps_its_type() {
    let (_network, processes) = Network::of(3);
    let runtime = &processes[0].runtime;
    for call in [half::remote(7), half_later::remote(7)] {
        let error = runtime.call(call.on_process(id(2))).wait().unwrap_err();
        assert_eq!(error.downcast_ref::<OddNumber>(), Some(&OddNumber(7)));
        let text = error.to_string();
        assert!(
            text.contains("half") && text.contains("on process 2: failed: 7 is odd"),
            "{text}"
        );
    }
    let boom = panicking::remote("boom".to_owned());
    let error = runtime.call(boom.on_process(id(3))).wait().unwrap_err();
    assert!(error.is_panic() && error.to_string().contains("boom"), "{error}");
    // The way of an error through two processes is in its text.
    let error = runtime
        .call(through::remote(9, 3).on_process(id(2)))
        .wait()
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("on process 2") && text.contains("on process 3: failed: 9 is odd"),
        "{text}"
    );
}

#[test]
fn jrem_18_calls_to_a_process_that_dies_fail_with_its_number() {
    let (network, processes) = Network::of(3);
    let runtime = &processes[0].runtime;
    let running = runtime.call(blocking::remote(180, 181).on_process(id(2)));
    wait_until_told(180);
    network.hold(3);
    let held = runtime.call(half::remote(2).on_process(id(3)));
    network.kill(2);
    network.kill(3);
    let error = running.wait().unwrap_err();
    assert!(error.to_string().contains("process 2"), "{error}");
    assert!(matches!(
        reason(Err::<(), _>(error)),
        RemoteError::Died {
            ran: Ran::Unknown,
            ..
        }
    ));
    assert!(matches!(
        reason(held.wait()),
        RemoteError::Died { ran: Ran::Never, .. }
    ));
    for number in [2, 3] {
        let later = runtime.call(half::remote(2).on_process(id(number)));
        assert!(matches!(
            reason(later.wait()),
            RemoteError::Died { ran: Ran::Never, .. }
        ));
    }
    assert_eq!(
        runtime.call(half::remote(2)).wait().unwrap(),
        1,
        "process 1 is the worker again"
    );
    assert_eq!(runtime.remote().open_calls(), (0, 0));
    // The function itself runs on in the process that others hold for dead; end it.
    drop(processes[1].runtime.shutdown(Duration::from_secs(5)));
    wait_until_told(181);
}

#[test]
fn jrem_19_a_call_to_no_process_tells_the_living_ones() {
    let (_network, processes) = Network::of(2);
    let call = processes[0]
        .runtime
        .call(half::remote(2).on_process(id(9_000_000)));
    let RemoteError::NoSuchProcess { living } = reason(call.wait()) else {
        panic!("another error");
    };
    assert_eq!(living, [id(1), id(2)]);
}

#[test]
fn jspawn_02_calls_without_a_place_go_to_the_workers_in_turn() {
    let (_network, processes) = Network::of(4);
    let at = |_| {
        processes[0]
            .runtime
            .call(whereabouts::remote().round_robin())
            .wait()
    };
    let places: Vec<u32> = (0..6).map(|turn| at(turn).unwrap()).collect();
    assert_eq!(places, [2, 3, 4, 2, 3, 4]);
}

#[test]
fn jspawn_01_a_call_names_its_process_from_any_process() {
    let (_network, processes) = Network::of(3);
    for from in &processes {
        for to in &processes {
            let call = whereabouts::remote().on_process(to.peer.process);
            assert_eq!(from.runtime.call(call).wait().unwrap(), to.peer.process.number());
        }
    }
}

#[test]
fn jcode_01_an_unknown_function_is_told_with_similar_names() {
    let (_network, processes) = Network::of(2);
    let error = processes[0].runtime.call(halv::remote(2)).wait().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("::halv` on process 2"), "{text}");
    let RemoteError::UnknownFunction { near } = reason(Err::<(), _>(error)) else {
        panic!("{text}");
    };
    assert!(near[0].ends_with("::half") && near.len() == 5, "{near:?}");
}

#[test]
fn jcode_03_everywhere_runs_in_all_processes_and_collects_the_errors() {
    let (network, processes) = Network::of(3);
    let runtime = &processes[0].runtime;
    assert_eq!(runtime.everywhere(whereabouts::remote()).unwrap(), [1, 2, 3]);
    let failed = runtime.everywhere(half::remote(7)).unwrap_err();
    assert_eq!((failed.calls, failed.errors.len()), (3, 3));
    assert!(failed.to_string().contains("3 of 3 calls failed"));
    network.kill(2);
    assert_eq!(runtime.everywhere(whereabouts::remote()).unwrap(), [1, 3]);
}

#[test]
fn jcode_05_the_local_function_runs_after_all_messages_are_sent() {
    let (network, processes) = Network::of(3);
    let watched = Observed {
        original: Some((network.clone(), 1000)),
    };
    let values = processes[0].runtime.everywhere(watching::remote(watched));
    assert_eq!(values.unwrap().len(), 3);
    // The function of this process drops the argument itself, and the others drop copies.
    assert!((1002..1010).any(|mark| TOLD.get().unwrap().lock().contains(&mark)));
    // A process that runs nothing any more drops the argument at once.
    drop(processes[0].runtime.shutdown(Duration::from_secs(5)));
    let before = network.sent().len() as u64;
    let call = watching::remote(Observed {
        original: Some((network.clone(), 2000)),
    });
    let remote = processes[0].runtime.remote();
    assert_eq!(remote.ask_everywhere(call.request).len(), 3);
    // The others may have answered by then.
    let first = 2000 + before + 2;
    assert!((first..first + 3).any(|mark| TOLD.get().unwrap().lock().contains(&mark)));
}

#[test]
fn jcode_07_each_process_is_prepared_before_its_first_function() {
    let (_network, processes) = Network::of(3);
    let call = |number| {
        processes[0]
            .runtime
            .call(prepared::remote().on_process(id(number)))
    };
    let before = call(2).wait().unwrap();
    assert!(before >= 1);
    let remote = processes[2].runtime.remote();
    assert_eq!(remote.threads(), 0, "nothing is started before the first call");
    assert!(call(3).wait().unwrap() > before, "process 3 was prepared, too");
}

#[test]
fn jloc_01_a_call_to_oneself_sends_nothing_and_runs_on_another_thread() {
    let (network, processes) = Network::of(2);
    let here = whereabouts::remote().on_process(id(2));
    assert_eq!(processes[1].runtime.call(here).wait().unwrap(), 2);
    assert!(network.sent().is_empty());
}

#[test]
fn a_dropped_call_is_cancelled_there() {
    let (network, processes) = Network::of(2);
    let runtime = &processes[0].runtime;
    let calls = [(400, 401), (402, 403)];
    let blocks = runtime.call(blocking::remote(calls[0].0, calls[0].1));
    let awaits = runtime.call(pending::remote(calls[1].0, calls[1].1));
    calls.iter().for_each(|(begun, _)| wait_until_told(*begun));
    drop((blocks, awaits));
    calls.iter().for_each(|(_, ended)| wait_until_told(*ended));
    assert_eq!(runtime.remote().open_calls(), (0, 0));
    assert!(
        network.sent().iter().all(|(from, ..)| *from == 1),
        "nobody answers a cancelled call"
    );
}

#[test]
fn a_cancelled_function_waits_for_no_new_call_and_its_casts_go_on() {
    let (network, processes) = Network::of(3);
    let runtime = &processes[0].runtime;
    network.hold(2);
    let cancel = Arc::new(CallCancel::default());
    cancel.cancel();
    within(&Scope::Of(Cancellation::of_call(cancel)), || {
        let waited = runtime.call(half::remote(8).on_process(id(2))).wait();
        assert!(matches!(reason(waited), RemoteError::Cancelled));
        runtime.cast(telling::remote(420).on_process(id(3))).unwrap();
        runtime.call(telling::remote(421).on_process(id(3))).detach();
    });
    wait_until_told(420);
    wait_until_told(421);
    drop(network);
}

#[test]
fn the_calls_of_a_process_that_dies_are_cancelled() {
    let (network, processes) = Network::of(3);
    let call = processes[2]
        .runtime
        .call(pending::remote(500, 501).on_process(id(2)));
    wait_until_told(500);
    network.kill(3);
    wait_until_told(501);
    let remote = Arc::clone(processes[1].runtime.remote());
    assert_eq!(remote.open_calls(), (0, 0));
    drop(call);
}

#[test]
fn a_deadline_cancels_the_call_there() {
    let (_network, processes) = Network::of(2);
    let limit = Duration::from_millis(5);
    let call = processes[0]
        .runtime
        .call(pending::remote(600, 601).deadline(limit));
    assert!(matches!(reason(call.wait()), RemoteError::Deadline(late) if late == limit));
    assert_eq!(processes[0].runtime.remote().open_calls(), (0, 0));
}

#[test]
fn long_arguments_and_values_are_one_letter_each_up_to_the_limit() {
    let (network, processes) = Network::of(2);
    let runtime = &processes[0].runtime;
    let long = BODY_MAX - 100;
    for (there, back) in [(long, 0), (0, long), (long, long)] {
        let before = network.sent().len();
        let value = runtime.call(bytes::remote(back, vec![1; there])).wait().unwrap();
        assert!(value.len() == back && value.iter().all(|byte| *byte == 7));
        assert_eq!(network.sent().len(), before + 2);
    }
    for (there, back) in [(BODY_MAX, 0), (0, BODY_MAX)] {
        let refused = reason(runtime.call(bytes::remote(back, vec![1; there])).wait());
        let is_told = matches!(refused, RemoteError::TooLarge { limit, .. } if limit == BODY_MAX);
        assert!(is_told, "{refused}");
    }
    assert_eq!(runtime.remote().open_calls(), (0, 0));
}

#[test]
fn a_call_that_does_not_fit_is_refused_and_an_answer_that_does_not_fit_cuts_the_caller_off() {
    let (network, processes) = Network::of(2);
    let runtime = &processes[0].runtime;
    network.limit(2, 0);
    let refused = runtime.call(half::remote(8));
    assert!(matches!(reason(refused.wait()), RemoteError::Backlog { .. }));
    assert_eq!(network.cut(), [], "nothing of it was sent");
    network.limit(2, 1);
    network.limit(1, 0);
    let call = runtime.call(half::remote(8));
    wait_until("it is cut off", || !network.cut().is_empty());
    assert_eq!(network.cut(), [(2, 1)]);
    network.kill(2);
    assert!(matches!(reason(call.wait()), RemoteError::Died { .. }));
}

#[test]
fn the_shutdown_ends_all_threads_and_calls() {
    let (_network, processes) = Network::of(2);
    let call = processes[0].runtime.call(blocking::remote(700, 701));
    wait_until_told(700);
    for process in &processes {
        let report = process.runtime.shutdown(Duration::from_secs(20));
        assert!(report.stuck_lanes.is_empty(), "{report:?}");
        assert_eq!(process.runtime.remote().threads(), 0);
    }
    assert!(matches!(reason(call.wait()), RemoteError::Shutdown));
    assert!(TOLD.get().unwrap().lock().contains(&701));
}

#[test]
fn the_shutdown_cancels_the_functions_that_the_process_itself_has_called() {
    let (_network, processes) = Network::of(1);
    let runtime = &processes[0].runtime;
    // The second one waits if there is one place, and is not run then.
    runtime.cast(blocking::remote(710, 711)).unwrap();
    let kept = runtime.keep(blocking::remote(712, 713));
    wait_until_told(710);
    let report = runtime.shutdown(Duration::from_secs(20));
    assert!(report.stuck_lanes.is_empty(), "{report:?}");
    let told = |mark| TOLD.get().unwrap().lock().contains(&mark);
    assert!(told(711));
    assert_eq!(told(712), told(713));
    drop(kept);
}

#[test]
fn p2_no_waker_is_woken_on_the_thread_that_brings_letters() {
    struct Noting(Mutex<Option<String>>);
    impl Wake for Noting {
        fn wake(self: Arc<Self>) {
            *self.0.lock() = std::thread::current().name().map(str::to_owned);
            tell(810_000);
        }
    }
    let (network, processes) = Network::of(2);
    let noting = Arc::new(Noting(Mutex::new(None)));
    let waker = Waker::from(Arc::clone(&noting));
    let call = processes[0].runtime.call(pending::remote(820, 821));
    let mut answer = std::pin::pin!(call);
    assert!(
        answer
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    wait_until_told(820);
    network.kill(2);
    wait_until_told(810_000);
    assert_eq!(noting.0.lock().as_deref(), Some("selvedge-deadlines"));
    let Poll::Ready(answer) = answer.as_mut().poll(&mut Context::from_waker(&waker)) else {
        panic!("woken without an answer");
    };
    assert!(matches!(
        reason(answer),
        RemoteError::Died {
            ran: Ran::Unknown,
            ..
        }
    ));
    drop(processes[1].runtime.shutdown(Duration::from_secs(5)));
}

#[test]
fn every_wait_ends_when_a_process_dies_under_load() {
    let (network, processes) = Network::of(3);
    let runtime = &processes[0].runtime;
    let to = |number: u32, call: RemoteCall<u32>| runtime.call(call.on_process(id(number)));
    let mut calls: Vec<Call<u32>> = Vec::new();
    // Each process has fewer functions that wait than may wait at a time.
    for x in 0..60 {
        calls.push(to(2, half::remote(x)));
        calls.push(to(2, half_later::remote(x)));
        calls.push(to(2, through::remote(x, 3)));
        calls.push(to(3, through::remote(x, 2)));
        if x == 30 {
            network.kill(2);
        }
    }
    for (position, call) in calls.into_iter().enumerate() {
        let error = match call.wait() {
            Ok(_) => continue,
            Err(error) => error,
        };
        // The function's own error, the death of process 2, or the report of that by process 3. Process 3 may have nothing
        // to do with process 2 until that is gone, and then knows no process of this number.
        let text = error.to_string();
        let expected = [
            "is odd",
            "process 2: the process died",
            "process 2: no process with this number",
        ];
        assert!(
            expected.iter().any(|part| text.contains(part)),
            "call {position}: {text}"
        );
    }
    assert_eq!(runtime.remote().open_calls(), (0, 0));
    assert_eq!(processes[2].runtime.remote().open_calls(), (0, 0));
    drop(processes[1].runtime.shutdown(Duration::from_secs(5)));
}

#[test]
fn a_deadline_of_any_length_is_one() {
    let (_network, processes) = Network::of(1);
    for deadline in [Duration::MAX, Duration::from_secs(u64::from(u32::MAX))] {
        let call = half::remote(8).deadline(deadline);
        assert_eq!(processes[0].runtime.call(call).wait().unwrap(), 4);
    }
}

/// The place of a function that may give it back once, and what it was asked: `block`, and the letters sent by `resume`.
struct GivenOnce(Network, Mutex<Vec<Option<usize>>>);

impl Place for GivenOnce {
    fn block(&self) -> Result<(), NoBlocking> {
        let mut asked = self.1.lock();
        asked.push(None);
        match asked.len() {
            1 => Ok(()),
            _ => Err(NoBlocking::TooMany { limit: 1 }),
        }
    }

    fn resume(&self) {
        self.1.lock().push(Some(self.0.sent().len()));
    }
}

#[test]
fn a_function_gives_its_place_back_for_all_calls_everywhere_at_once() {
    let (network, processes) = Network::of(3);
    let place = Arc::new(GivenOnce(network, Mutex::default()));
    let owner = Arc::new(());
    let current = Current {
        owner,
        place: Arc::clone(&place) as Arc<dyn Place>,
        outer: None,
    };
    let called = within_current(&Arc::new(current), || {
        processes[0].runtime.everywhere(whereabouts::remote())
    });
    assert_eq!(called.unwrap(), [1, 2, 3]);
    assert_eq!(*place.1.lock(), [None, Some(4)], "two questions and two answers");
}

#[test]
fn a_function_that_must_not_block_calls_nobody_everywhere() {
    let (network, processes) = Network::of(3);
    let refused = as_async(|| processes[0].runtime.everywhere(whereabouts::remote())).unwrap_err();
    assert_eq!(refused.errors.len(), 1);
    assert!(
        refused
            .to_string()
            .contains("an async remote function cannot block"),
        "{refused}"
    );
    assert_eq!(network.sent(), []);
}
