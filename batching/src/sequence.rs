//! An item that stays for many steps.

/// A member's place in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Its own as long as it stays; less than [`Batching::max_size`](crate::Batching::max_size). What the graph's actors keep
    /// for it, they keep under this number.
    pub slot: u32,
    /// What its part of this step may cost.
    pub budget: usize,
}

/// What a member says after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress<O> {
    /// It stays.
    Stay,
    /// It leaves, with its output.
    Done(O),
}

/// Something that takes part in many executions of a graph, such as a text that a language model continues, beside others that
/// come and go.
///
/// For each step that a member is in, the batcher asks for its [`cost`](Self::cost), has it [`join`](Self::join) the step within
/// a budget, executes the graph, and has it [`advance`](Self::advance) by the answers. Its methods run on the batcher's thread:
/// they should be short, and never block. One that panics fails alone.
pub trait Sequence: Send + 'static {
    /// What the graph takes: parts of several members.
    type Step: Default + 'static;
    /// What the graph gives for a step.
    type Answers: 'static;
    /// What the client gets in the end. Parts it may be sent meanwhile, through a channel that the sequence holds.
    type Output: Send + 'static;

    /// What it would cost to take all that it has ready into the next step, at least 1: tokens, say.
    fn cost(&self) -> usize {
        1
    }

    /// Puts its part into the step, of at most `seat.budget`; the rest comes with later steps. What it put there before it
    /// panicked is executed with the others.
    fn join(&mut self, step: &mut Self::Step, seat: Seat);

    /// Takes what is its own from the answers.
    fn advance(&mut self, answers: &mut Self::Answers, seat: Seat) -> Progress<Self::Output>;

    /// Whether nobody wants it any more; dropping its ticket says so too. It then leaves before the next step.
    fn is_cancelled(&self) -> bool {
        false
    }
}
