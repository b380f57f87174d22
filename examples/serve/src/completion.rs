//! `/v1/completions`: a prompt that the model continues.

use serde_json::Value;

use crate::error::Error;
use crate::fields::{Fields, wrong};
use crate::prompts::Encoder;

const PARAM: &str = "prompt";
const KINDS: &str = "a string, or an array of token ids";

/// Returns the tokens of `prompt`: a text or an array of token ids; either may be the only element of an array, as some
/// clients send it.
///
/// # Errors
/// [`Error::Field`], [`Error::PromptTooLong`].
pub fn prompt(fields: &Fields, encoder: &Encoder) -> Result<Vec<u32>, Error> {
    let value = fields
        .get(PARAM)
        .ok_or_else(|| Error::field(PARAM, "is missing"))?;
    match value {
        Value::String(text) => encoder.encode(PARAM, text),
        Value::Array(list) => match list.as_slice() {
            [] => Err(Error::field(PARAM, "is empty")),
            [Value::String(text)] => encoder.encode(PARAM, text),
            [Value::Array(ids)] => tokens(ids, encoder.size()),
            [Value::String(_) | Value::Array(_), ..] => Err(Error::field(
                PARAM,
                format!("has {} prompts; one a request is supported", list.len()),
            )),
            ids => tokens(ids, encoder.size()),
        },
        other => Err(wrong(PARAM, KINDS, other)),
    }
}

fn tokens(ids: &[Value], size: u32) -> Result<Vec<u32>, Error> {
    if ids.is_empty() {
        return Err(Error::field(PARAM, "is empty"));
    }
    let token = |value: &Value| match value.as_u64() {
        Some(id) if id < u64::from(size) => Ok(id as u32),
        Some(id) => Err(Error::field(
            PARAM,
            format!("has token {id}; the model has {size} tokens, from 0"),
        )),
        None => Err(wrong(PARAM, KINDS, value)),
    };
    ids.iter().map(token).collect()
}
