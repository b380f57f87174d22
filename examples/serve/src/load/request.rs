//! One request whose answer is streamed, with its times.

use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::load::client::{Answer, Client};

/// How long an answer may take. Longer than any service here lets a request wait.
const ANSWER: Duration = Duration::from_secs(120);

/// What is asked.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The model.
    pub model: String,
    /// A prompt for completions; without one, chats ask for drawings of digits in turn.
    pub prompt: Option<String>,
    /// Tokens of an answer at most.
    pub max_tokens: Option<u32>,
}

/// What came of a request.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// When it was sent, after the beginning of the run.
    pub sent: Duration,
    /// A whole answer, or why there was none.
    pub end: End,
    /// Until the first piece of text.
    pub first: Option<Duration>,
    /// Between pieces.
    pub gaps: Vec<Duration>,
    /// Until the end.
    pub whole: Duration,
    /// Of the answer, by the service's own account.
    pub tokens: u64,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Whole.
    Whole,
    /// With another status than 200.
    Status(u16),
    /// With an error in the stream, whose code this is.
    Event(String),
    /// The connection failed.
    Connection(String),
}

impl Ask {
    /// Path and body of the request of this number.
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

    /// Sends the request of this number and reads its answer.
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
            while answer.piece().await?.is_some() {}
            client.keep(answer);
            return Ok(End::Status(status));
        }
        let end = stream(&mut answer, sent, outcome).await?;
        client.keep(answer);
        Ok(end)
    }
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

/// What matters of an event here.
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
    // Looking is cheaper than parsing; only two kinds of events are of interest.
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
