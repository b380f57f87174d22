//! Models that die, stand still, or cannot be built. The service continues, and nothing is left behind.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot set up has failed"
)]

mod support;

use std::path::Path;
use std::time::Duration;

use hyper::Method;
use rustix::process::{Pid, Signal, kill_process};
use selvedge::Placement;
use serde_json::{Value, json};
use support::{DEATH, ENDLESS, POISON, Running, STANDSTILL, Setup, events, open, start, until};

const COMPLETIONS: &str = "/v1/completions";

fn body(prompt: &str, stream: bool) -> String {
    json!({"model": "parrot", "prompt": prompt, "stream": stream}).to_string()
}

fn in_process() -> Setup {
    Setup {
        placement: Placement::Process,
        ..Setup::default()
    }
}

async fn rebuilt(service: &Running, times: f64) {
    until("it is rebuilt", async || {
        service.metric("selvedge_rebuilds_total").await == times
    })
    .await;
}

/// Sends a request that the death of the model fails, and returns the answer.
async fn lost_with(service: &Running, path: &str, body: &str) -> Value {
    let (status, answer) = service.json(path, body).await;
    assert_eq!(
        (status, &answer["error"]["code"]),
        (503, &json!("model_lost")),
        "{answer}"
    );
    answer
}

async fn says_hello(service: &Running) {
    let (status, answer) = service.json(COMPLETIONS, &body("hello", false)).await;
    assert_eq!(
        (status, &answer["choices"][0]["text"]),
        (200, &json!("hello")),
        "{answer}"
    );
}

fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

#[tokio::test]
async fn death_of_a_rank_is_503_and_the_service_goes_on() {
    let service = start(in_process()).await;
    let before = service.service.pids();
    assert_eq!(before.len(), 1);
    let answer = lost_with(&service, COMPLETIONS, &body(&format!("ab{DEATH}cd"), false)).await;
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("parrot") && message.contains("SIGKILL"),
        "{message}"
    );
    says_hello(&service).await;
    rebuilt(&service, 1.0).await;
    let after = service.service.pids();
    assert_eq!(after.len(), 1);
    assert_ne!(before, after);
    assert!(before.into_iter().all(is_gone), "not even a zombie");
    assert_eq!(service.stop().await, 0);
    assert!(after.into_iter().all(is_gone), "nor after the end");
}

#[tokio::test]
async fn death_in_the_middle_of_a_stream_is_an_event() {
    let service = start(in_process()).await;
    let (status, text) = service
        .client
        .post(COMPLETIONS, body(&format!("ab{DEATH}cd"), true))
        .await
        .unwrap();
    assert_eq!(status, 200, "it had begun");
    let (objects, done) = events(&text);
    assert!(!done, "{text}");
    assert!(
        objects[0]["choices"][0]["text"]
            .as_str()
            .unwrap()
            .starts_with('a'),
        "{text}"
    );
    assert_eq!(objects.last().unwrap()["error"]["code"], "model_lost");
    assert_eq!(service.metric("selvedge_broken_streams_total").await, 1.0);
}

#[tokio::test]
async fn death_while_nobody_asks_is_nobodys_error() {
    let service = start(in_process()).await;
    let pid = i32::try_from(service.service.pids()[0]).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    rebuilt(&service, 1.0).await;
    let (status, answer) = service.json(COMPLETIONS, &body("hello", false)).await;
    assert_eq!(status, 200, "{answer}");
}

#[tokio::test]
async fn who_waits_outlives_the_death() {
    let mut setup = in_process();
    (setup.limits.slots, setup.limits.queue) = (1, 8);
    let service = start(setup).await;
    let (dying, sound) = (body(&format!("ab{DEATH}"), false), body("hello", false));
    let ((status, _), others) = tokio::join!(
        service.json(COMPLETIONS, &dying),
        futures_util::future::join_all((0..4).map(|_| service.json(COMPLETIONS, &sound)))
    );
    assert_eq!(status, 503);
    for (status, answer) in others {
        assert_eq!(
            (status, &answer["choices"][0]["text"]),
            (200, &json!("hello")),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn a_rank_that_stands_still_is_given_up() {
    let mut setup = in_process();
    setup.limits.step_time = Duration::from_millis(300);
    let service = start(setup).await;
    lost_with(&service, COMPLETIONS, &body(&format!("ab{STANDSTILL}"), false)).await;
    rebuilt(&service, 1.0).await;
    assert_eq!(service.json(COMPLETIONS, &body("hello", false)).await.0, 200);
}

/// No client is left who could report the rank: the batcher does.
#[tokio::test]
async fn a_rank_that_does_not_return_is_given_up_though_its_client_is_gone() {
    let mut setup = in_process();
    setup.limits.step_time = Duration::from_secs(1);
    let service = start(setup).await;
    let asked = body(&format!("ab{ENDLESS}cd"), true);
    let mut answer = service
        .client
        .send(Method::POST, COMPLETIONS, asked)
        .await
        .unwrap();
    answer.piece().await.unwrap().unwrap();
    // Three steps say `ab∞`, and the fourth does not end.
    until("the fourth has begun", async || {
        service.service.stats().executions == 4
    })
    .await;
    drop(answer);
    until("it is known to be gone", async || {
        service.metric("selvedge_clients_gone_total").await == 1.0
    })
    .await;
    says_hello(&service).await;
    rebuilt(&service, 1.0).await;
    assert_eq!(service.metric("selvedge_overdue{batcher=\"texts\"}").await, 0.0);
}

#[tokio::test]
async fn a_thread_that_stands_still_is_given_up() {
    let mut setup = Setup {
        gate: Some("still".into()),
        ..Setup::default()
    };
    setup.limits.step_time = Duration::from_millis(300);
    let service = start(setup).await;
    lost_with(&service, COMPLETIONS, &body("hello", false)).await;
    rebuilt(&service, 1.0).await;
    open("still", 1000);
    assert_eq!(service.json(COMPLETIONS, &body("hello", false)).await.0, 200);
}

#[tokio::test]
async fn a_classifier_that_stands_still_is_given_up() {
    let mut setup = Setup {
        digits_gate: Some("digits".into()),
        ..Setup::default()
    };
    setup.limits.step_time = Duration::from_millis(300);
    let service = start(setup).await;
    let image = json!({"image": vec![0; 64]}).to_string();
    lost_with(&service, "/v1/classify", &image).await;
    rebuilt(&service, 1.0).await;
    let (status, answer) = service.json("/v1/classify", &image).await;
    assert_eq!((status, &answer["model"]), (200, &json!("digits")), "{answer}");
}

#[tokio::test]
async fn a_model_that_cannot_be_built_is_tried_again() {
    let service = start(Setup {
        failed_builds: 2,
        ..in_process()
    })
    .await;
    let (status, _) = service
        .json(COMPLETIONS, &body(&format!("ab{DEATH}"), false))
        .await;
    assert_eq!(status, 503);
    assert_eq!(
        service.json(COMPLETIONS, &body("hello", false)).await.0,
        200,
        "it waited"
    );
    assert_eq!(service.metric("selvedge_failed_builds_total").await, 2.0);
}

/// The error of the waiting request does not say that its model was lost, because no model worked on it.
#[tokio::test]
async fn who_waits_too_long_for_the_next_model_is_told_so() {
    let mut setup = Setup {
        failed_builds: usize::MAX,
        ..in_process()
    };
    setup.limits.wait = Duration::from_secs(1);
    let service = start(setup).await;
    let lost = service
        .json(COMPLETIONS, &body(&format!("ab{DEATH}"), false))
        .await;
    assert_eq!(lost.1["error"]["code"], "model_lost", "{lost:?}");
    let (status, answer) = service.json(COMPLETIONS, &body("hello", false)).await;
    assert_eq!(
        (status, &answer["error"]["code"]),
        (503, &json!("queue_timeout")),
        "{answer}"
    );
}

#[tokio::test]
async fn a_request_that_the_model_fails_on_is_500_and_nothing_is_rebuilt() {
    let service = start(in_process()).await;
    let pids = service.service.pids();
    let (status, answer) = service
        .json(COMPLETIONS, &body(&format!("ab{POISON}"), false))
        .await;
    assert_eq!(
        (status, &answer["error"]["type"]),
        (500, &json!("server_error")),
        "{answer}"
    );
    assert!(
        answer["error"]["message"].as_str().unwrap().contains("poison"),
        "{answer}"
    );
    assert_eq!(service.json(COMPLETIONS, &body("hello", false)).await.0, 200);
    assert_eq!(
        (
            service.service.pids(),
            service.metric("selvedge_rebuilds_total").await
        ),
        (pids, 0.0)
    );
}
