//! The files of a model, in the layout that Hugging Face's libraries write and read.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use candle_core::{DType, Result, Tensor};
use serde_json::{Value, json};

use super::shape::Shape;
use super::tokenizer::{self, END};

/// Rounds the numbers of a model to those of its file, which have 16 bits each.
///
/// # Errors
/// The errors of candle.
pub fn rounded(tensors: HashMap<String, Tensor>) -> Result<HashMap<String, Tensor>> {
    let halved = |(name, tensor): (String, Tensor)| Ok((name, tensor.to_dtype(DType::F16)?));
    tensors.into_iter().map(halved).collect()
}

/// Writes a model.
///
/// # Errors
/// The errors of the file system and of candle.
pub fn write(folder: &Path, shape: &Shape, tensors: &HashMap<String, Tensor>) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    write_json(&folder.join("config.json"), &shape.json())?;
    write_json(&folder.join("tokenizer.json"), &tokenizer::json())?;
    write_json(&folder.join("generation_config.json"), &generation())?;
    write_json(&folder.join("tokenizer_config.json"), &tokenizer_config(shape))?;
    candle_core::safetensors::save(tensors, folder.join("model.safetensors"))
}

fn generation() -> Value {
    json!({
        "do_sample": true,
        "temperature": 0.8,
        "top_p": 0.9,
        "max_new_tokens": 80,
        "eos_token_id": tokenizer::id(END),
    })
}

/// Returns the tokenizer's configuration. Its chat template renders only the last message of a conversation, because
/// the model was trained on single prompts.
fn tokenizer_config(shape: &Shape) -> Value {
    json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": shape.positions,
        "clean_up_tokenization_spaces": false,
        "unk_token": tokenizer::UNKNOWN,
        "eos_token": END,
        "chat_template": "{{ messages[-1]['content'] }}",
    })
}

fn write_json(path: &Path, value: &Value) -> io::Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    std::fs::write(path, text)
}
