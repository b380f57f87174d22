//! Connections: accepted up to a number, each with its deadlines, and drained at the end.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::stall::Stalling;

/// The pause of the listener after an error that does not belong to one connection, such as a lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The time that the last answers have to be sent.
const LAST_WORD: Duration = Duration::from_secs(2);

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    /// The most connections at once. The system queues further ones.
    pub most: usize,
    /// The time that a client may take for the head of a request, or be silent between two requests.
    pub head: Duration,
    /// The time that a write may make no progress.
    pub write: Duration,
}

impl Default for Connections {
    /// Returns 4096 connections; 30 s for a head and for a write.
    fn default() -> Self {
        Connections {
            most: 4096,
            head: Duration::from_secs(30),
            write: Duration::from_secs(30),
        }
    }
}

/// Serves until `stop`, then lets requests in flight end within `grace`. Clients that connect in this time are served
/// too, with one request per connection, so that they can be told that the service ends. Requests still in flight after
/// that are answered by `last_word`. Then the answers under way, also to clients that came late, have two seconds to
/// arrive. Returns the number of connections that were cut off.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Connections,
    stop: impl Future<Output = ()>,
    grace: Duration,
    last_word: impl Future<Output = ()>,
) -> usize {
    let mut stop = pin!(stop);
    let (drain, draining) = watch::channel(false);
    let (mut early, mut late) = (JoinSet::new(), JoinSet::new());
    loop {
        tokio::select! {
            () = &mut stop => break,
            Some(_) = early.join_next(), if !early.is_empty() => {}
            stream = accept(&listener), if early.len() < limits.most => {
                early.spawn(converse(stream, router.clone(), limits, draining.clone()));
            }
        }
    }
    // Sending fails only if no connection is left to receive it.
    let _ = drain.send(true);
    let mut over = pin!(sleep(grace));
    while !early.is_empty() {
        tokio::select! {
            () = &mut over => break,
            Some(_) = early.join_next() => {}
            Some(_) = late.join_next(), if !late.is_empty() => {}
            stream = accept(&listener), if early.len() + late.len() < limits.most => {
                late.spawn(answer_once(stream, router.clone(), limits));
            }
        }
    }
    drop(listener);
    if !early.is_empty() {
        last_word.await;
    }
    let all = async {
        while early.join_next().await.is_some() {}
        while late.join_next().await.is_some() {}
    };
    let _ = timeout(LAST_WORD, all).await;
    let left = early.len() + late.len();
    early.shutdown().await;
    late.shutdown().await;
    left
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn converse(
    stream: TcpStream,
    router: Router,
    limits: Connections,
    mut draining: watch::Receiver<bool>,
) {
    let connection =
        protocol(limits).serve_connection(stalling(stream, limits), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    let asked = async { draining.wait_for(|it| *it).await.is_ok() };
    tokio::select! {
        // The error of a connection concerns only its client.
        _ = connection.as_mut() => return,
        _ = asked => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// Serves a connection for one request.
async fn answer_once(stream: TcpStream, router: Router, limits: Connections) {
    let mut once = protocol(limits);
    once.keep_alive(false);
    // The error of a connection concerns only its client.
    let _ = once
        .serve_connection(stalling(stream, limits), TowerToHyperService::new(router))
        .await;
}

fn protocol(limits: Connections) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.head);
    builder
}

fn stalling(stream: TcpStream, limits: Connections) -> TokioIo<Stalling> {
    // Tokens are small, and sending them must not be delayed.
    let _ = stream.set_nodelay(true);
    TokioIo::new(Stalling::new(stream, limits.write))
}
