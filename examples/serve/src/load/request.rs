//! One request whose answer is streamed, with its times.

use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::load::client::{Answer, Client};

/// The time that an answer may take. It is longer than the time that any service lets a request wait here.
const ANSWER: Duration = Duration::from_secs(120);

/// The content of the requests.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The model.
    pub model: String,
    /// The prompt of completions; without it, chats ask for drawings of the digits in turn.
    pub prompt: Option<String>,
    /// The most tokens of an answer.
    pub max_tokens: Option<u32>,
}

/// The outcome of a request.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The time of sending, since the beginning of the run.
    pub sent: Duration,
    /// The way in which the request ended.
    pub end: End,
    /// The time to the first piece of text.
    pub first: Option<Duration>,
    /// The times between pieces.
    pub gaps: Vec<Duration>,
    /// The time to the end.
    pub whole: Duration,
    /// The tokens of the answer, as the service counts them.
    pub tokens: u64,
}

/// The end of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A whole answer.
    Whole,
    /// A status other than 200, with the code of its error, if it has one.
    Status(u16, Option<String>),
    /// An error in the stream, with this code.
    Event(String),
    /// The connection failed.
    Connection(String),
}

impl Ask {
    /// Returns path and body of the request with this number.
    pub fn body(&self, number: u64) -> (&'static str, String) {
        let mut body = json!({
            "model": self.model,
            "stream": true,
            "stream_options": {"include_usage": true},
            "seed": number as i64,
        });
        let (path, field, value) = match &self.prompt {
            Some(prompt) => ("/v1/completions", "prompt", json!(prompt)),
            None => {
                let content = format!("Draw a {}.", number % 10);
                (
                    "/v1/chat/completions",
                    "messages",
                    json!([{"role": "user", "content": content}]),
                )
            }
        };
        if let Value::Object(map) = &mut body {
            map.insert(field.to_owned(), value);
            if let Some(tokens) = self.max_tokens {
                map.insert("max_tokens".to_owned(), json!(tokens));
            }
        }
        (path, body.to_string())
    }

    /// Sends the request with this number and reads its answer.
    pub async fn send(&self, client: &Client, number: u64, start: Instant) -> Outcome {
        let sent = Instant::now();
        let mut outcome = Outcome {
            sent: sent - start,
            end: End::Whole,
            first: None,
            gaps: Vec::new(),
            whole: Duration::ZERO,
            tokens: 0,
        };
        let ended = timeout(ANSWER, self.receive(client, number, sent, &mut outcome)).await;
        outcome.end = match ended {
            Ok(Ok(end)) => end,
            Ok(Err(error)) => End::Connection(error.to_string()),
            Err(_) => End::Connection(format!("no answer within {} s", ANSWER.as_secs())),
        };
        outcome.whole = sent.elapsed();
        outcome
    }

    async fn receive(
        &self,
        client: &Client,
        number: u64,
        sent: Instant,
        outcome: &mut Outcome,
    ) -> std::io::Result<End> {
        let (path, body) = self.body(number);
        let mut answer = client.send(Method::POST, path, body).await?;
        let status = answer.head.status().as_u16();
        if status != 200 {
            let mut text = Vec::new();
            while let Some(piece) = answer.piece().await? {
                text.extend_from_slice(&piece);
            }
            client.keep(answer);
            return Ok(End::Status(status, code(status, &text)));
        }
        let end = stream(&mut answer, sent, outcome).await?;
        client.keep(answer);
        Ok(end)
    }
}

/// Returns the code of an error. A 429 has only one, and an overloaded service sends many of them.
fn code(status: u16, text: &[u8]) -> Option<String> {
    if status == 429 {
        return None;
    }
    let value: Value = serde_json::from_slice(text).ok()?;
    let code = value.pointer("/error/code")?.as_str()?;
    Some(code.to_owned())
}

/// Reads the events of a stream to its end.
async fn stream(answer: &mut Answer, sent: Instant, outcome: &mut Outcome) -> std::io::Result<End> {
    let (mut buffer, mut end) = (Vec::new(), End::Connection("the stream has no end".into()));
    let mut last = sent;
    while let Some(piece) = answer.piece().await? {
        let now = Instant::now();
        match outcome.first {
            None => outcome.first = Some(now - sent),
            Some(_) => outcome.gaps.push(now - last),
        }
        last = now;
        buffer.extend_from_slice(&piece);
        while let Some(length) = buffer.windows(2).position(|it| it == b"\n\n") {
            let frame: Vec<u8> = buffer.drain(..length + 2).collect();
            match event(&frame) {
                Some(Event::Done) => end = End::Whole,
                Some(Event::Error(code)) => end = End::Event(code),
                Some(Event::Tokens(tokens)) => outcome.tokens = tokens,
                None => {}
            }
        }
    }
    Ok(end)
}

/// The relevant content of an event.
enum Event {
    Done,
    Error(String),
    Tokens(u64),
}

fn event(frame: &[u8]) -> Option<Event> {
    let data = frame.strip_prefix(b"data: ")?;
    if data == b"[DONE]\n\n" {
        return Some(Event::Done);
    }
    // A search is cheaper than parsing, and only two kinds of events are relevant.
    let text = std::str::from_utf8(data).ok()?;
    if !text.contains("\"usage\"") && !text.contains("\"error\"") {
        return None;
    }
    let value: Value = serde_json::from_str(text).ok()?;
    if let Some(error) = value.get("error") {
        let code = error.get("code").and_then(Value::as_str).unwrap_or("error");
        return Some(Event::Error(code.to_owned()));
    }
    value
        .pointer("/usage/completion_tokens")?
        .as_u64()
        .map(Event::Tokens)
}
