//! An actor's part of the model: stage p of P, and rank t of T in the stage.

use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::error::LoadError;

/// One actor's part of the model. Layers are cut among stages (a pipeline); the matrices of a layer are cut among the
/// ranks of its stage, as in Megatron-LM (Shoeybi et al., 2019).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The stage, counted from 0.
    pub stage: usize,
    /// The number of stages, at least 1.
    pub stages: usize,
    /// The rank, counted from 0.
    pub rank: usize,
    /// The number of ranks, at least 1.
    pub ranks: usize,
}

impl Share {
    /// The whole model.
    pub const WHOLE: Share = Share {
        stage: 0,
        stages: 1,
        rank: 0,
        ranks: 1,
    };

    /// Whether the share is in the first stage, which begins with tokens.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.stage == 0
    }

    /// Whether the share is in the last stage, which ends with logits.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.stage + 1 == self.stages
    }

    /// Returns the layers of its stage, of `layers` in all: all stages have the same number, or the first ones have one
    /// more.
    #[must_use]
    pub fn layers(&self, layers: usize) -> Range<usize> {
        let (each, more) = (layers / self.stages, layers % self.stages);
        let before = |stage: usize| stage * each + stage.min(more);
        before(self.stage)..before(self.stage + 1)
    }

    /// Checks that this model can be cut in this way.
    ///
    /// # Errors
    /// [`LoadError::Stages`], [`LoadError::Ranks`].
    pub fn check(&self, config: &Config, folder: &Path) -> Result<(), LoadError> {
        let path = folder.join("config.json");
        let (layers, stages, ranks) = (config.layers, self.stages, self.ranks);
        if stages == 0 || stages > layers {
            return Err(LoadError::Stages { path, layers, stages });
        }
        let shared = shared(config);
        let uneven = shared.into_iter().find(|(_, size)| !divides(ranks, *size));
        let Some((field, found)) = uneven else {
            return Ok(());
        };
        let all = |ranks: &usize| shared.iter().all(|(_, size)| divides(*ranks, *size));
        let possible = (1..=config.key_value_heads).filter(all).collect();
        Err(LoadError::Ranks {
            path,
            field,
            found,
            ranks,
            possible,
        })
    }
}

/// Returns the sizes that ranks divide among them.
fn shared(config: &Config) -> [(&'static str, usize); 3] {
    [
        ("num_attention_heads", config.heads),
        ("num_key_value_heads", config.key_value_heads),
        ("intermediate_size", config.feed_forward),
    ]
}

fn divides(ranks: usize, size: usize) -> bool {
    ranks != 0 && size.is_multiple_of(ranks)
}
