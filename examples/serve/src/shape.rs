//! The JSON objects of answers: whole, in pieces, and with the usage.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::sequence::Ending;

/// The interface that an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `/v1/completions`.
    Completion,
    /// `/v1/chat/completions`.
    Chat,
}

/// The fields that all objects of one answer share.
#[derive(Clone, Debug)]
pub struct Shape {
    kind: Kind,
    id: String,
    created: u64,
    model: String,
    prompt_tokens: usize,
    /// True if a usage event follows the pieces; each piece then has a `usage` of null.
    billed: bool,
}

impl Shape {
    /// Creates the shape of a new answer, with or without a [`bill`](Self::bill) after its pieces.
    pub fn new(kind: Kind, model: &str, prompt_tokens: usize, billed: bool) -> Shape {
        let prefix = match kind {
            Kind::Completion => "cmpl",
            Kind::Chat => "chatcmpl",
        };
        Shape {
            kind,
            id: format!("{prefix}-{}", unique()),
            created: now(),
            model: model.to_owned(),
            prompt_tokens,
            billed,
        }
    }

    /// Returns the whole answer.
    pub fn whole(&self, text: &str, ending: Ending) -> Value {
        let (object, choice) = match self.kind {
            Kind::Completion => ("text_completion", json!({"text": text})),
            Kind::Chat => {
                let message = json!({"role": "assistant", "content": text, "refusal": null});
                ("chat.completion", json!({"message": message}))
            }
        };
        let mut object = self.object(object, vec![choose(choice, Some(ending))]);
        insert(&mut object, "usage", self.usage(ending));
        object
    }

    /// Returns the event before the first piece, which chats have.
    pub fn opening(&self) -> Option<Value> {
        let delta = json!({"delta": {"role": "assistant", "content": ""}});
        (self.kind == Kind::Chat).then(|| self.event(vec![choose(delta, None)]))
    }

    /// Returns a piece.
    pub fn piece(&self, text: &str) -> Value {
        let choice = match self.kind {
            Kind::Completion => json!({"text": text}),
            Kind::Chat => json!({"delta": {"content": text}}),
        };
        self.event(vec![choose(choice, None)])
    }

    /// Returns the last piece, without text.
    pub fn closing(&self, ending: Ending) -> Value {
        let choice = match self.kind {
            Kind::Completion => json!({"text": ""}),
            Kind::Chat => json!({"delta": {}}),
        };
        self.event(vec![choose(choice, Some(ending))])
    }

    /// Returns the usage event, which follows the last piece.
    pub fn bill(&self, ending: Ending) -> Value {
        let mut event = self.event(Vec::new());
        insert(&mut event, "usage", self.usage(ending));
        event
    }

    fn event(&self, choices: Vec<Value>) -> Value {
        let object = match self.kind {
            Kind::Completion => "text_completion",
            Kind::Chat => "chat.completion.chunk",
        };
        let mut event = self.object(object, choices);
        if self.billed {
            insert(&mut event, "usage", Value::Null);
        }
        event
    }

    fn object(&self, object: &str, choices: Vec<Value>) -> Value {
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        })
    }

    fn usage(&self, ending: Ending) -> Value {
        let completion = ending.completion_tokens as usize;
        json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": completion,
            "total_tokens": self.prompt_tokens + completion,
        })
    }
}

fn choose(mut choice: Value, ending: Option<Ending>) -> Value {
    insert(&mut choice, "index", json!(0));
    insert(&mut choice, "logprobs", Value::Null);
    insert(
        &mut choice,
        "finish_reason",
        json!(ending.map(|ending| ending.finish.word())),
    );
    choice
}

fn insert(object: &mut Value, name: &str, value: Value) {
    if let Value::Object(map) = object {
        map.insert(name.to_owned(), value);
    }
}

/// Returns the seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Returns a name that no other answer has, in this run or another.
fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: only that no two numbers are equal matters.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{:x}{:04x}{number:06x}", now(), std::process::id())
}
