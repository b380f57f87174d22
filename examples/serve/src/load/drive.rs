//! The sending of many requests: by clients that wait for their answers, or at a fixed rate, whatever the service does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use selvedge_examples::random::Random;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use crate::load::client::Client;
use crate::load::request::{Ask, End, Outcome};

/// The source of the requests.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// A number of clients, each with one request at a time.
    Clients(usize),
    /// A number of requests per second, at random moments: a Poisson process.
    Rate(f64),
}

/// A run: its load, its duration and its results.
#[derive(Clone, Debug)]
pub struct Run {
    /// The source of the requests.
    pub load: Load,
    /// The time in which requests were sent.
    pub time: Duration,
    /// The time from the first request to the last answer.
    pub whole: Duration,
    /// The outcome of every request.
    pub outcomes: Vec<Outcome>,
    /// The requests that were sent a second time.
    pub repeated: u64,
}

/// The pause of a refused client: the shortest `Retry-After` would be too long for a measurement.
const AWAY: Duration = Duration::from_millis(20);

/// Sends requests for `time`, then waits for the missing answers.
pub async fn drive(client: &Arc<Client>, ask: &Arc<Ask>, load: Load, time: Duration) -> Run {
    let (start, repeated) = (Instant::now(), client.repeated());
    let mut tasks = match load {
        Load::Clients(clients) => clients_of(client, ask, clients, (start, time)),
        Load::Rate(rate) => arrivals(client, ask, rate, (start, time)).await,
    };
    let mut outcomes = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        outcomes.extend(ended.unwrap_or_default());
    }
    outcomes.sort_by_key(|outcome| outcome.sent);
    Run {
        load,
        time,
        whole: start.elapsed(),
        outcomes,
        repeated: client.repeated() - repeated,
    }
}

fn clients_of(
    client: &Arc<Client>,
    ask: &Arc<Ask>,
    clients: usize,
    (start, time): (Instant, Duration),
) -> JoinSet<Vec<Outcome>> {
    let numbers = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let (client, ask, numbers) = (Arc::clone(client), Arc::clone(ask), Arc::clone(&numbers));
        tasks.spawn(async move {
            let mut outcomes = Vec::new();
            while start.elapsed() < time {
                // Relaxed: only that no two numbers are equal matters.
                let number = numbers.fetch_add(1, Ordering::Relaxed);
                let outcome = ask.send(&client, number, start).await;
                if outcome.end != End::Whole {
                    tokio::time::sleep(AWAY).await;
                }
                outcomes.push(outcome);
            }
            outcomes
        });
    }
    tasks
}

async fn arrivals(
    client: &Arc<Client>,
    ask: &Arc<Ask>,
    rate: f64,
    (start, time): (Instant, Duration),
) -> JoinSet<Vec<Outcome>> {
    let mut random = Random::new(20_261_121);
    let (mut next, mut number) = (Duration::ZERO, 0);
    let mut tasks = JoinSet::new();
    loop {
        // The time between events of a Poisson process is exponential.
        let chance = (f64::from(random.signed()) + 1.0) / 2.0;
        next += Duration::from_secs_f64(-(1.0 - chance).ln() / rate);
        if next >= time {
            return tasks;
        }
        sleep_until((start + next).into()).await;
        let (client, ask) = (Arc::clone(client), Arc::clone(ask));
        tasks.spawn(async move { vec![ask.send(&client, number, start).await] });
        number += 1;
    }
}
