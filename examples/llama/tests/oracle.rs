//! Compares the results with another implementation of Llama on the same files: candle-transformers is the oracle.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test that cannot set up has failed

mod made;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama::{Cache, Llama, LlamaConfig};
use made::{CONFIG, Made, bytes, one, prompt, tensors};
use safetensors::tensor::Dtype;
use selvedge_llama::decoder::Decoder;
use selvedge_llama::folder::Folder;
use selvedge_llama::layer::Room;
use selvedge_llama::share::Share;

const STEPS: usize = 48;

/// Returns the greatest difference between the logits of both implementations, for a prompt and the steps after it.
/// Both get the oracle's tokens.
fn apart(made: &Made) -> f32 {
    let text = std::fs::read(made.path.join("config.json")).unwrap();
    let config = serde_json::from_slice::<LlamaConfig>(&text)
        .unwrap()
        .into_config(false);
    let file = std::fs::read(made.weights()).unwrap();
    let oracle_weights = VarBuilder::from_buffered_safetensors(file, DType::F32, &Device::Cpu).unwrap();
    let oracle = Llama::load(oracle_weights, &config).unwrap();
    let mut cache = Cache::new(true, DType::F32, &config, &Device::Cpu).unwrap();

    let room = Room {
        slots: 1,
        positions: config.max_position_embeddings,
    };
    let mut ours = Decoder::load(&Folder::open(&made.path).unwrap(), Share::WHOLE, room).unwrap();
    let (mut start, mut tokens, mut most) = (0, prompt(33, 1), 0.0_f32);
    for _ in 0..STEPS {
        let input = Tensor::new(tokens.as_slice(), &Device::Cpu)
            .unwrap()
            .unsqueeze(0)
            .unwrap();
        let expected = oracle.forward(&input, start, &mut cache).unwrap();
        let expected: Vec<f32> = expected.squeeze(0).unwrap().to_vec1().unwrap();
        let sampled = ours.step(&one(0, start, &tokens)).unwrap();
        let found: Vec<Vec<f32>> = ours.logits().unwrap().to_vec2().unwrap();
        for (found, expected) in found[0].iter().zip(&expected) {
            most = most.max((found - expected).abs());
        }
        let likeliest = expected.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let token = expected.iter().position(|logit| *logit == likeliest).unwrap() as u32;
        assert_eq!(sampled[0].token, token);
        start += tokens.len();
        tokens = vec![token];
    }
    most
}

#[test]
fn candle_transformers_computes_the_same() {
    let most = apart(&Made::new("oracle", CONFIG));
    assert!(most <= 1e-4, "{most}");
}

#[test]
fn tied_embeddings_are_the_head() {
    let config = CONFIG.replace("\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
    let made = Made::new("oracle tied", &config);
    assert!(!tensors(&made.config()).contains_key("lm_head.weight"));
    let most = apart(&made);
    assert!(most <= 1e-4, "{most}");
}

#[test]
fn half_precision_is_read_as_single() {
    let made = Made::new("oracle half", CONFIG);
    for dtype in [Dtype::F16, Dtype::BF16] {
        std::fs::write(made.weights(), bytes(&tensors(&made.config()), dtype)).unwrap();
        let most = apart(&made);
        assert!(most <= 1e-4, "{dtype}: {most}");
    }
}

#[test]
fn llama_3_stretches_long_wavelengths() {
    let stretch = r#""rope_theta": 500000.0, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64, "rope_type": "llama3"}, "rms_norm_eps""#;
    let config = CONFIG.replace("\"rms_norm_eps\"", stretch);
    let most = apart(&Made::new("oracle stretched", &config));
    assert!(most <= 1e-4, "{most}");
}
