//! Tests of the answers to valid requests.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot set up has failed"
)]

mod support;

use clap::Parser;
use selvedge_serve::arguments::Arguments;
use serde_json::{Value, json};
use support::{Setup, events, start};

#[tokio::test]
async fn a_completion_has_openais_shape() {
    let service = start(Setup::default()).await;
    let body = json!({"model": "parrot", "prompt": "hello", "temperature": 0});
    let (status, answer) = service.json("/v1/completions", &body.to_string()).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["object"], "text_completion");
    assert_eq!(answer["model"], "parrot");
    assert!(answer["id"].as_str().unwrap().starts_with("cmpl-"));
    let choice = json!({"index": 0, "text": "hello", "logprobs": null, "finish_reason": "stop"});
    assert_eq!(answer["choices"], json!([choice]));
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11});
    assert_eq!(answer["usage"], usage);
    assert_eq!(service.stop().await, 0);
}

#[tokio::test]
async fn a_prompt_may_be_tokens() {
    let service = start(Setup::default()).await;
    for prompt in [json!([104, 105]), json!(["hi"]), json!([[104, 105]])] {
        let body = json!({"model": "parrot", "prompt": prompt});
        let (status, answer) = service.json("/v1/completions", &body.to_string()).await;
        assert_eq!(
            (status, &answer["choices"][0]["text"]),
            (200, &json!("hi")),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn an_answer_ends_at_its_length() {
    let service = start(Setup::default()).await;
    for (name, tokens) in [("max_tokens", 3), ("max_completion_tokens", 3)] {
        let body = json!({"model": "parrot", "prompt": "hello", name: tokens});
        let (_, answer) = service.json("/v1/completions", &body.to_string()).await;
        assert_eq!(answer["choices"][0]["text"], "hel");
        assert_eq!(answer["choices"][0]["finish_reason"], "length");
        assert_eq!(answer["usage"]["completion_tokens"], 3);
    }
}

/// The client keeps what it has, and the reason is not that it waited.
#[tokio::test]
async fn an_answer_ends_when_its_time_is_over_with_the_text_so_far() {
    let mut setup = Setup::default();
    setup.limits.answer_time = std::time::Duration::ZERO;
    let service = start(setup).await;
    let body = json!({"model": "parrot", "prompt": "hello"}).to_string();
    let (status, answer) = service.json("/v1/completions", &body).await;
    assert_eq!(status, 200, "{answer}");
    let choice = &answer["choices"][0];
    assert_eq!(
        (&choice["text"], &choice["finish_reason"]),
        (&json!("h"), &json!("length"))
    );
    assert_eq!(answer["usage"]["completion_tokens"], 1);
}

#[tokio::test]
async fn an_answer_ends_before_a_stop_text() {
    let service = start(Setup::default()).await;
    for (stop, text) in [
        (json!("l"), "he"),
        (json!(["lo", "q"]), "hel"),
        (json!("nothing"), "hello"),
    ] {
        let body = json!({"model": "parrot", "prompt": "hello", "stop": stop});
        let (_, answer) = service.json("/v1/completions", &body.to_string()).await;
        assert_eq!(answer["choices"][0]["text"], text);
        assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    }
}

#[tokio::test]
async fn a_long_prompt_is_cut_into_steps_and_comes_out_whole() {
    let mut setup = Setup::default();
    setup.limits.step_tokens = 7;
    let service = start(setup).await;
    let prompt = "the quick brown fox jumps over the lazy dog";
    let body = json!({"model": "parrot", "prompt": prompt});
    let (_, answer) = service.json("/v1/completions", &body.to_string()).await;
    assert_eq!(answer["choices"][0]["text"], prompt);
}

#[tokio::test]
async fn a_stream_is_the_answer_in_pieces() {
    let service = start(Setup::default()).await;
    let body = json!({"model": "parrot", "prompt": "hällo", "stream": true, "stream_options": {"include_usage": true}});
    let (status, text) = service
        .client
        .post("/v1/completions", body.to_string())
        .await
        .unwrap();
    assert_eq!(status, 200);
    let (objects, done) = events(&text);
    assert!(done, "{text}");
    let pieces = objects.iter().filter_map(|it| it["choices"][0]["text"].as_str());
    assert_eq!(pieces.collect::<String>(), "hällo");
    let reasons: Vec<_> = objects
        .iter()
        .filter_map(|it| it["choices"][0]["finish_reason"].as_str())
        .collect();
    assert_eq!(reasons, ["stop"]);
    let last = objects.last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["total_tokens"], 11);
    let (_, pieces) = objects.split_last().unwrap();
    assert!(
        pieces.iter().all(|it| it.get("usage") == Some(&Value::Null)),
        "{text}"
    );
    let ids: Vec<_> = objects.iter().map(|it| &it["id"]).collect();
    assert!(ids.iter().all(|id| **id == *ids[0]), "one id for all pieces");
}

#[tokio::test]
async fn a_chat_is_answered_whole_and_in_pieces() {
    let service = start(Setup::default()).await;
    let messages = json!([{"role": "user", "content": [{"type": "text", "text": "hi"}]}]);
    let body = json!({"model": "parrot", "messages": messages});
    let (status, answer) = service.json("/v1/chat/completions", &body.to_string()).await;
    assert_eq!(
        (status, &answer["object"]),
        (200, &json!("chat.completion")),
        "{answer}"
    );
    assert_eq!(answer["choices"][0]["message"]["content"], "hi");
    assert_eq!(answer["choices"][0]["message"]["role"], "assistant");
    let body = json!({"model": "parrot", "messages": messages, "stream": true});
    let (_, text) = service
        .client
        .post("/v1/chat/completions", body.to_string())
        .await
        .unwrap();
    let (objects, done) = events(&text);
    assert!(done, "{text}");
    assert_eq!(objects[0]["choices"][0]["delta"]["role"], "assistant");
    let pieces = objects
        .iter()
        .filter_map(|it| it["choices"][0]["delta"]["content"].as_str());
    assert_eq!(pieces.collect::<String>(), "hi");
    assert!(
        objects
            .iter()
            .all(|it| it["object"] == "chat.completion.chunk" && it.get("usage").is_none())
    );
}

#[tokio::test]
async fn an_image_is_classified() {
    let service = start(Setup::default()).await;
    let digits = selvedge_examples::data::Digits::load().unwrap();
    let mut right = 0;
    for row in digits.held_out().take(40) {
        let body = json!({"image": digits.image(row).unwrap()});
        let (status, answer) = service.json("/v1/classify", &body.to_string()).await;
        assert_eq!(status, 200, "{answer}");
        let scores = answer["probabilities"].as_array().unwrap();
        let sum: f64 = scores.iter().map(|it| it.as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-5);
        right += usize::from(answer["label"].as_u64() == digits.label(row).map(u64::from));
    }
    assert!(right >= 36, "{right} of 40");
}

#[tokio::test]
async fn models_and_health_are_told() {
    let service = start(Setup::default()).await;
    let (status, text) = service.client.get("/v1/models").await.unwrap();
    assert_eq!(status, 200);
    assert!(
        text.contains(r#""id":"parrot""#) && text.contains(r#""id":"digits""#),
        "{text}"
    );
    let (status, text) = service.client.get("/health").await.unwrap();
    assert_eq!((status, text.as_str()), (200, r#"{"status":"ok","workers":[]}"#));
}

#[tokio::test]
async fn a_model_is_told_by_its_name_and_no_other_one_is() {
    let service = start(Setup::default()).await;
    let told = async |name: &str| {
        let (status, text) = service.client.get(&format!("/v1/models/{name}")).await.unwrap();
        (status, serde_json::from_str::<Value>(&text).unwrap())
    };
    for name in ["parrot", "digits"] {
        let (status, model) = told(name).await;
        assert_eq!(
            (status, &model["id"], &model["object"]),
            (200, &json!(name), &json!("model"))
        );
    }
    let (status, error) = told("meta/llama").await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (404, &json!("model_not_found")),
        "{error}"
    );
}

#[tokio::test]
async fn a_model_without_the_classifier_does_not_show_it() {
    let service = start(Setup {
        classifies: false,
        ..Setup::default()
    })
    .await;
    let (_, text) = service.client.get("/v1/models").await.unwrap();
    assert!(text.contains("parrot") && !text.contains("digits"), "{text}");
    let (status, _) = service.client.get("/v1/models/digits").await.unwrap();
    assert_eq!(status, 404);
    assert_eq!(service.json("/v1/classify", "{}").await.0, 404);
    let (_, page) = service.client.get("/metrics").await.unwrap();
    assert!(page.contains("texts") && !page.contains("digits"), "{page}");
    let (status, _) = service.client.get("/health").await.unwrap();
    assert_eq!(status, 200);
}

#[test]
fn the_greeting_proposes_what_the_model_was_made_for() {
    let greeting = |arguments: &[&str]| {
        let all = ["serve"].iter().chain(arguments);
        Arguments::try_parse_from(all).unwrap().greeting("host:1")
    };
    assert!(greeting(&[]).contains("Draw a 3."));
    let other = greeting(&["--model", "/models/It's mine"]);
    assert!(!other.contains("Draw"), "{other}");
    assert!(other.contains(r#""model":"It'\''s mine""#), "{other}");
}

/// Splits a sample into name, labels and value.
fn sample(line: &str) -> (&str, &str, f64) {
    let (name, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = name.split_once('{').unwrap_or((name, "}"));
    (name, labels.strip_suffix('}').unwrap(), value.parse().unwrap())
}

#[tokio::test]
async fn metrics_are_what_prometheus_reads() {
    let service = start(Setup::default()).await;
    let body = json!({"model": "parrot", "prompt": "hello"}).to_string();
    for _ in 0..3 {
        assert_eq!(service.json("/v1/completions", &body).await.0, 200);
    }
    assert_eq!(service.json("/v1/completions", "{}").await.0, 400);
    let (_, page) = service.client.get("/metrics").await.unwrap();
    let mut family = "";
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            family = name;
        } else if !line.starts_with("# HELP ") {
            let (name, _, value) = sample(line);
            assert!(name.starts_with(family) && value >= 0.0, "{line} in {family}");
        }
    }
    let samples: Vec<_> = page
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(sample)
        .collect();
    let value = |name: &str, labels: &str| {
        let found = samples.iter().find(|it| (it.0, it.1) == (name, labels));
        found.map_or(f64::NAN, |it| it.2)
    };
    let requests = |code: &str| {
        value(
            "selvedge_requests_total",
            &format!("path=\"/v1/completions\",code=\"{code}\""),
        )
    };
    assert_eq!((requests("200"), requests("400")), (3.0, 1.0));
    assert_eq!(value("selvedge_prompt_tokens_total", ""), 15.0);
    assert_eq!(value("selvedge_completion_tokens_total", ""), 18.0);
    assert_eq!(value("selvedge_first_token_seconds_count", ""), 3.0);
    assert_eq!(value("selvedge_between_tokens_seconds_count", ""), 15.0);
    assert_eq!(value("selvedge_request_seconds_count", ""), 3.0);
    assert_eq!(value("selvedge_steps_total", "batcher=\"texts\""), 18.0);
    assert_eq!(value("selvedge_batch_size_count", "batcher=\"texts\""), 18.0);
    let buckets = samples
        .iter()
        .filter(|it| it.0 == "selvedge_first_token_seconds_bucket");
    let counts: Vec<f64> = buckets.map(|it| it.2).collect();
    assert!(counts.is_sorted() && counts.last() == Some(&3.0), "{counts:?}");
}
