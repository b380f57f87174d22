//! Tests of clients that come in large numbers, go away, or do not read.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot set up has failed"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bytes::Bytes;
use futures_util::future::join_all;
use hyper::{Method, header};
use selvedge_serve::listen::{self, Connections};
use selvedge_serve::load::client::{Answer, Client};
use selvedge_serve::process::{allow_descriptors, holdings};
use serde_json::json;
use support::{Running, Setup, open, start, until, unused};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

const COMPLETIONS: &str = "/v1/completions";
const TEXTS: &str = "{batcher=\"texts\"}";

fn body(prompt: &str, stream: bool) -> String {
    json!({"model": "parrot", "prompt": prompt, "stream": stream}).to_string()
}

/// Starts a service whose model waits at a gate.
async fn gated(gate: &str, slots: usize, queue: usize) -> Running {
    let mut setup = Setup {
        gate: Some(gate.to_owned()),
        ..Setup::default()
    };
    (setup.limits.slots, setup.limits.queue) = (slots, queue);
    // A step waits at the gate for as long as the test needs.
    (setup.limits.step_tokens, setup.limits.step_goal) = (1 << 20, None);
    start(setup).await
}

async fn begin(client: &Client, prompt: &str) -> Answer {
    client
        .send(Method::POST, COMPLETIONS, body(prompt, true))
        .await
        .unwrap()
}

async fn rest(mut answer: Answer) -> String {
    let mut text = Vec::new();
    while let Some(piece) = answer.piece().await.unwrap() {
        text.extend_from_slice(&piece);
    }
    String::from_utf8(text).unwrap()
}

/// Returns the number of clients that went away, as far as the service knows.
async fn gone(service: &Running) -> f64 {
    service.metric("selvedge_clients_gone_total").await
}

#[tokio::test]
async fn a_full_queue_is_429_with_retry_after() {
    let service = Arc::new(gated("full", 1, 2).await);
    let stats = || service.service.stats();
    let mut clients = Vec::new();
    // One after the other: a client that comes before the first has left the queue would find the queue full.
    for (in_flight, queued) in [(1, 0), (1, 1), (1, 2)] {
        let service = Arc::clone(&service);
        let answer = async move {
            service
                .client
                .post(COMPLETIONS, body("abc", false))
                .await
                .unwrap()
        };
        clients.push(tokio::spawn(answer));
        until("one runs and the others wait", async || {
            (stats().in_flight, stats().queued) == (in_flight, queued)
        })
        .await;
    }
    let refused = service
        .client
        .send(Method::POST, COMPLETIONS, body("abc", true))
        .await
        .unwrap();
    assert_eq!(refused.head.status(), 429);
    assert!(
        refused
            .header(header::RETRY_AFTER)
            .unwrap()
            .parse::<u64>()
            .unwrap()
            >= 1
    );
    let error: serde_json::Value = serde_json::from_str(&rest(refused).await).unwrap();
    assert_eq!(error["error"]["type"], "rate_limit_error");
    assert_eq!(error["error"]["code"], "queue_full");
    open("full", 100);
    for answer in clients {
        let (status, text) = answer.await.unwrap();
        assert_eq!(status, 200, "{text}");
    }
    assert_eq!(
        service
            .metric("selvedge_requests_total{path=\"/v1/completions\",code=\"429\"}")
            .await,
        1.0
    );
    let counted = service.metric("selvedge_prompt_tokens_total").await;
    assert_eq!(counted, 9.0, "three prompts of three tokens were accepted");
}

#[tokio::test]
async fn who_goes_away_frees_the_slot_before_the_next_step() {
    let service = Arc::new(gated("leave", 1, 8).await);
    let steps = || service.service.stats().executions;
    let first = tokio::spawn({
        let service = Arc::clone(&service);
        async move { begin(&service.client, "a long text, which is not heard to its end").await }
    });
    open("leave", 1);
    let mut first = first.await.unwrap();
    first.piece().await.unwrap().unwrap();
    until("the second step waits at the gate", async || steps() == 2).await;
    let second = tokio::spawn({
        let service = Arc::clone(&service);
        async move { service.client.post(COMPLETIONS, body("ab", false)).await.unwrap() }
    });
    until("another waits", async || service.service.stats().queued == 1).await;
    drop(first);
    until("it is known", async || gone(&service).await == 1.0).await;
    // The step in flight, and three more for the other client's two characters and the end: no step in between.
    open("leave", 1 + 3);
    let (status, text) = second.await.unwrap();
    assert_eq!(status, 200, "{text}");
    assert_eq!((steps(), unused("leave")), (5, 0));
    assert_eq!(
        service.metric(&format!("selvedge_cancelled_total{TEXTS}")).await,
        1.0
    );
}

#[tokio::test]
async fn who_goes_away_before_the_first_token_was_never_there() {
    let service = Arc::new(gated("early", 1, 8).await);
    let waiting = |number| {
        let service = Arc::clone(&service);
        tokio::spawn(async move { begin(&service.client, &format!("text {number}")).await })
    };
    let clients: Vec<_> = (0..4).map(waiting).collect();
    let stats = || service.service.stats();
    until("one runs and three wait", async || {
        (stats().in_flight, stats().queued) == (1, 3)
    })
    .await;
    clients.iter().for_each(|client| client.abort());
    until("all are gone", async || gone(&service).await == 4.0).await;
    assert_eq!(stats().queued, 0);
    open("early", 5);
    until("nothing runs", async || stats().in_flight == 0).await;
    assert_eq!((stats().executions, unused("early")), (1, 4));
}

#[tokio::test]
async fn a_thousand_clients_that_go_away_leave_no_work_behind() {
    allow_descriptors();
    let service = gated("crowd", 1000, 1000).await;
    let stats = || service.service.stats();
    let prompt = "x".repeat(100);
    let descriptors = holdings(std::process::id()).descriptors;
    // The first step has the first clients, the second step all others.
    let crowd = async {
        let answers = (0..1000).map(|_| async {
            let mut answer = begin(&service.client, &prompt).await;
            answer.piece().await.unwrap().unwrap();
            answer
        });
        join_all(answers).await
    };
    let usher = async {
        until("all are there", async || stats().accepted == 1000).await;
        open("crowd", 2);
    };
    let (answers, ()) = tokio::join!(crowd, usher);
    until("the third step waits at the gate", async || {
        stats().executions == 3
    })
    .await;
    assert_eq!(answers.len(), 1000);
    drop(answers);
    until("all are gone", async || gone(&service).await == 1000.0).await;
    open("crowd", 50);
    until("nothing runs", async || {
        (stats().in_flight, stats().queued) == (0, 0)
    })
    .await;
    assert_eq!(
        (stats().executions, unused("crowd")),
        (3, 49),
        "no step was made for who is gone"
    );
    let left = || holdings(std::process::id()).descriptors;
    // The first connection of the client itself may stay open.
    until("descriptors are closed", async || left() <= descriptors + 2).await;
    assert_eq!(service.json(COMPLETIONS, &body("ab", false)).await.0, 200);
    assert_eq!(service.stop().await, 0);
}

#[tokio::test]
async fn who_does_not_read_holds_nobody_up_and_loses_nothing() {
    let service = start(Setup::default()).await;
    let slow = begin(&service.client, &"z".repeat(60)).await;
    for _ in 0..20 {
        assert_eq!(service.json(COMPLETIONS, &body("abc", false)).await.0, 200);
    }
    until("its text is done", async || {
        service.service.stats().in_flight == 0
    })
    .await;
    let (objects, done) = support::events(&rest(slow).await);
    let pieces = objects.iter().filter_map(|it| it["choices"][0]["text"].as_str());
    assert_eq!((pieces.collect::<String>(), done), ("z".repeat(60), true));
}

#[tokio::test]
async fn a_connection_that_takes_nothing_is_given_up() {
    let endless = || async {
        let piece = Bytes::from(vec![b'x'; 1 << 20]);
        let pieces = futures_util::stream::repeat_with(move || Ok::<_, std::io::Error>(piece.clone()));
        Body::from_stream(pieces)
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limits = Connections {
        write: Duration::from_millis(50),
        ..Connections::default()
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let until = async move {
        let _ = stopped.await;
    };
    let grace = Duration::from_secs(30);
    let serving = tokio::spawn(listen::serve(
        listener,
        Router::new().route("/", get(endless)),
        limits,
        until,
        grace,
        async {},
    ));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    let mut byte = [0];
    stream.read_exact(&mut byte).await.unwrap();
    // The client never reads more. The service ends all the same, and cuts off no connection: the stalled connection
    // has ended by itself.
    stop.send(()).unwrap();
    assert_eq!(serving.await.unwrap(), 0);
}

#[tokio::test]
async fn a_head_that_never_ends_is_given_up() {
    let mut setup = Setup::default();
    setup.connections.head = Duration::from_millis(50);
    let service = start(setup).await;
    let mut stream = TcpStream::connect(service.address).await.unwrap();
    stream
        .write_all(b"POST /v1/completions HTTP/1.1\r\nhost: x")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test]
async fn draining_lets_what_is_under_way_end() {
    let service = gated("drain", 4, 8).await;
    let client = Client::new(service.address.to_string());
    let late = Client::new(service.address.to_string());
    open("drain", 1);
    let mut answer = begin(&client, "until the end").await;
    let first = answer.piece().await.unwrap().unwrap();
    let stopping = tokio::spawn(service.stop());
    // New connections are told that the service drains.
    until("it says that it drains", async || {
        let (status, health) = late.get("/health").await.unwrap();
        status == 503 && health.contains("draining")
    })
    .await;
    let (status, refusal) = late.post(COMPLETIONS, body("too late", true)).await.unwrap();
    assert!(
        status == 503 && refusal.contains("shutting_down"),
        "{status} {refusal}"
    );
    open("drain", 100);
    let text = String::from_utf8_lossy(&first).into_owned() + &rest(answer).await;
    let (objects, done) = support::events(&text);
    let pieces = objects.iter().filter_map(|it| it["choices"][0]["text"].as_str());
    assert_eq!(
        (pieces.collect::<String>().as_str(), done),
        ("until the end", true)
    );
    assert_eq!(stopping.await.unwrap(), 0);
}

/// The last early connection may end while a client that came late receives its answer.
#[tokio::test]
async fn who_came_late_is_answered_though_all_others_have_ended() {
    let gates = [(); 2].map(|()| Arc::new(tokio::sync::Semaphore::new(0)));
    let behind = |gate: &Arc<tokio::sync::Semaphore>| {
        let gate = Arc::clone(gate);
        get(async move || {
            gate.acquire().await.unwrap().forget();
            "it is said"
        })
    };
    let [early_gate, late_gate] = &gates;
    let arrived = Arc::new(tokio::sync::Semaphore::new(0));
    let counted = Arc::clone(&arrived);
    let router = Router::new()
        .route("/early", behind(early_gate))
        .route("/late", behind(late_gate))
        .layer(axum::middleware::from_fn(
            move |request, next: axum::middleware::Next| {
                counted.add_permits(1);
                next.run(request)
            },
        ));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let until_stopped = async move {
        let _ = stopped.await;
    };
    let grace = Duration::from_secs(30);
    let serving = tokio::spawn(listen::serve(
        listener,
        router,
        Connections::default(),
        until_stopped,
        grace,
        async {},
    ));
    let ask = |path: &'static str| {
        let client = Client::new(address.to_string());
        tokio::spawn(async move { client.get(path).await })
    };
    let early = ask("/early");
    arrived.acquire().await.unwrap().forget();
    stop.send(()).unwrap();
    // Without a pause in between, the service might accept this connection before it has heard of its end.
    tokio::task::yield_now().await;
    let late = ask("/late");
    arrived.acquire().await.unwrap().forget();
    early_gate.add_permits(1);
    assert_eq!(early.await.unwrap().unwrap(), (200, "it is said".into()));
    until("nobody is accepted", async || {
        TcpStream::connect(address).await.is_err()
    })
    .await;
    late_gate.add_permits(1);
    assert_eq!(late.await.unwrap().unwrap(), (200, "it is said".into()));
    assert_eq!(serving.await.unwrap(), 0);
}

/// Neither a stream nor a waiting request ends without an answer.
#[tokio::test]
async fn shutting_down_is_answered_when_the_grace_is_over() {
    let mut setup = Setup {
        gate: Some("grace".into()),
        grace: Duration::from_millis(50),
        ..Setup::default()
    };
    setup.limits.slots = 1;
    let service = start(setup).await;
    let stats = || service.service.stats();
    let [client, other] = [(); 2].map(|()| Client::new(service.address.to_string()));
    open("grace", 1);
    let mut stream = begin(&client, "never to its end").await;
    let first = stream.piece().await.unwrap().unwrap();
    let waiting = tokio::spawn(async move { other.post(COMPLETIONS, body("ab", false)).await.unwrap() });
    until("another waits", async || stats().queued == 1).await;
    let stopping = tokio::spawn(service.stop());
    let text = String::from_utf8_lossy(&first).into_owned() + &rest(stream).await;
    let (objects, done) = support::events(&text);
    assert_eq!(
        objects.last().unwrap()["error"]["code"],
        "shutting_down",
        "{text}"
    );
    assert!(!done, "{text}");
    let (status, text) = waiting.await.unwrap();
    assert!(status == 503 && text.contains("shutting_down"), "{status} {text}");
    open("grace", 100);
    assert_eq!(stopping.await.unwrap(), 0, "none was cut off");
}
