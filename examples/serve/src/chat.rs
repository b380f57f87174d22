//! `/v1/chat/completions`: messages, which become the prompt of the model.

use serde_json::Value;

use crate::error::Error;
use crate::fields::{Fields, wrong};

const PARAM: &str = "messages";

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The role of the speaker: system, developer, user or assistant.
    pub role: String,
    /// The text of the message.
    pub text: String,
}

/// Reads `messages`.
///
/// # Errors
/// [`Error::Field`].
pub fn messages(fields: &Fields) -> Result<Vec<Message>, Error> {
    match fields.get(PARAM) {
        None => Err(Error::field(PARAM, "is missing")),
        Some(Value::Array(list)) if list.is_empty() => Err(Error::field(PARAM, "is empty")),
        Some(Value::Array(list)) => list.iter().map(message).collect(),
        Some(other) => Err(wrong(PARAM, "an array", other)),
    }
}

fn message(value: &Value) -> Result<Message, Error> {
    let Value::Object(message) = value else {
        return Err(wrong(PARAM, "an array of objects", value));
    };
    let role = message.get("role").and_then(Value::as_str);
    let role = role.ok_or_else(|| Error::field(PARAM, "has a message without a `role`"))?;
    if !["system", "developer", "user", "assistant"].contains(&role) {
        return Err(Error::field(
            PARAM,
            format!("has the role `{role}`; use system, developer, user or assistant"),
        ));
    }
    let text = match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().map(part).collect::<Result<_, _>>()?,
        Some(other) => return Err(wrong(PARAM, "of messages whose `content` is a string", other)),
        None => return Err(Error::field(PARAM, "has a message without `content`")),
    };
    Ok(Message {
        role: role.to_owned(),
        text,
    })
}

/// Reads a part of a message that is an array: `{"type": "text", "text": …}`.
fn part(value: &Value) -> Result<String, Error> {
    let text = value.get("text").and_then(Value::as_str);
    let is_text = value.get("type").and_then(Value::as_str) == Some("text");
    match text {
        Some(text) if is_text => Ok(text.to_owned()),
        _ => Err(Error::field(
            PARAM,
            "has a part that is no text; only text is supported",
        )),
    }
}
