//! Batching: requests of many clients are combined into executions of a graph.
//!
//! A model takes little longer for thirty items than for one, but clients send their items one by one. A [`Batcher`]
//! stands between them: any number of threads and tasks submit items, each gets a [`Ticket`] for its answer, and one
//! thread has the graph execute the items together. That thread sleeps when it has no work.
//!
//! # Dynamic batching
//!
//! Each item is in one execution. An execution has at most `max_size` items and a cost of at most `max_cost`. It begins
//! when it is full, or when the oldest item has waited for `max_delay`.
//!
//! ```
//! use std::time::Duration;
//! use selvedge::prelude::*;
//!
//! struct Model;
//!
//! #[actor]
//! impl Model {
//!     pub fn new() -> Self { Model }
//!     pub fn embed(&mut self, texts: &[String]) -> Vec<usize> { texts.iter().map(String::len).collect() }
//! }
//!
//! # fn main() -> Result<()> {
//! let runtime = Runtime::new();
//! let model = runtime.spawn::<Model>("model", ()).in_thread()?;
//! let graph = runtime.compile(|texts: Edge<Vec<String>>| model.embed(&texts))?;
//! let options = Batching::new().max_size(8).max_delay(Duration::from_millis(2));
//! let batcher = Batcher::new(graph, options)?;
//! let (one, two) = (batcher.submit("one".into()), batcher.submit("three".into()));
//! assert_eq!((one.wait()?, two.wait()?), (3, 5)); // or `.await`
//! # Ok(())
//! # }
//! ```
//!
//! # Continuous batching
//!
//! Each item is a [`Sequence`] that stays for many steps, in a slot of its own. Meanwhile, other items come and go.
//!
//! ```
//! use std::ops::ControlFlow;
//! use selvedge::batching::{Batching, ContinuousBatcher, Grant, Sequence};
//! use selvedge::prelude::*;
//!
//! struct Model;
//!
//! #[actor]
//! impl Model {
//!     pub fn new() -> Self { Model }
//!     /// The number that follows, for the member in each slot.
//!     pub fn step(&mut self, parts: &[(u32, u64)]) -> Vec<(u32, u64)> {
//!         parts.iter().map(|(slot, last)| (*slot, last + 1)).collect()
//!     }
//! }
//!
//! /// Counts up to a number. The output is the list of the numbers on the way.
//! struct Count { path: Vec<u64>, end: u64 }
//!
//! impl Sequence for Count {
//!     type Step = Vec<(u32, u64)>;
//!     type Answers = Vec<(u32, u64)>;
//!     type Output = Vec<u64>;
//!
//!     fn join(&mut self, step: &mut Self::Step, grant: Grant) {
//!         step.push((grant.slot, self.path.last().copied().unwrap_or_default()));
//!     }
//!
//!     fn advance(&mut self, answers: &mut Self::Answers, grant: Grant) -> ControlFlow<Vec<u64>> {
//!         let own = answers.iter().find(|(slot, _)| *slot == grant.slot);
//!         self.path.extend(own.map(|(_, next)| *next));
//!         if self.path.last() < Some(&self.end) {
//!             return ControlFlow::Continue(());
//!         }
//!         ControlFlow::Break(std::mem::take(&mut self.path))
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! let runtime = Runtime::new();
//! let model = runtime.spawn::<Model>("model", ()).in_thread()?;
//! let graph = runtime.compile(|parts: Edge<Vec<(u32, u64)>>| model.step(&parts))?;
//! let batcher: ContinuousBatcher<Count> = Batcher::continuous(graph, Batching::new().max_size(4))?;
//! let tickets = [2, 5].map(|end| batcher.submit(Count { path: vec![], end }));
//! let [short, long] = tickets.map(|ticket| ticket.wait());
//! assert_eq!((short?, long?), (vec![1, 2], vec![1, 2, 3, 4, 5]));
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - Every item is answered once: with its value, or with the reason why there is none ([`BatchError`]). An item that
//!   is not accepted is refused at once, and [`Batcher::try_submit`] returns it.
//! - Every wait is bounded: [`Batching::max_wait`] limits the time in the queue, [`Batching::timeout`] the time of an
//!   execution.
//! - A bad item fails alone, and user code that panics fails only its own item.
//! - When the graph ends, the items that it was executing are answered with the cause. An owner that goes on with
//!   another graph uses [`Batcher::breakage`] and [`Batcher::replace`].
//!
//! The package lies above the compiler: it uses graphs and executions, and knows no actors.

#![warn(missing_debug_implementations)]

mod options;

mod error;

mod ticket;

mod queue;

mod share;

mod pace;

mod sequence;

mod shared;

mod graph_slot;

mod in_flight;

mod dynamic;

mod continuous;

mod batcher;

mod stats;

pub use batcher::{Batcher, ContinuousBatcher};
pub use error::{BatchError, BatcherError, Refused};
pub use options::{Batching, OnBroken, SubmitOptions};
pub use sequence::{Grant, Sequence};
pub use stats::{Histogram, Stats};
pub use ticket::Ticket;
