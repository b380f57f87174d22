//! The graph of a step: the tasks of every share, and the edges between them.

use selvedge::prelude::*;
use selvedge::reduce;

use crate::config::Config;
use crate::share::Share;
use crate::stage::StageHandle;
use crate::step::{Batch, Sampled};

/// Binds a model with one rank per stage: one task per stage, and hidden states between them.
pub(crate) fn pipeline(stages: &[StageHandle], batch: &Edge<Batch>) -> Edge<Vec<Sampled>> {
    match stages {
        [] => constant(Vec::new()),
        [whole] => whole.whole(batch),
        [first, middle @ .., last] => {
            let x = first.first(batch);
            let x = middle.iter().fold(x, |x, stage| stage.middle(&x, batch));
            last.last(&x, batch)
        }
    }
}

/// Binds a model with several ranks per stage: every half of a layer is a task of each rank and ends in a sum over the
/// ranks. Rank r of a stage passes the hidden states to rank r of the next.
pub(crate) fn grid(
    shares: &[StageHandle],
    ranks: usize,
    config: &Config,
    batch: &Edge<Batch>,
) -> Edge<Vec<Sampled>> {
    let stages = shares.len() / ranks;
    let mut x: Vec<Edge<Tensor>> = shares.iter().take(ranks).map(|rank| rank.embed(batch)).collect();
    for (stage, group) in shares.chunks_exact(ranks).enumerate() {
        let share = Share {
            stage,
            stages,
            rank: 0,
            ranks,
        };
        let layers = share.layers(config.layers);
        for layer in layers.clone() {
            let enters = stage > 0 && layer == layers.start;
            let attention = |(rank, x): (&StageHandle, &Edge<Tensor>)| {
                let part = match enters {
                    true => rank.enter(x, batch, layer),
                    false => rank.attention(x, layer),
                };
                part.named(format!("{}: attention {layer}", rank.actor().name()))
            };
            let mlp = |(rank, x): (&StageHandle, &Edge<Tensor>)| {
                let part = rank.mlp(x, layer);
                part.named(format!("{}: mlp {layer}", rank.actor().name()))
            };
            let parts: Vec<_> = group.iter().zip(&x).map(attention).collect();
            x = allreduce(ReduceOp::Sum, parts);
            let parts: Vec<_> = group.iter().zip(&x).map(mlp).collect();
            if let (true, Some(leader)) = (layer + 1 == config.layers, group.first()) {
                return leader.head(&reduce(ReduceOp::Sum, 0, parts), batch);
            }
            x = allreduce(ReduceOp::Sum, parts);
        }
    }
    constant(Vec::new())
}
