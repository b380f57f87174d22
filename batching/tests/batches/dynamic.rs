//! Dynamic batching: the items of an execution, and the outcome of items that fail.

use std::time::{Duration, Instant};

use crate::doubling::{Model, PANICS, batcher, graph, one_by_one, spawn};
use crate::gate::{Gate, LONG, until};
use selvedge::batching::{BatchError, Batcher, BatcherError, Batching, SubmitOptions};
use selvedge::prelude::*;

#[test]
fn what_comes_while_an_execution_runs_is_in_the_next() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = batcher(&runtime, &gate, Batching::new().max_inflight(1));
    let first = batcher.submit(0);
    gate.wait_entered(1);
    let rest: Vec<_> = (1..10).map(|item| batcher.submit(item)).collect();
    gate.open();
    assert_eq!(first.wait().unwrap(), 0);
    let rest: Vec<i64> = rest.into_iter().map(|ticket| ticket.wait().unwrap()).collect();
    assert_eq!(rest, (1..10).map(|item| item * 2).collect::<Vec<_>>());
    assert_eq!(gate.sizes(), [1, 9]);
    let stats = batcher.stats();
    assert_eq!((stats.executions, stats.answered, stats.queued), (2, 10, 0));
}

#[test]
fn a_limit_that_lets_no_item_through_is_refused_by_its_name() {
    let runtime = Runtime::new();
    let refused = [
        ("max_size", Batching::new().max_size(0)),
        ("max_cost", Batching::new().max_cost(0)),
        ("queue", Batching::new().queue(0)),
        ("max_inflight", Batching::new().max_inflight(0)),
    ];
    for (option, options) in refused {
        let (_, graph) = graph(&runtime, &Gate::opened(), Placement::Thread);
        let error = Batcher::new(graph, options).map(drop).unwrap_err();
        assert!(matches!(error, BatcherError::Zero { .. }), "{error}");
        assert!(error.to_string().contains(&format!("{option}(0)")), "{error}");
    }
}

#[test]
fn a_full_batch_does_not_wait_for_the_delay() {
    let (runtime, gate) = (Runtime::new(), Gate::opened());
    let options = Batching::new().max_size(3).max_delay(LONG).max_wait(LONG * 2);
    let batcher = batcher(&runtime, &gate, options);
    let tickets = [1, 2, 3].map(|item| batcher.submit(item));
    let doubled = tickets.map(|ticket| ticket.wait().unwrap());
    assert_eq!((doubled, gate.sizes()), ([2, 4, 6], vec![3]));
}

/// Submits an item and waits until its execution has begun.
fn occupy(batcher: &Batcher<i64, i64>, gate: &Gate) -> selvedge::batching::Ticket<i64> {
    let before = gate.seen().len();
    let ticket = batcher.submit(0);
    gate.wait_entered(before + 1);
    ticket
}

#[test]
fn a_bad_item_fails_alone() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = batcher(&runtime, &gate, one_by_one());
    let first = occupy(&batcher, &gate);
    let submitted = [1, 2, -3, 4, 5, 6, PANICS, 8].map(|item| (item, batcher.submit(item)));
    gate.open();
    assert_eq!(first.wait().unwrap(), 0);
    for (item, ticket) in submitted {
        match (item, ticket.wait().map_err(|error| error.to_string())) {
            (-3, Err(text)) => assert!(text.contains("-3 is negative"), "{text}"),
            (PANICS, Err(text)) => assert!(text.contains("no idea what this is"), "{text}"),
            (good, answer) => assert_eq!(answer, Ok(good * 2)),
        }
    }
    assert_eq!(gate.sizes(), [1, 8, 4, 4, 2, 2, 2, 2, 1, 1, 1, 1]);
}

#[test]
fn tries_are_bounded() {
    for (retries, sizes) in [(0, vec![1, 4]), (1, vec![1, 4, 2]), (3, vec![1, 4, 2, 2, 1])] {
        let (runtime, gate) = (Runtime::new(), Gate::closed());
        let batcher = batcher(&runtime, &gate, one_by_one().retries(retries));
        let first = occupy(&batcher, &gate);
        let tickets = [-1, -2, -3, -4].map(|item| batcher.submit(item));
        gate.open();
        assert_eq!(first.wait().unwrap(), 0);
        for ticket in tickets {
            assert!(matches!(
                ticket.wait(),
                Err(BatchError::Failed(ExecError::Task(_)))
            ));
        }
        assert_eq!(gate.sizes(), sizes);
    }
}

#[test]
fn an_answer_may_be_a_result() {
    let (runtime, gate) = (Runtime::new(), Gate::opened());
    let model = spawn(&runtime, &gate, Placement::Thread);
    let graph = runtime
        .compile(|items: Edge<Vec<i64>>| model.each(&items))
        .unwrap();
    let batcher = Batcher::new(graph, Batching::new()).unwrap();
    let tickets = [1, -2].map(|item| batcher.submit(item));
    let [good, bad] = tickets.map(|ticket| ticket.wait().unwrap());
    assert_eq!((good, bad), (Ok(2), Err("-2 is negative".to_owned())));
}

#[test]
fn a_wrong_number_of_answers_is_said() {
    let (runtime, gate) = (Runtime::new(), Gate::opened());
    let model = spawn(&runtime, &gate, Placement::Thread);
    let graph = runtime
        .compile(|items: Edge<Vec<i64>>| model.lose(&items))
        .unwrap();
    let batcher = Batcher::new(graph, Batching::new()).unwrap();
    let answer = batcher.submit(1).wait();
    assert!(
        matches!(answer, Err(BatchError::Miscounted { items: 1, answers: 0 })),
        "{answer:?}"
    );
}

#[test]
fn higher_priority_goes_first_and_equals_in_order() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = batcher(&runtime, &gate, one_by_one().max_size(1).ageing(LONG));
    let first = occupy(&batcher, &gate);
    let options = |priority| SubmitOptions::new().priority(priority);
    let tickets: Vec<_> = [(1, 0), (2, 5), (3, -1), (4, 5), (5, 1)]
        .map(|(item, priority)| batcher.submit_with(item, options(priority)))
        .into();
    gate.open();
    assert_eq!(first.wait().unwrap(), 0);
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    assert_eq!(gate.seen().concat(), [0, 2, 4, 5, 1, 3]);
}

#[test]
fn what_has_expired_is_not_executed() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = batcher(&runtime, &gate, one_by_one());
    let first = occupy(&batcher, &gate);
    // The graph is busy during this wait.
    let late = batcher
        .submit_with(1, SubmitOptions::new().deadline(Instant::now()))
        .wait();
    assert!(matches!(late, Err(BatchError::Expired { .. })), "{late:?}");
    gate.open();
    assert_eq!((first.wait().unwrap(), batcher.submit(2).wait().unwrap()), (0, 4));
    assert_eq!(gate.seen(), [[0], [2]]);
    assert_eq!(batcher.stats().expired, 1);
}

#[test]
fn a_dropped_ticket_takes_its_item_out() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = batcher(&runtime, &gate, one_by_one());
    let first = occupy(&batcher, &gate);
    let kept = batcher.submit(2);
    drop((batcher.submit(1), batcher.submit(3)));
    assert_eq!((batcher.stats().queued, batcher.stats().withdrawn), (1, 2));
    drop(first);
    gate.open();
    assert_eq!(kept.wait().unwrap(), 4);
    assert_eq!(
        (gate.seen(), batcher.stats().withdrawn),
        (vec![vec![0], vec![2]], 3)
    );
}

#[test]
fn more_than_the_queue_holds_is_refused_at_once() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = batcher(&runtime, &gate, one_by_one().queue(2));
    let first = occupy(&batcher, &gate);
    let waiting = [1, 2].map(|item| batcher.submit(item));
    let refused = batcher.try_submit(3, SubmitOptions::new()).unwrap_err();
    assert_eq!(refused.value, 3);
    let BatchError::Overloaded {
        queued: 2,
        limit: 2,
        retry_after,
    } = refused.error
    else {
        panic!("{refused}");
    };
    assert!(retry_after > Duration::ZERO);
    gate.open();
    assert_eq!(first.wait().unwrap(), 0);
    assert_eq!(waiting.map(|ticket| ticket.wait().unwrap()), [2, 4]);
    assert_eq!(batcher.stats().refused, 1);
}

#[test]
fn an_execution_costs_no_more_than_it_may() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let (_, graph) = graph(&runtime, &gate, Placement::Thread);
    let options = one_by_one().max_cost(10).max_delay(LONG);
    let batcher =
        Batcher::with_cost(graph, options, |item| usize::try_from(*item).expect("no cost")).unwrap();
    let first = batcher.submit(10);
    gate.wait_entered(1);
    let tickets = [3, 4, 4, 10, 1, 9].map(|item| batcher.submit(item));
    let too_large = batcher.submit(11).wait();
    assert!(matches!(
        too_large,
        Err(BatchError::TooLarge {
            cost: 11,
            max_cost: 10
        })
    ));
    let panicked = batcher.submit(-1).wait();
    assert!(matches!(&panicked, Err(BatchError::Panicked { message, .. }) if message.contains("no cost")));
    gate.open();
    first.wait().unwrap();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    assert_eq!(gate.seen(), [vec![10], vec![3, 4], vec![4], vec![10], vec![1, 9]]);
}

#[test]
fn an_execution_that_does_not_end_is_given_up() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = batcher(&runtime, &gate, one_by_one().timeout(Duration::from_millis(5)));
    let answer = batcher.submit(1).wait();
    let Err(BatchError::Failed(ExecError::Timeout(timeout))) = answer else {
        panic!("{answer:?}");
    };
    assert!(timeout.suspects.iter().any(|suspect| suspect.actor == "model"));
    assert_eq!(timeout.option, "Batching::timeout");
    // The execution still occupies the graph, until it ends.
    until(|| batcher.stats().overdue == 1);
    assert_eq!(batcher.stats().in_flight, 0);
    gate.open();
    until(|| batcher.stats().overdue == 0);
}

#[test]
fn an_overdue_execution_is_reported_though_its_client_is_gone() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = batcher(&runtime, &gate, one_by_one().timeout(Duration::from_millis(5)));
    let mut reported = batcher.overdue();
    let client = batcher.submit(1);
    gate.wait_entered(1);
    drop(client);
    let error = reported.wait_timeout(LONG);
    let Ok(ExecError::Timeout(timeout)) = error else {
        panic!("{error:?}");
    };
    assert!(timeout.suspects.iter().any(|suspect| suspect.actor == "model"));
    let again = batcher.overdue().wait_timeout(LONG);
    assert!(matches!(again, Ok(ExecError::Timeout(_))), "{again:?}");
    gate.open();
    until(|| batcher.stats().overdue == 0);
    let over = batcher.overdue().wait_timeout(Duration::ZERO);
    assert!(matches!(over, Err(BatchError::Timeout { .. })), "{over:?}");
    let mut never = batcher.overdue();
    drop(batcher);
    assert!(matches!(never.wait_timeout(LONG), Err(BatchError::Closed)));
}

#[test]
fn what_is_overdue_on_an_earlier_graph_says_nothing_about_the_next() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let options = one_by_one().max_inflight(2).timeout(Duration::from_millis(5));
    let batcher = batcher(&runtime, &gate, options);
    let client = batcher.submit(1);
    gate.wait_entered(1);
    assert!(batcher.overdue().wait_timeout(LONG).is_ok());
    // An inline actor is never late: its execution is over when it has begun.
    let model = runtime
        .spawn::<Model>("next", (Gate::opened(),))
        .inline()
        .unwrap();
    let next = runtime.compile(|items: Edge<Vec<i64>>| model.double(&items));
    // Another owner keeps the old graph from its tear-down, so the execution stays overdue there.
    let old = batcher.graph();
    batcher.replace(next.unwrap());
    assert_eq!(batcher.submit(2).wait().unwrap(), 4);
    assert_eq!(batcher.stats().overdue, 1);
    let mut overdue = batcher.overdue();
    let nothing = overdue.wait_timeout(Duration::ZERO);
    assert!(matches!(nothing, Err(BatchError::Timeout { .. })), "{nothing:?}");
    drop(client);
    gate.open();
    drop(old);
}

#[test]
fn a_batch_that_is_not_full_goes_when_its_oldest_has_waited() {
    let (runtime, gate) = (Runtime::new(), Gate::opened());
    let options = one_by_one().max_size(100).max_delay(Duration::from_millis(1));
    let batcher = batcher(&runtime, &gate, options);
    let tickets = [1, 2].map(|item| batcher.submit(item));
    assert_eq!(tickets.map(|ticket| ticket.wait().unwrap()), [2, 4]);
}

#[test]
fn a_ticket_may_be_looked_at_and_awaited() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = batcher(&runtime, &gate, one_by_one());
    let mut ticket = batcher.submit(1);
    let early = ticket.wait_timeout(Duration::ZERO);
    assert!(matches!(early, Err(BatchError::Timeout { .. })));
    assert!(ticket.try_get().is_none());
    gate.open();
    assert_eq!(ticket.wait_timeout(LONG).unwrap(), 2);
    assert!(matches!(ticket.wait_timeout(LONG), Err(BatchError::Taken)));
    assert!(matches!(ticket.try_get(), Some(Err(BatchError::Taken))));
    let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let both = async { (batcher.submit(2).await.unwrap(), batcher.submit(3).await.unwrap()) };
    assert_eq!(tokio.block_on(both), (4, 6));
}

#[test]
fn inline_actors_compute_on_the_batchers_thread() {
    let (runtime, gate) = (Runtime::new(), Gate::opened());
    let model = runtime.spawn::<Model>("model", (gate.clone(),)).inline().unwrap();
    let graph = runtime
        .compile(|items: Edge<Vec<i64>>| model.double(&items))
        .unwrap();
    let batcher = Batcher::new(graph, Batching::new()).unwrap();
    let tickets: Vec<_> = (0..100).map(|item| batcher.submit(item)).collect();
    let sum: i64 = tickets.into_iter().map(|ticket| ticket.wait().unwrap()).sum();
    assert_eq!(sum, 9900);
}

#[test]
fn another_graph_may_take_fewer_executions_at_once() {
    let (runtime, gate) = (Runtime::new(), Gate::closed());
    let batcher = batcher(&runtime, &gate, Batching::new().max_size(1).timeout(LONG));
    let second = runtime.spawn::<Model>("second", (gate.clone(),)).in_thread();
    let (second, narrow) = (second.unwrap(), Options::new().max_inflight(1));
    let graph = runtime.compile_with(narrow, |items: Edge<Vec<i64>>| second.double(&items));
    batcher.replace(graph.unwrap());
    let tickets = [1, 2, 3].map(|item| batcher.submit(item));
    gate.wait_entered(1);
    gate.open();
    assert_eq!(tickets.map(|ticket| ticket.wait().unwrap()), [2, 4, 6]);
}
