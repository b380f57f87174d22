//! A service over a model without computation: it repeats its prompt, one character per token.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot set up has failed"
)]
#![allow(dead_code, reason = "each test uses a part")]
#![allow(unreachable_pub, reason = "an actor's operations are its public methods")]

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::process::Signal;
use selvedge::prelude::*;
use selvedge_examples::weights::shipped_weights;
use selvedge_llama::step::{Batch, Sampled};
use selvedge_serve::classify::{self, Image, Scores};
use selvedge_serve::listen::{self, Connections};
use selvedge_serve::load::client::Client;
use selvedge_serve::service::{ClassifierBuild, Limits, Model, Service};
use selvedge_serve::supervise::{Actors, Built};
use selvedge_serve::template::Template;
use selvedge_serve::vocabulary::Vocabulary;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The positions of the parrot.
pub const POSITIONS: u32 = 128;
/// The character at which the parrot fails.
pub const POISON: char = '!';
/// The character at which its process dies as by `kill -9`, after it has repeated the text before it.
pub const DEATH: char = '†';
/// The character at which its process stops, after it has repeated the text before it.
pub const STANDSTILL: char = '‡';
/// The character at which its method does not return, after it has repeated the text before it. Its process gives signs of
/// life.
pub const ENDLESS: char = '∞';
/// The character whose token the model does not know.
pub const FOREIGN: char = '◊';
/// The token that ends a text.
const END: u32 = 0;

/// A vocabulary in which each character is a token.
pub struct Characters;

impl Vocabulary for Characters {
    fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        let token = |it| if it == FOREIGN { self.size() } else { u32::from(it) };
        Ok(text.chars().map(token).collect())
    }

    fn decode(&self, tokens: &[u32]) -> String {
        tokens.iter().filter_map(|token| char::from_u32(*token)).collect()
    }

    fn is_end(&self, token: u32) -> bool {
        token == END
    }

    fn size(&self) -> u32 {
        0x11_0000
    }

    fn longest_token(&self) -> usize {
        4
    }
}

/// The steps that a parrot may make, by the name of its gate; a parrot without a gate has no entry.
static GATES: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());
static OPENED: Condvar = Condvar::new();

/// Returns the steps that a gate was opened for and that no parrot has made.
pub fn unused(gate: &str) -> u64 {
    GATES.lock().get(gate).copied().unwrap_or(0)
}

/// Lets the parrots behind a gate make this number of further steps.
pub fn open(gate: &str, steps: u64) {
    *GATES.lock().entry(gate.to_owned()).or_default() += steps;
    OPENED.notify_all();
}

fn pass(gate: &str) {
    let mut gates = GATES.lock();
    loop {
        let left = gates.entry(gate.to_owned()).or_default();
        if *left > 0 {
            *left -= 1;
            return;
        }
        assert!(
            !OPENED.wait_for(&mut gates, Duration::from_secs(30)).timed_out(),
            "{gate} stays closed"
        );
    }
}

/// The model: a parrot that repeats its prompts.
pub struct Parrot {
    slots: HashMap<u32, (Vec<u32>, usize)>,
    gate: Option<String>,
}

#[actor]
impl Parrot {
    pub fn new(gate: Option<String>) -> Self {
        Parrot {
            slots: HashMap::new(),
            gate,
        }
    }

    /// Repeats each prompt, and ends. Checks that the parts of a text arrive in order.
    pub fn step(&mut self, batch: Batch) -> Result<Vec<Sampled>> {
        self.gate.iter().for_each(|gate| pass(gate));
        let mut sampled = Vec::new();
        for part in batch.parts {
            let (text, said) = self.slots.entry(part.slot).or_default();
            if part.start == 0 {
                (*text, *said) = (Vec::new(), 0);
            }
            if *said == 0 {
                assert_eq!(text.len(), part.start as usize, "slot {}", part.slot);
                text.extend(&part.tokens);
            }
            let has = |it: char| part.tokens.contains(&u32::from(it));
            if has(POISON) {
                return Err("poison".into());
            }
            let ends = |it: char, signal| {
                if *said > 0 && has(it) {
                    rustix::process::kill_process(rustix::process::getpid(), signal).unwrap();
                    // Another thread may take the signal; this one must not continue.
                    std::thread::sleep(Duration::from_secs(60));
                }
            };
            ends(DEATH, Signal::KILL);
            ends(STANDSTILL, Signal::STOP);
            while *said > 0 && has(ENDLESS) {
                std::thread::park();
            }
            if part.sampling.is_some() {
                let token = text.get(*said).copied().unwrap_or(END);
                *said += 1;
                sampled.push(Sampled {
                    slot: part.slot,
                    token,
                    logprob: 0.0,
                });
            }
        }
        Ok(sampled)
    }
}

/// A classifier that waits at a gate.
pub struct Gatekeeper(String);

#[actor]
impl Gatekeeper {
    pub fn new(gate: String) -> Self {
        Gatekeeper(gate)
    }

    pub fn classify(&mut self, images: &[Image]) -> Vec<Scores> {
        pass(&self.0);
        images.iter().map(|_| Vec::new()).collect()
    }
}

/// The setup of a service for a test.
pub struct Setup {
    pub limits: Limits,
    pub connections: Connections,
    pub placement: Placement,
    pub gate: Option<String>,
    pub grace: Duration,
    pub classifies: bool,
    /// The gate at which the first classifier waits.
    pub digits_gate: Option<String>,
    /// The number of the model's builds after the first that fail.
    pub failed_builds: usize,
}

impl Default for Setup {
    fn default() -> Self {
        let limits = Limits {
            slots: 4,
            queue: 8,
            ..Limits::default()
        };
        Setup {
            limits,
            connections: Connections::default(),
            placement: Placement::Thread,
            gate: None,
            grace: Duration::from_secs(20),
            classifies: true,
            digits_gate: None,
            failed_builds: 0,
        }
    }
}

/// A running service; dropping it does not drain it, [`Running::stop`] does.
pub struct Running {
    pub service: Arc<Service>,
    pub address: SocketAddr,
    pub client: Client,
    pub runtime: Runtime,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<usize>,
}

/// Starts a service over a parrot.
pub async fn start(setup: Setup) -> Running {
    let runtime = Runtime::new();
    let (its, placement, gate) = (runtime.clone(), setup.placement, setup.gate);
    let (builds, fail) = (AtomicUsize::new(0), 1..=setup.failed_builds);
    let build = move || {
        if fail.contains(&builds.fetch_add(1, Ordering::Relaxed)) {
            return Err("there is no weight on the shelf".into());
        }
        let parrot = its.spawn::<Parrot>("parrot", (gate.clone(),)).place(placement)?;
        let actors = Actors(vec![parrot.actor().clone()]);
        let options = Options::new().named("parrot").max_inflight(2);
        let graph = its.compile_with(options, |batch: Edge<Batch>| parrot.step(&batch))?;
        Ok(Built { graph, actors })
    };
    let its = runtime.clone();
    let digits_gate = Mutex::new(setup.digits_gate);
    let classifier: ClassifierBuild = Arc::new(move || {
        let Some(gate) = digits_gate.lock().take() else {
            return classify::build(&its, shipped_weights());
        };
        let gatekeeper = its.spawn::<Gatekeeper>("classifier", (gate,)).in_thread()?;
        let actors = Actors(vec![gatekeeper.actor().clone()]);
        let graph = its.compile(|images: Edge<Vec<Image>>| gatekeeper.classify(&images))?;
        Ok(Built { graph, actors })
    });
    let model = Model {
        name: "parrot".into(),
        vocabulary: Arc::new(Characters),
        template: Template::Plain,
        positions: POSITIONS,
        build: Arc::new(build),
        classifier: setup.classifies.then_some(classifier),
    };
    let service = Service::start(model, setup.limits).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let until = async move {
        let _ = stopped.await;
    };
    let grace = setup.grace;
    let closing = Arc::clone(&service);
    let last_word = async move {
        let close = move || closing.close(Duration::ZERO);
        tokio::task::spawn_blocking(close).await.unwrap();
    };
    let serving = tokio::spawn(listen::serve(
        listener,
        service.router(),
        setup.connections,
        until,
        grace,
        last_word,
    ));
    let client = Client::new(address.to_string());
    Running {
        service,
        address,
        client,
        runtime,
        stop,
        serving,
    }
}

impl Running {
    /// Stops accepting and waits for requests in flight; returns the number of connections that were cut off.
    pub async fn stop(self) -> usize {
        self.service.drain();
        let _ = self.stop.send(());
        let left = self.serving.await.unwrap();
        let service = Arc::clone(&self.service);
        tokio::task::spawn_blocking(move || service.close(Duration::from_secs(5)))
            .await
            .unwrap();
        left
    }

    /// Posts a request and reads the answer as JSON.
    pub async fn json(&self, path: &str, body: &str) -> (u16, serde_json::Value) {
        let (status, text) = self.client.post(path, body.to_owned()).await.unwrap();
        let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
        (status, value)
    }

    /// Returns a sample of `/metrics`.
    pub async fn metric(&self, name: &str) -> f64 {
        let (status, page) = self.client.get("/metrics").await.unwrap();
        assert_eq!(status, 200);
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {page}"))
            .parse()
            .unwrap()
    }
}

/// Waits until a condition holds; panics after 30 s.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let limit = tokio::time::Instant::now() + Duration::from_secs(30);
    while !holds().await {
        assert!(tokio::time::Instant::now() < limit, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Returns the objects of a stream's events, and whether the stream ended with `[DONE]`.
pub fn events(text: &str) -> (Vec<serde_json::Value>, bool) {
    let frames: Vec<&str> = text
        .split_terminator("\n\n")
        .map(|it| it.strip_prefix("data: ").unwrap())
        .collect();
    let done = frames.last() == Some(&"[DONE]");
    let objects = frames.iter().filter(|it| **it != "[DONE]");
    (
        objects.map(|it| serde_json::from_str(it).unwrap()).collect(),
        done,
    )
}
