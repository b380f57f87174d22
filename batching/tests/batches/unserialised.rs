//! Items and answers that serde does not know: senders go to the model, and closures come back.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::gate::{Gate, LONG};
use selvedge::batching::{BatchError, Batcher, Batching, Grant, Sequence};
use selvedge::prelude::*;

/// A request that names the channel for its parts. Its `Arc` counts the requests that live.
#[derive(Clone)]
pub struct Request {
    x: i64,
    parts: Sender<i64>,
    alive: Arc<()>,
}

/// An answer that is computed when it is asked for. It can only be moved.
pub type Answer = Box<dyn FnOnce() -> i64 + Send>;

const PANICS: i64 = 99;

struct Model(Gate);

#[actor]
impl Model {
    pub fn new(gate: Gate) -> Self {
        Model(gate)
    }

    pub fn answer(&mut self, requests: Vec<Request>) -> Result<Vec<Answer>> {
        let items: Vec<_> = requests.iter().map(|request| request.x).collect();
        self.0.enter(&items);
        assert!(!items.contains(&PANICS), "no idea what this is");
        if items.iter().any(|x| *x < 0) {
            return Err("negative".into());
        }
        let answers = requests.into_iter().map(|request| -> Answer {
            // A client that is gone does not read its parts.
            let _ = request.parts.send(request.x);
            let alive = request.alive;
            Box::new(move || {
                drop(alive);
                request.x * 2
            })
        });
        Ok(answers.collect())
    }
}

/// Makes requests, and says in the end whether all of them are gone.
struct Clients {
    parts: Sender<i64>,
    received: Receiver<i64>,
    alive: Arc<()>,
}

impl Clients {
    fn new() -> Self {
        let (parts, received) = channel();
        let alive = Arc::new(());
        Clients {
            parts,
            received,
            alive,
        }
    }

    fn request(&self, x: i64) -> Request {
        Request {
            x,
            parts: self.parts.clone(),
            alive: Arc::clone(&self.alive),
        }
    }

    /// Ends the runtime; after that nothing is left of any request.
    fn end(self, runtime: Runtime) -> Vec<i64> {
        assert!(runtime.shutdown(Duration::from_secs(30)).stuck_lanes.is_empty());
        drop(runtime);
        assert_eq!(Arc::strong_count(&self.alive), 1, "each request was dropped once");
        drop(self.parts);
        self.received.iter().collect()
    }
}

fn graph(runtime: &Runtime, gate: &Gate) -> Graph<Vec<Request>, Vec<Answer>> {
    let model = runtime
        .spawn::<Model>("model", (gate.clone(),))
        .in_thread()
        .unwrap();
    runtime
        .compile(|requests: Edge<Vec<Request>>| model.answer(&requests))
        .unwrap()
}

#[test]
fn senders_go_in_and_closures_come_out_and_a_bad_one_fails_alone() {
    let (runtime, gate, clients) = (Runtime::new(), Gate::closed(), Clients::new());
    let batcher = Batcher::new(
        graph(&runtime, &gate),
        Batching::new().max_inflight(1).timeout(LONG),
    )
    .unwrap();
    let first = batcher.submit(clients.request(0));
    gate.wait_entered(1);
    let tickets: Vec<_> = [1, -2, 3, PANICS, 5]
        .map(|x| batcher.submit(clients.request(x)))
        .into();
    // A client that goes away while its request is queued.
    drop(batcher.submit(clients.request(6)));
    gate.open();
    assert_eq!(first.wait().unwrap()(), 0);
    let answers = tickets
        .into_iter()
        .map(|ticket| ticket.wait().map(|answer| answer()));
    let answers: Vec<_> = answers.map(Result::ok).collect();
    assert_eq!(answers, [Some(2), None, Some(6), None, Some(10)]);
    drop(batcher);
    let parts = clients.end(runtime);
    assert!([0, 1, 3, 5].iter().all(|x| parts.contains(x)), "{parts:?}");
}

#[test]
fn requests_and_answers_of_a_batcher_that_ends_are_dropped() {
    let (runtime, gate, clients) = (Runtime::new(), Gate::closed(), Clients::new());
    let batcher = Batcher::new(
        graph(&runtime, &gate),
        Batching::new().max_inflight(1).timeout(LONG),
    )
    .unwrap();
    let running = batcher.submit(clients.request(1));
    gate.wait_entered(1);
    let queued: Vec<_> = (2..9).map(|x| batcher.submit(clients.request(x))).collect();
    std::thread::scope(|threads| {
        threads.spawn(|| drop(batcher));
        // The items are answered first; the model ends when its gate opens.
        for ticket in queued {
            assert!(matches!(ticket.wait(), Err(BatchError::Closed)));
        }
        gate.open();
    });
    drop(running);
    clients.end(runtime);
}

/// A request that is answered after some steps. Its sender goes into each of them.
struct Text {
    request: Request,
    steps: usize,
}

impl Sequence for Text {
    type Step = Vec<Request>;
    type Answers = Vec<Answer>;
    type Output = Answer;

    fn join(&mut self, step: &mut Vec<Request>, _: Grant) {
        step.push(self.request.clone());
    }

    fn advance(&mut self, answers: &mut Vec<Answer>, _: Grant) -> ControlFlow<Answer> {
        // The members advance in the order in which they joined.
        let mine = answers.remove(0);
        self.steps -= 1;
        if self.steps == 0 {
            return ControlFlow::Break(mine);
        }
        ControlFlow::Continue(())
    }
}

#[test]
fn sequences_of_senders_get_closures_step_by_step() {
    let (runtime, gate, clients) = (Runtime::new(), Gate::opened(), Clients::new());
    let batcher = Batcher::continuous(graph(&runtime, &gate), Batching::new().timeout(LONG)).unwrap();
    let text = |x, steps| Text {
        request: clients.request(x),
        steps,
    };
    let tickets = [(1, 3), (2, 1), (3, 5)].map(|(x, steps)| batcher.submit(text(x, steps)));
    // A member that leaves in the middle, and one that fails.
    drop(batcher.submit(text(4, 1_000_000)));
    assert_eq!(tickets.map(|ticket| ticket.wait().unwrap()()), [2, 4, 6]);
    assert!(batcher.submit(text(-1, 2)).wait().is_err());
    let unread = batcher.submit(text(7, 1));
    drop(batcher);
    drop(unread);
    clients.end(runtime);
}
