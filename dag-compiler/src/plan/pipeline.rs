//! Pipeline parallelism: S stages, M micro-batches, and the order in which each stage works on them.
//!
//! A schedule is only an order of binds, because an actor runs its methods in bind order. [`PipelineSchedule::steps`] returns
//! the order, [`PipelineSchedule::bind`] binds a forward and a backward pass in that order, and [`PipelineSchedule::bubble`] returns
//! the idle time.
//!
//! - GPipe: Huang et al., *GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism*, 2019.
//! - 1F1B: Narayanan et al., *PipeDream*, 2019, in its form with a flush; it holds S activations instead of M.
//! - Interleaved 1F1B: Narayanan et al., *Efficient Large-Scale Language Model Training on GPU Clusters Using
//!   Megatron-LM*, 2021; every stage has V chunks of the model, which makes the bubble V times smaller.

use crate::bind::edge::Edge;

/// The order in which the stages of a pipeline work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineSchedule {
    /// All forward passes, then all backward passes.
    GPipe,
    /// One forward pass and one backward pass in turn, as soon as a stage can.
    OneForwardOneBackward,
    /// 1F1B in which each stage has several chunks of the model: chunk c of stage s is layer block c · S + s. If the
    /// number of micro-batches is no multiple of S, all forward passes come first.
    Interleaved {
        /// The number of chunks of each stage; 1 is plain 1F1B.
        chunks: usize,
    },
}

/// One pass of one micro-batch through one chunk of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// The stage.
    pub stage: usize,
    /// The chunk of the stage; 0 if the stage has only one.
    pub chunk: usize,
    /// The micro-batch.
    pub batch: usize,
    /// True for a backward pass.
    pub backward: bool,
}

impl PipelineSchedule {
    /// Returns the number of chunks of each stage.
    pub fn chunks(self) -> usize {
        match self {
            PipelineSchedule::GPipe | PipelineSchedule::OneForwardOneBackward => 1,
            PipelineSchedule::Interleaved { chunks } => chunks.max(1),
        }
    }

    /// Returns the steps of one stage, in order. Forward and backward passes take micro-batches first in, first out.
    pub fn stage(self, stage: usize, stages: usize, batches: usize) -> Vec<Step> {
        let chunks = self.chunks();
        let passes = chunks * batches;
        let pass = |number: usize, backward: bool| {
            // Groups of S micro-batches go through all chunks before the next group begins.
            let group = number / (stages * chunks).max(1);
            let members = stages.min(batches.saturating_sub(group * stages)).max(1);
            let inside = number - group * stages * chunks;
            let chunk = inside / members;
            Step {
                stage,
                chunk: if backward { chunks - 1 - chunk } else { chunk },
                batch: group * stages + inside % members,
                backward,
            }
        };
        let last = stages.saturating_sub(stage + 1);
        let warm = match self {
            PipelineSchedule::GPipe => passes,
            PipelineSchedule::OneForwardOneBackward => last,
            PipelineSchedule::Interleaved { .. } if chunks == 1 => last,
            PipelineSchedule::Interleaved { .. } if !batches.is_multiple_of(stages.max(1)) => passes,
            PipelineSchedule::Interleaved { .. } => 2 * last + (chunks - 1) * stages,
        };
        let warm = warm.min(passes);
        let mut steps: Vec<Step> = (0..warm).map(|number| pass(number, false)).collect();
        for number in warm..passes {
            steps.extend([pass(number, false), pass(number - warm, true)]);
        }
        steps.extend((passes - warm..passes).map(|number| pass(number, true)));
        steps
    }

    /// Returns all steps in an order in which they can be bound: every step comes after the steps that it needs, and
    /// the steps of each stage keep their order. O(S · V · M).
    pub fn steps(self, stages: usize, batches: usize) -> Vec<Step> {
        let chunks = self.chunks();
        let depth = stages * chunks;
        let lists: Vec<Vec<Step>> = (0..stages)
            .map(|stage| self.stage(stage, stages, batches))
            .collect();
        let mut next = vec![0usize; stages];
        // The finished passes, by depth in the model and by micro-batch: forward passes, then backward passes.
        let mut done = vec![false; 2 * depth * batches];
        let place = |depth_at: usize, step: Step| depth_at * batches + step.batch;
        let mut ordered = Vec::with_capacity(lists.iter().map(Vec::len).sum());
        let mut moved = true;
        while std::mem::take(&mut moved) {
            for (list, at) in lists.iter().zip(&mut next) {
                while let Some(step) = list.get(*at).copied() {
                    let block = step.chunk * stages + step.stage;
                    // The forward pass goes down the model; the backward pass goes up the same way.
                    let here = if step.backward {
                        2 * depth - 1 - block
                    } else {
                        block
                    };
                    let ready = here == 0 || done.get(place(here - 1, step)).copied().unwrap_or_default();
                    if !ready {
                        break;
                    }
                    if let Some(done) = done.get_mut(place(here, step)) {
                        *done = true;
                    }
                    ordered.push(step);
                    (*at, moved) = (*at + 1, true);
                }
            }
        }
        ordered
    }

    /// Returns the fraction of time in which a stage is idle, if all passes take equally long:
    /// `(S - 1) / (V · M + S - 1)`.
    pub fn bubble(self, stages: usize, batches: usize) -> f64 {
        let idle = stages.saturating_sub(1) as f64;
        idle / ((self.chunks() * batches) as f64 + idle).max(1.0)
    }

    /// Binds a forward and a backward pass of every micro-batch, in the order of this schedule. `forward` and
    /// `backward` bind a stage's method on a chunk. `turn` makes the first gradient from the output of the last stage
    /// (the loss). Returns the gradients of the first stage, by micro-batch.
    ///
    /// A stage that keeps activations needs them back in the order in which it made them, chunk by chunk.
    pub fn bind<A, G>(
        self,
        stages: usize,
        inputs: &[Edge<A>],
        mut forward: impl FnMut(Step, &Edge<A>) -> Edge<A>,
        mut turn: impl FnMut(Step, &Edge<A>) -> Edge<G>,
        mut backward: impl FnMut(Step, &Edge<G>) -> Edge<G>,
    ) -> Vec<Edge<G>> {
        let last = (stages * self.chunks()).saturating_sub(1);
        let mut activations: Vec<Edge<A>> = inputs.to_vec();
        let mut gradients: Vec<Option<Edge<G>>> = inputs.iter().map(|_| None).collect();
        for step in self.steps(stages, inputs.len()) {
            let passes = activations.get_mut(step.batch).zip(gradients.get_mut(step.batch));
            match passes {
                Some((activation, _)) if !step.backward => *activation = forward(step, activation),
                Some((activation, gradient)) => {
                    let from = match gradient.take() {
                        None if step.chunk * stages + step.stage == last => Some(turn(step, activation)),
                        from => from,
                    };
                    *gradient = from.map(|from| backward(step, &from));
                }
                None => {}
            }
        }
        gradients.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests;
