//! The end of a batcher, at any moment: every item is answered, and no resource remains.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::doubling::{batcher, graph, one_by_one};
use crate::gate::{Gate, LONG, until};
use selvedge::ExecError;
use selvedge::batching::{BatchError, Batcher, Batching, OnBroken, SubmitOptions, Ticket};
use selvedge::prelude::*;

#[test]
fn close_executes_what_is_there() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = batcher(&runtime, &gate, one_by_one().max_delay(LONG).max_size(2));
    let tickets = [1, 2, 3].map(|item| batcher.submit(item));
    gate.wait_entered(1);
    gate.open();
    assert_eq!(batcher.close(LONG), 0);
    assert_eq!(tickets.map(|ticket| ticket.wait().unwrap()), [2, 4, 6]);
    assert!(matches!(batcher.submit(4).wait(), Err(BatchError::Closed)));
    assert!(matches!(batcher.breakage().wait(), Err(BatchError::Closed)));
    assert_eq!(batcher.close(LONG), 0);
}

#[test]
fn close_without_time_answers_the_rest() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = batcher(&runtime, &gate, one_by_one());
    let tickets = [1, 2, 3].map(|item| batcher.submit(item));
    gate.wait_entered(1);
    assert_eq!(batcher.close(Duration::ZERO), 3);
    for ticket in tickets {
        assert!(matches!(ticket.wait(), Err(BatchError::Closed)));
    }
    gate.open();
}

/// A batcher ends while clients submit items: every item is answered once, with its own value, or because the batcher
/// has ended.
#[test]
fn a_batcher_may_go_at_any_moment() {
    for moment in 0..30 {
        let (runtime, gate) = (Runtime::new(), Gate::opened());
        let batcher = batcher(&runtime, &gate, Batching::new().max_size(4).queue(16));
        let (served, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for client in 0..4 {
                let (batcher, served, refused) = (&batcher, &served, &refused);
                scope.spawn(move || {
                    for item in (0..).map(|index| index * 4 + client) {
                        match batcher.submit(item).wait() {
                            Ok(doubled) => assert_eq!(doubled, item * 2),
                            Err(BatchError::Overloaded { .. }) => {
                                refused.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(BatchError::Closed) => return,
                            Err(other) => panic!("{other}"),
                        }
                        served.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            gate.wait_entered(moment * 3);
            batcher.close(Duration::ZERO);
        });
        let stats = batcher.stats();
        assert_eq!(
            stats.accepted,
            stats.answered + stats.failed + stats.withdrawn,
            "{stats:?}"
        );
    }
}

#[test]
fn tickets_may_go_at_any_moment() {
    let (runtime, gate) = (Runtime::new(), Gate::opened());
    let batcher = batcher(&runtime, &gate, Batching::new().max_size(3).queue(1 << 20));
    thread::scope(|scope| {
        for client in 0..4 {
            let batcher = &batcher;
            scope.spawn(move || {
                for item in 0..500 {
                    let ticket = batcher.submit(item);
                    if item % 4 == client {
                        assert_eq!(ticket.wait().unwrap(), item * 2);
                    }
                }
            });
        }
    });
    assert_eq!(batcher.close(LONG), 0);
    let stats = batcher.stats();
    assert_eq!(
        (stats.accepted, stats.failed, stats.queued, stats.in_flight),
        (2000, 0, 0, 0)
    );
    assert_eq!(stats.answered + stats.withdrawn, 2000, "{stats:?}");
}

#[test]
fn a_worker_dies_and_the_queue_goes_on_with_another_graph() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let (model, held) = graph(&runtime, &gate, Placement::Process);
    let batcher = Batcher::new(held, one_by_one().on_broken(OnBroken::Keep)).unwrap();
    let executed = batcher.submit(1);
    // The worker has a gate of its own, which stays closed: the execution lasts until the kill.
    until(|| batcher.stats().executions == 1);
    let waiting = [2, 3].map(|item| batcher.submit(item));
    let breakage = batcher.breakage();
    model.actor().kill();
    let ExecError::ActorDied(died) = breakage.wait().unwrap() else {
        panic!("no death")
    };
    assert_eq!(died.actor, "model");
    let answer = executed.wait();
    assert!(
        matches!(&answer, Err(BatchError::Failed(ExecError::ActorDied(_)))),
        "{answer:?}"
    );
    assert!(batcher.broken().is_some());
    let later = batcher.submit(4);
    batcher.replace(graph(&runtime, &Gate::opened(), Placement::Thread).1);
    assert!(batcher.broken().is_none());
    assert_eq!(waiting.map(|ticket| ticket.wait().unwrap()), [4, 6]);
    assert_eq!(later.wait().unwrap(), 8);
}

#[test]
fn a_broken_graph_answers_everybody_unless_told_otherwise() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let (model, held) = graph(&runtime, &gate, Placement::Process);
    let batcher = Batcher::new(held, one_by_one()).unwrap();
    let tickets = [1, 2, 3].map(|item| batcher.submit(item));
    model.actor().kill();
    for ticket in tickets {
        let answer = ticket.wait();
        assert!(
            matches!(&answer, Err(BatchError::Failed(ExecError::ActorDied(_)))),
            "{answer:?}"
        );
    }
    batcher.breakage().wait().unwrap();
    let refused = batcher.try_submit(4, SubmitOptions::new()).unwrap_err();
    assert!(matches!(
        refused.error,
        BatchError::Failed(ExecError::ActorDied(_))
    ));
    batcher.replace(graph(&runtime, &Gate::opened(), Placement::Thread).1);
    assert_eq!(batcher.submit(4).wait().unwrap(), 8);
}

/// The item expired, because no graph has received it: the error is not a failure of a graph.
#[test]
fn who_waits_too_long_for_another_graph_has_expired() {
    let (runtime, gate) = (Runtime::new(), Gate::opened());
    let (_, held) = graph(&runtime, &gate, Placement::Thread);
    let _ = held.teardown();
    let batcher = Batcher::new(held, one_by_one().on_broken(OnBroken::Keep)).unwrap();
    batcher.breakage().wait().unwrap();
    let answer = batcher
        .submit_with(1, SubmitOptions::new().deadline(Instant::now()))
        .wait();
    assert!(matches!(answer, Err(BatchError::Expired { .. })), "{answer:?}");
    assert_eq!(batcher.stats().expired, 1);
}

#[test]
fn a_death_is_heard_of_while_nothing_is_executed() {
    let (runtime, gate) = (Runtime::new(), Gate::opened());
    let (model, held) = graph(&runtime, &gate, Placement::Process);
    let batcher = Batcher::new(held, one_by_one()).unwrap();
    assert_eq!(batcher.submit(1).wait().unwrap(), 2);
    let breakage = batcher.breakage();
    model.actor().kill();
    assert!(matches!(breakage.wait(), Ok(ExecError::ActorDied(_))));
    assert!(matches!(batcher.breakage().wait(), Ok(ExecError::ActorDied(_))));
}

struct OnWake<F>(F);

impl<F: Fn() + Send + Sync> Wake for OnWake<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// Polls a ticket that is not answered yet; `act` runs when it is answered.
fn when_answered<O>(ticket: &mut Ticket<O>, act: impl Fn() + Send + Sync + 'static) {
    let waker = Waker::from(Arc::new(OnWake(act)));
    assert!(
        Pin::new(ticket)
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
}

#[test]
fn close_does_not_wait_for_the_thread_that_calls_it() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = Arc::new(batcher(&runtime, &gate, one_by_one().max_size(1)));
    let [mut first, mut second] = [1, 2].map(|item| batcher.submit(item));
    let closing = Arc::clone(&batcher);
    when_answered(&mut first, move || assert_eq!(closing.close(LONG), 0));
    gate.open();
    // A `close` that waited for its own thread would never return; after this minute the test fails.
    let minute = Duration::from_secs(60);
    assert_eq!(first.wait_timeout(minute).unwrap(), 2);
    let answer = second.wait_timeout(minute);
    assert!(matches!(answer, Err(BatchError::Closed)), "{answer:?}");
}

#[test]
fn who_asks_for_the_breakage_while_the_batcher_ends_is_answered() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = Arc::new(batcher(&runtime, &gate, one_by_one().max_size(1)));
    let first = batcher.submit(1);
    gate.wait_entered(1);
    let mut waits = batcher.submit(2);
    let (asked, asks) = mpsc::channel();
    let ending = Arc::clone(&batcher);
    when_answered(&mut waits, move || asked.send(ending.breakage()).unwrap());
    assert_eq!(batcher.close(Duration::ZERO), 2);
    let answer = asks.recv().unwrap().wait_timeout(Duration::ZERO);
    assert!(matches!(answer, Err(BatchError::Closed)), "{answer:?}");
    drop(first);
    gate.open();
}

#[test]
fn close_does_not_wait_for_what_was_withdrawn() {
    let (runtime, gate) = (Runtime::new(), Gate::opened());
    let (_, held) = graph(&runtime, &gate, Placement::Thread);
    let _ = held.teardown();
    let batcher = Batcher::new(held, one_by_one().on_broken(OnBroken::Keep)).unwrap();
    batcher.breakage().wait().unwrap();
    let waits = batcher.submit(1);
    thread::scope(|scope| {
        let (closed, closes) = mpsc::channel();
        let batcher = &batcher;
        scope.spawn(move || closed.send(batcher.close(LONG)).unwrap());
        until(|| batcher.try_submit(2, SubmitOptions::new()).is_err());
        // Gives the closing thread time to sleep; if it is still awake, the test checks less, and passes.
        thread::sleep(Duration::from_millis(20));
        drop(waits);
        let left = closes.recv_timeout(Duration::from_secs(60));
        // Without this call the scope would wait for that thread.
        batcher.close(Duration::ZERO);
        assert_eq!(left, Ok(0));
    });
}

/// The drop of a waker is user code, which may wait for the batcher: no lock is held during it.
#[test]
fn a_waker_is_dropped_without_a_lock() {
    struct Last(
        mpsc::SyncSender<()>,
        Mutex<Option<Ticket<i64>>>,
        mpsc::Sender<bool>,
    );

    impl Wake for Last {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Last {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
            let ticket = self.1.get_mut().unwrap().take();
            let answer = ticket.unwrap().wait_timeout(Duration::from_secs(60));
            self.2.send(answer.is_ok()).unwrap();
        }
    }

    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = batcher(&runtime, &gate, one_by_one().max_size(1));
    let [mut first, second] = [1, 2].map(|item| batcher.submit(item));
    let ((dropping, drops), (said, says)) = (mpsc::sync_channel(0), mpsc::channel());
    let last = Waker::from(Arc::new(Last(dropping, Mutex::new(Some(second)), said)));
    assert!(
        Pin::new(&mut first)
            .poll(&mut Context::from_waker(&last))
            .is_pending()
    );
    drop(last);
    thread::scope(|scope| {
        let look = || {
            Pin::new(&mut first)
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        };
        let looks = scope.spawn(look);
        drops.recv().unwrap();
        gate.open();
        assert!(says.recv().unwrap(), "the batcher was held up");
        assert!(looks.join().unwrap());
    });
    assert_eq!(first.wait().unwrap(), 2);
}
