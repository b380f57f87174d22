//! Which part of the model an actor holds: stage p of P, and there rank t of T.

use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::error::LoadError;

/// One actor's part of the model. Layers are cut among stages (a pipeline); what a layer multiplies by is cut among the ranks of its
/// stage, as Megatron-LM does (Shoeybi et al., 2019).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// From 0.
    pub stage: usize,
    /// At least 1.
    pub stages: usize,
    /// From 0.
    pub rank: usize,
    /// At least 1.
    pub ranks: usize,
}

impl Share {
    /// All of the model.
    pub const WHOLE: Share = Share {
        stage: 0,
        stages: 1,
        rank: 0,
        ranks: 1,
    };

    /// Whether it begins with tokens.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.stage == 0
    }

    /// Whether it ends with logits.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.stage + 1 == self.stages
    }

    /// The layers of its stage, of so many: all stages have equally many, or the first ones one more.
    #[must_use]
    pub fn layers(&self, layers: usize) -> Range<usize> {
        let (each, more) = (layers / self.stages, layers % self.stages);
        let before = |stage: usize| stage * each + stage.min(more);
        before(self.stage)..before(self.stage + 1)
    }

    /// Whether this model can be cut like that.
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

/// What ranks share.
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
