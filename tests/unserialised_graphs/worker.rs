//! The actor of the graphs: every kind of task for every kind of value.

use std::future::poll_fn;
use std::sync::{Condvar, Mutex};
use std::task::Poll;
use std::time::Duration;

use selvedge::prelude::*;
use serde::{Deserialize, Serialize};

use super::values::{Both, Handle, Job, Mail, Mixed, Shared, Tally, Value};

/// What a task does beside its work.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Fate {
    pub salt: u64,
    /// Whether the task fails for some numbers.
    pub fails: bool,
    /// Whether the task waits at the gate.
    pub holds: bool,
}

/// How a task fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    Error,
    Panic,
}

impl Fate {
    /// The number that a task makes of its arguments, or its failure: the interpreter and the actors ask this function.
    pub fn outcome(&self, numbers: &[u64]) -> std::result::Result<u64, Blow> {
        let mix = |all: u64, number: &u64| (all ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        let number = numbers.iter().fold(self.salt, mix) >> 8;
        match number % 16 {
            0 if self.fails => Err(Blow::Error),
            1 if self.fails => Err(Blow::Panic),
            _ => Ok(number),
        }
    }

    /// The number that a task makes of its arguments, behind the gate.
    fn at(&self, numbers: &[u64]) -> Result<u64> {
        if self.holds {
            pass_gate();
        }
        match self.outcome(numbers) {
            Ok(number) => Ok(number),
            Err(Blow::Error) => Err(format!("injected by {}", self.salt).into()),
            Err(Blow::Panic) => panic!("injected by {}", self.salt),
        }
    }
}

/// Whether tasks that hold have to wait.
static GATE: Mutex<bool> = Mutex::new(false);
static OPENED: Condvar = Condvar::new();

pub fn set_gate(closed: bool) {
    *GATE.lock().unwrap() = closed;
    OPENED.notify_all();
}

fn pass_gate() {
    let gate = GATE.lock().unwrap();
    let waited = OPENED.wait_timeout_while(gate, Duration::from_secs(60), |closed| *closed);
    assert!(!waited.unwrap().1.timed_out(), "nobody opened the gate");
}

pub struct Worker;

fn numbers<V: Value>(values: &[V]) -> Vec<u64> {
    values.iter().map(Value::number).collect()
}

/// The tasks that every kind of value has.
macro_rules! worker {
    ($($kind:ident $make:ident $pass:ident $view:ident $take:ident $later:ident $all:ident $see:ident,)+) => {
        #[actor]
        impl Worker {
            pub fn new() -> Self {
                Worker
            }

            pub fn mix(&mut self, x: u64, #[constant] fate: Fate) -> Result<u64> {
                fate.at(&[x])
            }

            pub fn sum(&mut self, xs: &[u64], #[constant] fate: Fate) -> Result<u64> {
                fate.at(xs)
            }

            pub fn fold(&mut self, job: Job, mail: &Mail, x: u64, handle: Handle, #[constant] fate: Fate) -> Result<u64> {
                fate.at(&[job.number(), mail.number(), x, handle.number()])
            }

            pub fn both(&mut self, x: u64, #[constant] fate: Fate) -> Result<(Job, Mail)> {
                Ok(Both::of(fate.at(&[x])?))
            }

            pub fn mixed(&mut self, x: u64, #[constant] fate: Fate) -> Result<(Tally, u64)> {
                Ok(Mixed::of(fate.at(&[x])?))
            }

            pub fn take_both(&mut self, both: (Job, Mail), #[constant] fate: Fate) -> Result<u64> {
                fate.at(&[both.number()])
            }

            pub fn view_mixed(&mut self, mixed: &(Tally, u64), #[constant] fate: Fate) -> Result<u64> {
                fate.at(&[mixed.number()])
            }

            $(
                pub fn $make(&mut self, x: u64, #[constant] fate: Fate) -> Result<$kind> {
                    Ok($kind::of(fate.at(&[x])?))
                }

                pub fn $pass(&mut self, value: $kind, #[constant] fate: Fate) -> Result<$kind> {
                    fate.at(&[value.number()])?;
                    Ok(value)
                }

                pub fn $view(&mut self, value: &$kind, #[constant] fate: Fate) -> Result<u64> {
                    fate.at(&[value.number()])
                }

                pub fn $take(&mut self, value: $kind, #[constant] fate: Fate) -> Result<u64> {
                    fate.at(&[value.number()])
                }

                pub async fn $later(&mut self, value: $kind, #[constant] fate: Fate) -> Result<u64> {
                    // Comes back to the lane several times, and may be dropped at each of them.
                    let mut left = 3;
                    poll_fn(|context| {
                        context.waker().wake_by_ref();
                        left -= 1;
                        if left == 0 { Poll::Ready(()) } else { Poll::Pending }
                    })
                    .await;
                    fate.at(&[value.number()])
                }

                pub fn $all(&mut self, values: Vec<$kind>, #[constant] fate: Fate) -> Result<u64> {
                    fate.at(&numbers(&values))
                }

                pub fn $see(&mut self, values: &[$kind], #[constant] fate: Fate) -> Result<u64> {
                    fate.at(&numbers(values))
                }
            )+
        }
    };
}

worker! {
    Mail make_mail pass_mail view_mail take_mail later_mail all_mails see_mails,
    Handle make_handle pass_handle view_handle take_handle later_handle all_handles see_handles,
    Job make_job pass_job view_job take_job later_job all_jobs see_jobs,
    Tally make_tally pass_tally view_tally take_tally later_tally all_tallies see_tallies,
    Shared make_shared pass_shared view_shared take_shared later_shared all_shared see_shared,
}
