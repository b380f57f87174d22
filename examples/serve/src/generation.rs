//! The parameters of a request, checked: the part that completions and chats have in common.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use selvedge_llama::step::Sampling;
use serde_json::{Value, json};

use crate::error::Error;
use crate::fields::{Fields, wrong};

/// The most stop texts of a request, as with OpenAI.
const STOPS_MAX: usize = 4;
/// The longest stop text in bytes: the text held back for it costs time with every token.
const STOP_BYTES_MAX: usize = 256;

/// A checked request.
#[derive(Clone, Debug, PartialEq)]
pub struct Generation {
    /// Tokens of the prompt, at least one.
    pub prompt: Vec<u32>,
    /// The most tokens of the answer, at least one; prompt and answer together fit in the positions of the model.
    pub max_tokens: u32,
    /// The way in which each token is chosen.
    pub sampling: Sampling,
    /// Texts that end the answer.
    pub stop: Vec<String>,
}

/// The way in which the answer is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// True if the answer is sent piece by piece.
    pub stream: bool,
    /// True if a last event states the number of tokens.
    pub include_usage: bool,
}

impl Delivery {
    /// Reads `stream` and `stream_options`.
    ///
    /// # Errors
    /// [`Error::Field`].
    pub fn read(fields: &Fields) -> Result<Delivery, Error> {
        let stream = fields.flag("stream")?;
        let include_usage = fields.object("stream_options")?.flag("include_usage")?;
        if !stream && fields.get("stream_options").is_some() {
            return Err(Error::field("stream_options", "needs `stream` to be true"));
        }
        Ok(Delivery {
            stream,
            include_usage,
        })
    }
}

impl Generation {
    /// Reads the fields that completions and chats share, for a prompt.
    ///
    /// # Errors
    /// [`Error::Field`], [`Error::ContextLength`].
    pub fn read(fields: &Fields, prompt: Vec<u32>, positions: u32) -> Result<Generation, Error> {
        refuse_unsupported(fields)?;
        let temperature = fields.number("temperature", 0.0..=2.0, 1.0)? as f32;
        let top_p = fields.number("top_p", 0.0..=1.0, 1.0)? as f32;
        let seed = fields.integer("seed", i64::MIN..=i64::MAX)?;
        let stop = stops(fields)?;
        let asked = max_tokens(fields)?;
        let room = (positions as usize).saturating_sub(prompt.len());
        let answer = asked.unwrap_or(room as u32).max(1);
        if answer as usize > room {
            let (prompt, answer) = (prompt.len(), answer as usize);
            return Err(Error::ContextLength {
                positions,
                prompt,
                answer,
            });
        }
        let seed = seed.map_or_else(fresh_seed, |seed| seed as u64);
        Ok(Generation {
            prompt,
            max_tokens: answer,
            sampling: Sampling {
                temperature,
                top_p,
                seed,
            },
            stop,
        })
    }
}

/// Refuses unsupported fields that would change the answer, unless they have a neutral value.
fn refuse_unsupported(fields: &Fields) -> Result<(), Error> {
    let (zero, one, none) = (json!(0), json!(1), json!({}));
    let no = json!(false);
    let neutral: [(&'static str, &[Value]); 12] = [
        ("n", std::slice::from_ref(&one)),
        ("best_of", std::slice::from_ref(&one)),
        ("echo", std::slice::from_ref(&no)),
        ("suffix", &[json!("")]),
        ("logprobs", &[no.clone(), zero.clone()]),
        ("top_logprobs", std::slice::from_ref(&zero)),
        ("logit_bias", std::slice::from_ref(&none)),
        ("presence_penalty", std::slice::from_ref(&zero)),
        ("frequency_penalty", std::slice::from_ref(&zero)),
        ("tools", &[json!([])]),
        ("functions", &[json!([])]),
        ("response_format", &[json!({"type": "text"})]),
    ];
    neutral
        .iter()
        .try_for_each(|(param, neutral)| fields.refuse(param, neutral))
}

fn max_tokens(fields: &Fields) -> Result<Option<u32>, Error> {
    // The newer name comes first; a client that sends both means the same limit.
    for param in ["max_completion_tokens", "max_tokens"] {
        if let Some(tokens) = fields.integer(param, 1..=i64::from(u32::MAX))? {
            return Ok(u32::try_from(tokens).ok());
        }
    }
    Ok(None)
}

fn stops(fields: &Fields) -> Result<Vec<String>, Error> {
    let list = match fields.get("stop") {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) => list.as_slice(),
        Some(one) => std::slice::from_ref(one),
    };
    if list.len() > STOPS_MAX {
        return Err(Error::field(
            "stop",
            format!("has {} texts; at most {STOPS_MAX} are allowed", list.len()),
        ));
    }
    let text = |value: &Value| match value {
        Value::String(text) if text.is_empty() => Err(Error::field("stop", "is empty")),
        Value::String(text) if text.len() > STOP_BYTES_MAX => Err(Error::field(
            "stop",
            format!("is longer than {STOP_BYTES_MAX} bytes"),
        )),
        Value::String(text) => Ok(text.clone()),
        other => Err(wrong("stop", "a string or an array of strings", other)),
    };
    list.iter().map(text).collect()
}

/// Returns a different seed for each request that has none.
fn fresh_seed() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: only that no two numbers are equal matters. `RandomState` differs from process to process.
    RandomState::new().hash_one(NEXT.fetch_add(1, Ordering::Relaxed))
}
