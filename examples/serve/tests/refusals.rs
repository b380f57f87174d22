//! The errors of invalid requests. No service ends because of them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot set up has failed"
)]

mod support;

use std::time::Duration;

use selvedge_serve::body::BodyLimit;
use serde_json::{Value, json};
use support::{FOREIGN, POSITIONS, Running, Setup, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const COMPLETIONS: &str = "/v1/completions";
const CHATS: &str = "/v1/chat/completions";

/// Returns the request of a completion with one field changed.
fn with(field: &str, value: Value) -> String {
    let mut body = json!({"model": "parrot", "prompt": "hello"});
    body[field] = value;
    body.to_string()
}

/// Posts a request, and expects an error with this status, about this field, with these words in it.
async fn refused(service: &Running, path: &str, body: &str, status: u16, param: Value, words: &str) {
    let (found, answer) = service.json(path, body).await;
    let error = &answer["error"];
    assert_eq!((found, &error["param"]), (status, &param), "{body}: {answer}");
    assert!(
        error["message"].as_str().unwrap().contains(words),
        "{body}: {answer}"
    );
    assert!(
        error["type"].is_string() && error.as_object().unwrap().contains_key("code"),
        "{answer}"
    );
}

#[tokio::test]
async fn bodies_that_are_no_request_are_400() {
    let service = start(Setup::default()).await;
    for (body, words) in [
        ("", "EOF"),
        ("{", "EOF"),
        ("nonsense", "expected"),
        ("[1]", "it is an array"),
        (r#"{"model": "parrot", "prompt": "a"} trailing"#, "trailing"),
        (&"[".repeat(100_000), "recursion"),
    ] {
        for path in [COMPLETIONS, CHATS, "/v1/classify"] {
            refused(&service, path, body, 400, Value::Null, words).await;
        }
    }
    assert_eq!(
        service.json(COMPLETIONS, &with("user", json!("me"))).await.0,
        200,
        "it goes on"
    );
}

#[tokio::test]
async fn invalid_utf8_is_400() {
    let service = start(Setup::default()).await;
    let body: &[u8] = b"{\"model\": \"parrot\", \"prompt\": \"\xff\xfe\"}";
    let (status, text) = service.client.post(COMPLETIONS, body).await.unwrap();
    assert_eq!(status, 400);
    assert!(text.contains("byte 31 is not UTF-8"), "{text}");
    let lone = r#"{"model": "parrot", "prompt": "\ud800"}"#;
    refused(&service, COMPLETIONS, lone, 400, Value::Null, "hex escape").await;
}

#[tokio::test]
async fn fields_out_of_range_are_400_by_name() {
    let service = start(Setup::default()).await;
    for (field, value, words) in [
        ("temperature", json!(-1), "it must be from 0 to 2"),
        ("temperature", json!(2.5), "it must be from 0 to 2"),
        ("temperature", json!("hot"), "must be a number, and is a string"),
        ("top_p", json!(1.5), "it must be from 0 to 1"),
        ("top_p", json!(-0.1), "it must be from 0 to 1"),
        ("max_tokens", json!(0), "an integer from 1"),
        ("max_tokens", json!(-5), "an integer from 1"),
        ("max_tokens", json!(1.5), "an integer from 1"),
        ("max_tokens", json!("3"), "must be an integer, and is a string"),
        ("max_completion_tokens", json!(0), "an integer from 1"),
        ("seed", json!(1e30), "an integer from"),
        ("stop", json!(["a", "b", "c", "d", "e"]), "at most 4"),
        ("stop", json!([""]), "is empty"),
        ("stop", json!(7), "a string or an array of strings"),
        ("stream", json!("yes"), "must be true or false"),
        ("stream_options", json!({"include_usage": true}), "needs `stream`"),
        ("n", json!(2), "not supported"),
        ("logprobs", json!(5), "not supported"),
        ("prompt", json!(""), "is empty"),
        ("prompt", json!([]), "is empty"),
        ("prompt", json!(["a", "b"]), "2 prompts"),
        ("prompt", json!([-1]), "array of token ids"),
        ("prompt", json!([1_114_112]), "has token 1114112"),
        ("prompt", json!({"text": "a"}), "and is an object"),
        ("model", json!(7), "must be a string"),
    ] {
        refused(
            &service,
            COMPLETIONS,
            &with(field, value),
            400,
            json!(field),
            words,
        )
        .await;
    }
    refused(
        &service,
        COMPLETIONS,
        r#"{"prompt": "a"}"#,
        400,
        json!("model"),
        "is missing",
    )
    .await;
    refused(
        &service,
        COMPLETIONS,
        r#"{"model": "parrot"}"#,
        400,
        json!("prompt"),
        "is missing",
    )
    .await;
    refused(
        &service,
        COMPLETIONS,
        r#"{"model": "parrot", "temperature": 1e999}"#,
        400,
        Value::Null,
        "number",
    )
    .await;
    assert_eq!(
        service.json(COMPLETIONS, &with("n", json!(1.0))).await.0,
        200,
        "it goes on"
    );
}

#[tokio::test]
async fn chats_without_messages_are_400() {
    let service = start(Setup::default()).await;
    for (messages, words) in [
        (Value::Null, "is missing"),
        (json!([]), "is empty"),
        (json!("hi"), "must be an array"),
        (json!(["hi"]), "an array of objects"),
        (json!([{"content": "hi"}]), "without a `role`"),
        (json!([{"role": "user"}]), "without `content`"),
        (json!([{"role": "pirate", "content": "hi"}]), "the role `pirate`"),
        (
            json!([{"role": "user", "content": [{"type": "image_url"}]}]),
            "only text",
        ),
    ] {
        let body = json!({"model": "parrot", "messages": messages}).to_string();
        refused(&service, CHATS, &body, 400, json!("messages"), words).await;
    }
}

#[tokio::test]
async fn images_of_another_size_are_400() {
    let service = start(Setup::default()).await;
    for (image, words) in [
        (Value::Null, "is missing"),
        (json!([1, 2]), "it must have 64"),
        (json!(vec![17; 64]), "the pixel 17"),
        (json!(vec![-1; 64]), "the pixel -1"),
        (json!("picture"), "must be an array of pixels"),
    ] {
        let body = json!({"image": image}).to_string();
        refused(&service, "/v1/classify", &body, 400, json!("image"), words).await;
    }
}

#[tokio::test]
async fn an_unknown_model_is_404() {
    let service = start(Setup::default()).await;
    refused(
        &service,
        COMPLETIONS,
        &with("model", json!("gpt")),
        404,
        json!("model"),
        "no model `gpt`",
    )
    .await;
}

#[tokio::test]
async fn unknown_addresses_and_methods_are_404_and_405() {
    let service = start(Setup::default()).await;
    refused(&service, "/v2", "{}", 404, Value::Null, "nothing at /v2").await;
    let (status, text) = service.client.get(COMPLETIONS).await.unwrap();
    assert_eq!(status, 405, "{text}");
    assert!(text.contains("GET is not allowed"), "{text}");
}

/// The text would fail the step, and so every text in it.
#[tokio::test]
async fn a_text_with_a_token_that_the_model_does_not_know_is_400() {
    let service = start(Setup::default()).await;
    let foreign = format!("a{FOREIGN}b");
    let words = "token 1114112; the model has 1114112 tokens";
    let body = with("prompt", json!(foreign));
    refused(&service, COMPLETIONS, &body, 400, json!("prompt"), words).await;
    let messages = json!([{"role": "user", "content": foreign}]);
    let body = json!({"model": "parrot", "messages": messages}).to_string();
    refused(&service, CHATS, &body, 400, json!("messages"), words).await;
}

#[tokio::test]
async fn a_prompt_longer_than_the_model_is_400() {
    let service = start(Setup::default()).await;
    let positions = POSITIONS as usize;
    for (length, asked) in [(positions, 1), (positions + 500, 1), (10, positions - 9)] {
        let body = json!({"model": "parrot", "prompt": "x".repeat(length), "max_tokens": asked}).to_string();
        let (status, answer) = service.json(COMPLETIONS, &body).await;
        assert_eq!(
            (status, &answer["error"]["code"]),
            (400, &json!("context_length_exceeded")),
            "{answer}"
        );
    }
    let body = json!({"model": "parrot", "prompt": "x".repeat(positions - 1)}).to_string();
    let (status, answer) = service.json(COMPLETIONS, &body).await;
    assert_eq!(
        (status, &answer["usage"]["total_tokens"]),
        (200, &json!(positions)),
        "what fits exactly is served"
    );
    // So long a text is not even converted: it cannot fit, whatever its tokens are.
    let words = "has 100000 bytes; the 128 positions of the model hold at most 512";
    let body = with("prompt", json!("x".repeat(100_000)));
    refused(&service, COMPLETIONS, &body, 400, json!("prompt"), words).await;
}

#[tokio::test]
async fn a_prompt_of_100_mb_is_413_and_is_not_kept() {
    let service = start(Setup::default()).await;
    let before = service.metric("process_resident_memory_bytes").await;
    let size = 100 << 20;
    let mut stream = TcpStream::connect(service.address).await.unwrap();
    let head = format!("POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..size / piece.len() {
        stream.write_all(&piece).await.unwrap();
    }
    let mut answer = vec![0; 4096];
    let length = stream.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]);
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert!(answer.contains("request_too_large"), "{answer}");
    let after = service.metric("process_resident_memory_bytes").await;
    assert!(
        after < before + f64::from(50 << 20),
        "{before} bytes became {after}"
    );
}

#[tokio::test]
async fn a_client_that_asks_before_it_sends_100_mb_is_refused_at_once() {
    let service = start(Setup::default()).await;
    let mut stream = TcpStream::connect(service.address).await.unwrap();
    let head = format!(
        "POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        100 << 20
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

/// Sends bytes and waits; returns the answer up to the end of the error's object.
async fn answered(service: &Running, bytes: &str) -> String {
    let mut stream = TcpStream::connect(service.address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let (mut answer, mut piece) = (String::new(), [0; 4096]);
    while !answer.ends_with("}}") {
        let reading = timeout(Duration::from_secs(30), stream.read(&mut piece));
        let length = reading.await.unwrap().unwrap();
        assert_ne!(length, 0, "{answer}");
        answer.push_str(&String::from_utf8_lossy(&piece[..length]));
    }
    answer
}

#[tokio::test]
async fn a_body_over_the_limit_that_does_not_end_is_413() {
    let mut setup = Setup::default();
    setup.limits.body = BodyLimit {
        bytes: 16,
        time: Duration::from_secs(3600),
        pause: Duration::from_millis(10),
    };
    let service = start(setup).await;
    let piece = "x".repeat(32);
    for (length, body) in [
        ("transfer-encoding: chunked", format!("20\r\n{piece}\r\n")),
        ("content-length: 100", piece),
    ] {
        let request = format!("POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\n{length}\r\n\r\n{body}");
        let answer = answered(&service, &request).await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
        assert!(answer.contains("request_too_large"), "{answer}");
    }
}

#[tokio::test]
async fn chunks_that_are_none_are_400() {
    let service = start(Setup::default()).await;
    for body in ["zz\r\n", "1\r\nab\r\n", "fffffffffffffffff\r\n"] {
        let head = format!("POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
        let answer = answered(&service, &(head + body)).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{body}: {answer}");
        assert!(answer.contains("invalid_request_error"), "{answer}");
    }
}

#[tokio::test]
async fn http_1_1_without_one_host_is_400() {
    let service = start(Setup::default()).await;
    for hosts in ["", "host: a\r\nhost: b\r\n"] {
        let answer = answered(&service, &format!("GET /health HTTP/1.1\r\n{hosts}\r\n")).await;
        assert!(
            answer.starts_with("HTTP/1.1 400") && answer.contains("`Host`"),
            "{answer}"
        );
    }
    let mut stream = TcpStream::connect(service.address).await.unwrap();
    stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
}

#[tokio::test]
async fn what_is_no_http_is_refused_and_the_service_goes_on() {
    let service = start(Setup::default()).await;
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01"[..],
        b"GET\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(service.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    assert_eq!(service.json(COMPLETIONS, &with("seed", json!(1))).await.0, 200);
}
