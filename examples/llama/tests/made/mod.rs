//! Models generated for tests: seeded numbers in the layout of Hugging Face, and helpers to run them.
#![allow(dead_code)] // every test file uses a part of the module

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, TensorView, serialize};
use selvedge_llama::config::Config;
use selvedge_llama::deployment::Deployment;
use selvedge_llama::share::Share;
use selvedge_llama::step::{Batch, Part, Sampling};
use selvedge_llama::tensors::needed;

/// Greedy sampling.
pub(crate) const GREEDY: Option<Sampling> = Some(Sampling {
    temperature: 0.0,
    top_p: 1.0,
    seed: 0,
});

pub(crate) const CONFIG: &str = r#"{
    "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128, "vocab_size": 64,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5,
    "max_position_embeddings": 320, "tie_word_embeddings": false, "bos_token_id": 1, "eos_token_id": 2
}"#;

/// The shape and the elements of each tensor, by name.
pub(crate) type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// A folder of its own, removed on drop.
pub(crate) struct Made {
    pub(crate) path: PathBuf,
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Made {
    /// Makes a folder with only a configuration.
    pub(crate) fn bare(name: &str, config: &str) -> Made {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name} {}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("config.json"), config).unwrap();
        Made { path }
    }

    /// Makes a whole model.
    pub(crate) fn new(name: &str, config: &str) -> Made {
        let made = Made::bare(name, config);
        fs::write(made.weights(), bytes(&tensors(&made.config()), Dtype::F32)).unwrap();
        made
    }

    pub(crate) fn config(&self) -> Config {
        Config::read(&self.path).unwrap()
    }

    pub(crate) fn weights(&self) -> PathBuf {
        self.path.join("model.safetensors")
    }
}

/// Generates all tensors of a model: norms around 1, the others scaled so that hidden states keep their size.
pub(crate) fn tensors(config: &Config) -> Tensors {
    let mut state = 0x5eed_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let needed = needed(config, &Share::WHOLE).into_iter();
    let tensors = needed.map(|one| {
        let columns = one.shape.get(1).copied();
        let count = one.shape.iter().product();
        let element = || match columns {
            None => 1.0 + 0.1 * random(),
            Some(columns) => random() * (3.0 / columns as f32).sqrt(),
        };
        let elements = std::iter::repeat_with(element).take(count).collect();
        (one.name, (one.shape, elements))
    });
    tensors.collect()
}

/// Returns the bytes of a safetensors file.
pub(crate) fn bytes(tensors: &Tensors, dtype: Dtype) -> Vec<u8> {
    let raw = |elements: &[f32]| -> Vec<u8> {
        match dtype {
            Dtype::BF16 => elements
                .iter()
                .flat_map(|x| half::bf16::from_f32(*x).to_le_bytes())
                .collect(),
            Dtype::F16 => elements
                .iter()
                .flat_map(|x| half::f16::from_f32(*x).to_le_bytes())
                .collect(),
            _ => elements.iter().flat_map(|x| x.to_le_bytes()).collect(),
        }
    };
    let raw: Vec<_> = tensors
        .iter()
        .map(|(name, (shape, x))| (name, shape, raw(x)))
        .collect();
    let views = raw.iter().map(|(name, shape, raw)| {
        (
            name.as_str(),
            TensorView::new(dtype, shape.to_vec(), raw).unwrap(),
        )
    });
    serialize(views, None).unwrap()
}

/// Makes a batch of one part.
pub(crate) fn one(slot: u32, start: usize, tokens: &[u32]) -> Batch {
    Batch {
        parts: vec![part(slot, start, tokens)],
    }
}

pub(crate) fn part(slot: u32, start: usize, tokens: &[u32]) -> Part {
    Part {
        slot,
        start: start as u32,
        tokens: tokens.to_vec(),
        sampling: GREEDY,
    }
}

/// Returns the tokens of a generated prompt.
pub(crate) fn prompt(count: u32, seed: u32) -> Vec<u32> {
    (0..count).map(|index| (index * 7 + seed * 13 + 3) % 64).collect()
}

/// Returns the worker processes of a deployment.
pub(crate) fn pids(model: &Deployment) -> Vec<u32> {
    model.actors().filter_map(|actor| actor.pid()).collect()
}

pub(crate) fn lives(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}
