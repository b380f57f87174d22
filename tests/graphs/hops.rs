//! Hops: tasks of one argument and one result, which a lane runs from value to value. Results, failures and faults are
//! those of any other task.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::actors::{self, PLACEMENTS, counter};
use selvedge::prelude::*;

/// A number that counts its instances in `ALIVE`.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct Counted(i64);

static ALIVE: AtomicUsize = AtomicUsize::new(0);

static MEETING: Barrier = Barrier::new(2);

impl Counted {
    fn of(number: i64) -> Self {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Counted(number)
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Counted::of(self.0)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        ALIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

pub struct Forms;

#[actor]
impl Forms {
    pub fn new() -> Self {
        Forms
    }

    pub fn digits(&mut self, number: i64) -> String {
        number.to_string()
    }

    pub fn bytes(&mut self, text: &str) -> Vec<u8> {
        text.bytes().collect()
    }

    pub fn sorted(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        let mut bytes = bytes;
        bytes.sort_unstable();
        bytes
    }

    pub fn sum(&mut self, bytes: &[u8]) -> i64 {
        bytes.iter().map(|byte| i64::from(*byte - b'0')).sum()
    }

    pub fn both(&mut self, number: i64) -> (i64, i64) {
        (number, -number)
    }

    pub fn join(&mut self, both: &(i64, i64)) -> i64 {
        10 * both.0 + both.1
    }

    pub fn weigh(&mut self, number: i64) -> Counted {
        Counted::of(number)
    }

    pub fn more(&mut self, counted: Counted) -> Result<Counted, String> {
        if counted.0 < 0 {
            Err(format!("{} is too little", counted.0))
        } else {
            Ok(Counted::of(counted.0 + 1))
        }
    }

    pub fn careful(&mut self, counted: &Counted) -> Counted {
        assert!(counted.0 < 100, "{} is too much", counted.0);
        Counted::of(counted.0 + 1)
    }

    pub fn weight(&mut self, counted: Counted) -> i64 {
        counted.0
    }

    /// Meets the test at the barrier, and returns after a second meeting.
    pub fn meet(&mut self, number: i64) -> i64 {
        MEETING.wait();
        MEETING.wait();
        number
    }
}

fn forms(runtime: &Runtime, placement: Placement) -> Result<FormsHandle> {
    Ok(runtime.spawn::<Forms>("forms", ()).place(placement)?)
}

#[test]
fn arguments_of_every_form_and_a_tuple_as_a_whole() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = forms(&runtime, placement)?;
        let graph = runtime.compile(|x: Edge<i64>| {
            let sum = a.sum(&a.sorted(&a.bytes(&a.digits(&x))));
            a.join(&a.both(&sum))
        })?;
        for (number, sum) in [(0, 0), (907, 16), (1234, 10)] {
            assert_eq!(graph.run(number)?, 9 * sum);
        }
    }
    Ok(())
}

#[test]
fn a_failure_and_a_panic_in_the_middle_are_that_tasks_and_nothing_is_left() -> Result<()> {
    for placement in [Placement::Inline, Placement::Thread] {
        let runtime = Runtime::new();
        let a = forms(&runtime, placement)?;
        let graph = runtime.compile(|x: Edge<i64>| a.weight(&a.more(&a.careful(&a.more(&a.weigh(&x))))))?;
        for _ in 0..3 {
            assert_eq!(graph.run(1)?, 4);
            let failed = graph.run(-1).unwrap_err().to_string();
            assert!(
                failed.contains("forms.more") && failed.contains("-1 is too little"),
                "{failed}"
            );
            let panicked = graph.run(99).unwrap_err().to_string();
            assert!(
                panicked.contains("forms.careful") && panicked.contains("100 is too much"),
                "{panicked}"
            );
            let between = graph.run(-2).unwrap_err().to_string();
            assert!(between.contains("-2 is too little"), "{between}");
        }
        assert_eq!(graph.run(5)?, 8, "it goes on");
        drop(graph);
    }
    assert_eq!(ALIVE.load(Ordering::Relaxed), 0, "every value has been dropped");
    Ok(())
}

#[test]
fn what_is_cancelled_between_two_hops_does_not_go_on() -> Result<()> {
    let runtime = Runtime::new();
    let lane = runtime.lane("lane");
    let a = runtime.spawn::<Forms>("a", ()).in_lane(&lane)?;
    let b = runtime.spawn::<actors::Counter>("b", (0,)).in_lane(&lane)?;
    let graph = runtime.compile(|x: Edge<i64>| b.inc(&a.meet(&x)))?;
    let execution = graph.execute(7);
    MEETING.wait();
    drop(execution);
    MEETING.wait();
    assert_eq!(b.call().total(()).wait()?, 0);
    Ok(())
}

/// More executions at once than a value has places: no value overwrites another.
#[test]
fn executions_that_overlap_stay_apart() -> Result<()> {
    let runtime = Runtime::new();
    let lane = runtime.lane("lane");
    let crowd: Vec<_> = (0..4)
        .map(|index| {
            runtime
                .spawn::<actors::Counter>(&format!("c{index}"), (0,))
                .in_lane(&lane)
        })
        .collect::<std::result::Result<_, _>>()?;
    let away = counter(&runtime, "away", Placement::Thread);
    // With one slot, a hop in the middle finds no free slot.
    for (slots, trace) in [(8, 0), (8, 100), (1, 0), (1, 100)] {
        let options = Options::new().max_inflight(8).slots(slots).trace(trace);
        let graph = runtime.compile_with(options, |x: Edge<i64>| {
            let x = crowd[..2].iter().fold(x, |x, actor| actor.echo(&x));
            let (there, here) = (away.echo(&x), crowd[2].echo(&x));
            (away.echo(&here), crowd[3].echo(&there))
        })?;
        let results: Vec<(i64, i64)> = graph.map(0..1000).collect::<std::result::Result<_, _>>()?;
        assert_eq!(results, (0..1000).map(|x| (x, x)).collect::<Vec<_>>());
    }
    Ok(())
}

/// A lane whose next input is always available runs execution after execution, and still answers calls.
#[test]
fn calls_are_answered_between_executions_that_never_pause() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Thread);
    let options = Options::new().max_inflight(8).wait(Wait::Spin);
    let graph = runtime.compile_with(options, |x: Edge<i64>| a.sleep_ms(&x))?;
    std::thread::scope(|scope| {
        let calls = scope.spawn(|| {
            for call in 1..=20 {
                let answer = a.call().inc(1).wait_timeout(Duration::from_secs(60));
                assert_eq!(answer.unwrap(), call);
            }
        });
        let inputs = std::iter::repeat_with(|| 1).take_while(|_| !calls.is_finished());
        for result in graph.map(inputs) {
            assert_eq!(result.unwrap(), 1);
        }
        calls.join().unwrap();
    });
    Ok(())
}
