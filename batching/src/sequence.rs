//! Sequences: items that stay for many steps.

use std::ops::ControlFlow;

/// The part of a step that a member gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The slot of the member, its own as long as it stays; less than
    /// [`Batching::max_size`](crate::Batching::max_size). The graph's actors keep the member's state under this number.
    pub slot: u32,
    /// The maximum cost of the member's part of this step.
    pub budget: usize,
}

impl Grant {
    /// A part of a step, for tests of a [`Sequence`] without a batcher.
    #[must_use]
    pub fn new(slot: u32, budget: usize) -> Self {
        Grant { slot, budget }
    }
}

/// An item that takes part in many executions of a graph, beside others that come and go. An example is a text that a
/// language model continues.
///
/// For each step of a member, the batcher asks for its [`cost`](Self::cost), has it [`join`](Self::join) the step
/// within a budget, executes the graph, and has it [`advance`](Self::advance) by the answers. These methods run on the
/// batcher's thread: they should be short, and must never block. A sequence that panics fails alone.
pub trait Sequence: Send + 'static {
    /// The input of the graph: parts of several members.
    type Step: Default + 'static;
    /// The output of the graph for a step.
    type Answers: 'static;
    /// The final output for the client. A sequence can send parts of it earlier, through a channel that it holds.
    type Output: Send + 'static;

    /// Returns the cost of everything that the sequence has ready for the next step, at least 1: the number of tokens,
    /// for example.
    fn cost(&self) -> usize {
        1
    }

    /// Adds the sequence's part to the step, with a cost of at most `grant.budget`; the rest comes with later steps. If
    /// `join` panics, the parts that it has added already are executed with the others.
    fn join(&mut self, step: &mut Self::Step, grant: Grant);

    /// Takes the sequence's own part of the answers. With [`ControlFlow::Continue`] the sequence stays for another step,
    /// with [`ControlFlow::Break`] it leaves with its output.
    fn advance(&mut self, answers: &mut Self::Answers, grant: Grant) -> ControlFlow<Self::Output>;

    /// Whether the sequence is cancelled; dropping its ticket cancels it too. A cancelled sequence leaves before the
    /// next step.
    fn is_cancelled(&self) -> bool {
        false
    }
}
