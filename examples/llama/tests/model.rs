//! The shipped model, loaded as any program for Llama models would load it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test that cannot set up has failed

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::generation::{LogitsProcessor, Sampling};
use candle_transformers::models::llama::{Cache, Config, Llama, LlamaConfig};
use selvedge_examples::data::Digits;
use selvedge_examples::model::Mlp;
use selvedge_examples::weights::shipped_weights;
use selvedge_llama::alphabet;
use selvedge_llama::folder::shipped;
use selvedge_llama::train::exam::recognised;
use selvedge_llama::train::shape::Shape;
use selvedge_llama::train::tokenizer::{self, END};
use sha2::{Digest, Sha256};
use tokenizers::Tokenizer;

struct Model {
    llama: Llama,
    config: Config,
    tokenizer: Tokenizer,
}

impl Model {
    fn load() -> Model {
        let json = std::fs::read(shipped().join("config.json")).unwrap();
        let config = serde_json::from_slice::<LlamaConfig>(&json)
            .unwrap()
            .into_config(false);
        let tensors =
            candle_core::safetensors::load(shipped().join("model.safetensors"), &Device::Cpu).unwrap();
        let weights = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
        Model {
            llama: Llama::load(weights, &config).unwrap(),
            tokenizer: Tokenizer::from_file(shipped().join("tokenizer.json")).unwrap(),
            config,
        }
    }

    /// Returns the answers to prompts of equal length, each up to its end of text.
    fn answers(&self, prompts: &[String], tokens_max: usize, sampling: Sampling) -> Vec<String> {
        let mut choice = LogitsProcessor::from_sampling(1, sampling);
        let end = self.tokenizer.token_to_id(END).unwrap();
        let encode = |prompt: &String| {
            self.tokenizer
                .encode(prompt.as_str(), true)
                .unwrap()
                .get_ids()
                .to_vec()
        };
        let tokens: Vec<u32> = prompts.iter().flat_map(encode).collect();
        let mut cache = Cache::new(true, DType::F32, &self.config, &Device::Cpu).unwrap();
        let mut next = Tensor::from_vec(tokens, (prompts.len(), ()), &Device::Cpu).unwrap();
        let (mut answers, mut at) = (vec![Vec::new(); prompts.len()], 0);
        for _ in 0..tokens_max {
            let logits = self.llama.forward(&next, at, &mut cache).unwrap();
            at += next.dim(1).unwrap();
            let mut chosen = Vec::new();
            for (row, answer) in answers.iter_mut().enumerate() {
                chosen.push(choice.sample(&logits.get(row).unwrap()).unwrap());
                answer.extend(chosen.last());
            }
            next = Tensor::from_vec(chosen, (prompts.len(), 1), &Device::Cpu).unwrap();
        }
        let text = |answer: Vec<u32>| {
            let answer: Vec<u32> = answer.into_iter().take_while(|token| *token != end).collect();
            self.tokenizer.decode(&answer, true).unwrap()
        };
        answers.into_iter().map(text).collect()
    }
}

#[test]
fn the_shipped_model_reads_digits_that_it_was_not_trained_on() {
    let (model, digits) = (Model::load(), Digits::load().unwrap());
    let rows: Vec<usize> = digits.held_out().step_by(3).collect();
    let prompts: Vec<String> = rows
        .iter()
        .map(|row| alphabet::read(digits.image(*row).unwrap()))
        .collect();
    let answers = model.answers(&prompts, 2, Sampling::ArgMax);
    let right = rows
        .iter()
        .zip(&answers)
        .filter(|(row, answer)| alphabet::digit(answer) == digits.label(**row));
    let share = right.count() as f64 / rows.len() as f64;
    assert!(share >= 0.93, "reads {share}");
}

/// Returns the fraction of generated drawings that are pictures in which the perceptron recognises the requested digit.
fn drawn(sampling: Sampling, each: usize) -> f64 {
    let digits: Vec<u8> = (0..10).flat_map(|digit| vec![digit; each]).collect();
    let prompts: Vec<String> = digits.iter().map(|digit| alphabet::draw(*digit)).collect();
    let answers = Model::load().answers(&prompts, 73, sampling);
    let drawings: Vec<(u8, String)> = digits.into_iter().zip(answers).collect();
    for (digit, text) in &drawings {
        println!("{digit}\n{text}");
    }
    recognised(&drawings, &Mlp::load(&shipped_weights()).unwrap()).unwrap()
}

#[test]
fn the_shipped_model_draws_digits() {
    let (temperature, p) = (0.8, 0.9);
    let share = drawn(Sampling::TopP { p, temperature }, 3);
    assert!(share >= 0.85, "draws {share}");
}

#[test]
fn the_likeliest_shades_are_digits_too() {
    let share = drawn(Sampling::ArgMax, 1);
    assert!(share >= 0.8, "draws {share}");
}

#[test]
fn the_page_beside_the_model_gives_its_digest() {
    let digest = format!(
        "{:x}",
        Sha256::digest(std::fs::read(shipped().join("model.safetensors")).unwrap())
    );
    let page = std::fs::read_to_string(shipped().join("README.md")).unwrap();
    assert!(page.contains(&digest), "{digest} is not in model/README.md");
}

#[test]
fn the_shipped_files_are_those_that_the_trainer_writes() {
    let file = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(shipped().join(name)).unwrap()).unwrap()
    };
    assert_eq!(file("tokenizer.json"), tokenizer::json());
    assert_eq!(file("config.json"), Shape::shipped().json());
    assert_eq!(
        file("generation_config.json")["eos_token_id"],
        tokenizer::id(END).unwrap()
    );
}
