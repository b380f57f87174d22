//! Connections: accepted up to a number, each with its deadlines, and drained in the end.

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

/// How long to leave the listener alone after an error that is not one connection's own: no descriptors left, say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long the last answers have to get on their way.
const LAST_WORD: Duration = Duration::from_secs(2);

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct Connections {
    /// How many at once. The system queues what comes beyond.
    pub most: usize,
    /// How long a client may take for the head of a request, or be silent between two.
    pub head: Duration,
    /// How long a write may get nowhere.
    pub write: Duration,
}

impl Default for Connections {
    /// 4096 connections; 30 s for a head and for a write.
    fn default() -> Self {
        Connections {
            most: 4096,
            head: Duration::from_secs(30),
            write: Duration::from_secs(30),
        }
    }
}

/// Serves until `stop`, then lets what is under way end within `grace`. Clients that come meanwhile are served too, one request a
/// connection, so that they can be told that the service ends. Whatever is under way after that is answered by `last_word`, and has
/// two seconds to arrive. Returns how many connections were cut off.
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
    // Fails only where no connection is left to hear it.
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
        let all = async { while early.join_next().await.is_some() {} };
        let _ = timeout(LAST_WORD, all).await;
    }
    let left = early.len();
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
        // What goes wrong with a connection is its client's affair.
        _ = connection.as_mut() => return,
        _ = asked => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// A connection for one request.
async fn answer_once(stream: TcpStream, router: Router, limits: Connections) {
    let mut once = protocol(limits);
    once.keep_alive(false);
    // What goes wrong with a connection is its client's affair.
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
    // Tokens are small and wait for nobody.
    let _ = stream.set_nodelay(true);
    TokioIo::new(Stalling::new(stream, limits.write))
}
