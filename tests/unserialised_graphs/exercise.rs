//! What is done with a graph: executions one by one or several at a time, kept, dropped or refused, and its end.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use selvedge::prelude::*;

use super::recipe::{Random, Recipe};
use super::values::{Handle, Job};
use super::worker::set_gate;

const DEADLINE: Duration = Duration::from_secs(60);

/// The way in which a graph is used.
pub struct Exercise<'a> {
    recipe: &'a Recipe,
    on_full: OnFull,
    max_inflight: usize,
    /// The number of slots of each channel; `None` for `max_inflight`.
    slots: Option<usize>,
    lanes: Lanes,
    wait: Wait,
    overlap: bool,
    /// The number of executions that were submitted.
    pub executions: usize,
}

/// The errors that may be told besides those of tasks.
#[derive(Clone, Copy, Default)]
struct Allowed {
    cancelled: bool,
    full: bool,
    ended: bool,
}

type Expected = [std::result::Result<u64, BTreeSet<u64>>];

/// Compares what an execution gave with what the interpreter says of these outputs.
fn compare(expected: &Expected, found: std::result::Result<Vec<u64>, ExecError>, allowed: Allowed) {
    match found {
        Ok(numbers) => {
            let all: Vec<_> = expected.iter().map(|it| it.clone().unwrap_or(0)).collect();
            let failed = expected.iter().any(std::result::Result::is_err);
            assert!(
                !failed && numbers == all,
                "{numbers:?}, and {expected:?} were expected"
            );
        }
        Err(ExecError::Task(error)) => {
            let text = error.to_string();
            let salts: BTreeSet<_> = expected
                .iter()
                .filter_map(|it| it.as_ref().err())
                .flatten()
                .collect();
            let told = salts
                .iter()
                .any(|salt| text.contains(&format!("injected by {salt}")));
            assert!(told, "{text}: {expected:?}");
        }
        Err(ExecError::Cancelled { .. }) if allowed.cancelled => {}
        Err(ExecError::CapacityExceeded { .. } | ExecError::InputsUnread { .. }) if allowed.full => {}
        Err(ExecError::TornDown { .. }) if allowed.ended => {}
        Err(error) => panic!("{error:?}: {error}"),
    }
}

impl<'a> Exercise<'a> {
    pub fn random(recipe: &'a Recipe, random: &mut Random) -> Self {
        let max_inflight = 1 + random.below(6);
        Exercise {
            recipe,
            on_full: [OnFull::Block, OnFull::Fail, OnFull::DropOldest][random.below(3)],
            max_inflight,
            slots: random.once_in(2).then(|| 1 + random.below(max_inflight)),
            lanes: if random.once_in(3) {
                Lanes::Auto
            } else {
                Lanes::Spawned
            },
            wait: if random.once_in(2) { Wait::Park } else { Wait::Auto },
            overlap: random.once_in(2),
            executions: 0,
        }
    }

    pub fn options(&self) -> Options {
        let options = Options::new()
            .max_inflight(self.max_inflight)
            .on_full(self.on_full)
            .lanes(self.lanes)
            .wait(self.wait)
            .overlap(self.overlap)
            .timeout(DEADLINE)
            .submit_timeout(DEADLINE)
            .teardown_timeout(DEADLINE);
        match self.slots {
            Some(slots) => options.slots(slots),
            None => options,
        }
    }

    fn allowed(&self) -> Allowed {
        Allowed {
            cancelled: self.on_full == OnFull::DropOldest,
            full: self.on_full == OnFull::Fail,
            ended: false,
        }
    }

    /// Submits `x`, by either way; `None` if it came back.
    fn submit<I: 'static, O>(
        &mut self,
        graph: &Graph<I, O>,
        random: &mut Random,
        x: u64,
        make: impl Fn(u64) -> I,
    ) -> Option<Execution<O>> {
        self.executions += 1;
        if random.once_in(2) {
            return Some(graph.execute(make(x)));
        }
        match graph.try_execute(make(x)) {
            Ok(execution) => Some(execution),
            Err(refused) => {
                compare(
                    &[],
                    Err(refused.error),
                    Allowed {
                        full: true,
                        ..Allowed::default()
                    },
                );
                None
            }
        }
    }

    /// Uses a graph, and ends it.
    pub fn run<I: 'static, O>(
        &mut self,
        graph: Graph<I, O>,
        random: &mut Random,
        make: impl Fn(u64) -> I,
        read: impl Fn(O) -> Vec<u64>,
    ) {
        let recipe = self.recipe;
        let allowed = self.allowed();
        let check = |x: u64, found: std::result::Result<O, ExecError>, allowed: Allowed| {
            compare(&recipe.interpret(x), found.map(&read), allowed);
        };
        for _ in 0..random.below(4) {
            let x = random.below(1000) as u64;
            self.executions += 1;
            check(x, graph.run(make(x)), allowed);
        }
        let closed = recipe.has_holds() && random.once_in(2);
        set_gate(closed);
        let room = self.slots.unwrap_or(self.max_inflight);
        let count = match self.on_full {
            // The others wait for the tasks that hold.
            OnFull::Fail => random.below(room + 3),
            _ if closed => random.below(room + 1),
            _ => random.below(3 * room),
        };
        let mut kept = Vec::new();
        for _ in 0..count {
            let x = random.below(1000) as u64;
            let submitted = self.submit(&graph, random, x, &make);
            kept.extend(submitted.map(|execution| (x, execution)));
            if random.once_in(4) && !kept.is_empty() {
                let (x, mut execution) = kept.swap_remove(random.below(kept.len()));
                match random.below(3) {
                    0 => drop(execution),
                    1 => {
                        if let Some(found) = execution.try_get() {
                            check(x, found, allowed);
                        }
                    }
                    _ if !closed => check(x, execution.wait(), allowed),
                    _ => kept.push((x, execution)),
                }
            }
        }
        thread::scope(|threads| {
            let opener = threads.spawn(|| set_gate(false));
            if closed && self.on_full != OnFull::Fail && random.once_in(2) {
                // These wait for room until the gate is open.
                for _ in 0..=random.below(3) {
                    let x = random.below(1000) as u64;
                    self.executions += 1;
                    kept.push((x, graph.execute(make(x))));
                }
            }
            self.end(graph, random, kept, &check);
            opener.join().unwrap();
        });
    }

    /// Ends the graph, before or after what was submitted is fetched or dropped.
    fn end<I, O>(
        &self,
        graph: Graph<I, O>,
        random: &mut Random,
        mut kept: Vec<(u64, Execution<O>)>,
        check: &impl Fn(u64, std::result::Result<O, ExecError>, Allowed),
    ) {
        let mut fetch = |random: &mut Random, all: bool, allowed: Allowed| {
            while !kept.is_empty() && (all || !random.once_in(4)) {
                let (x, execution) = kept.swap_remove(random.below(kept.len()));
                match random.once_in(4) {
                    true => drop(execution),
                    false => check(x, execution.wait(), allowed),
                }
            }
        };
        let allowed = self.allowed();
        let ended = Allowed {
            ended: true,
            ..allowed
        };
        let all = random.once_in(2);
        fetch(random, all, allowed);
        match random.below(3) {
            0 => drop(graph),
            1 => {
                let report = graph.teardown();
                assert!(report.stuck.is_empty(), "{report:?}");
                fetch(random, false, ended);
                drop(graph);
            }
            _ => {
                let report = graph.shutdown(DEADLINE);
                assert!(report.stuck.is_empty(), "{report:?}");
            }
        }
        fetch(random, true, ended);
    }

    /// Uses a graph with a handle for each output, and ends it.
    pub fn run_in_parts(
        &mut self,
        graph: Graph<u64, (u64, Job, Handle)>,
        random: &mut Random,
        make: impl Fn(u64) -> u64,
        read: impl Fn((u64, Job, Handle)) -> Vec<u64>,
    ) {
        let allowed = self.allowed();
        for _ in 0..random.below(4) {
            let x = random.below(1000) as u64;
            self.executions += 1;
            let expected = self.recipe.interpret(x);
            let (number, job, handle) = graph.execute(x).split();
            // The order of the handles is any, and some are dropped, which cancels the others.
            let cancels = Allowed {
                cancelled: true,
                ..allowed
            };
            let (mut parts, some_dropped) = ([0, 1, 2], random.once_in(2));
            parts.rotate_left(random.below(3));
            let allowed = if some_dropped { cancels } else { allowed };
            let (mut number, mut job, mut handle) = (Some(number), Some(job), Some(handle));
            for part in parts {
                if some_dropped && random.once_in(2) {
                    match part {
                        0 => drop(number.take()),
                        1 => drop(job.take()),
                        _ => drop(handle.take()),
                    }
                    continue;
                }
                let found = match part {
                    0 => number.take().map(|it| it.wait()),
                    1 => job.take().map(|it| it.wait().map(|job| job())),
                    _ => handle
                        .take()
                        .map(|it| it.wait().map(|it| super::Value::number(&it))),
                };
                let of_part = &expected[part..=part];
                compare(of_part, found.unwrap().map(|number| vec![number]), allowed);
            }
        }
        self.run(graph, random, make, read);
    }
}
