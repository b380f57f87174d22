//! Values as users have them, none of which serde knows. Each carries a token, and a ledger counts the tokens.

use std::cell::Cell;
use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// The tokens of one graph, and the receiver of everything that its mails send.
struct Ledger {
    /// Whether the token of each number lives.
    alive: Vec<bool>,
    clones: usize,
    violations: Vec<String>,
    mailbox: Option<Sender<u64>>,
}

static LEDGER: Mutex<Ledger> = Mutex::new(Ledger {
    alive: Vec::new(),
    clones: 0,
    violations: Vec::new(),
    mailbox: None,
});
/// Rung when a token is dropped.
static DROPPED: Condvar = Condvar::new();

const DEADLINE: Duration = Duration::from_secs(60);

/// Begins the books of a graph. The receiver is disconnected once all mails are gone.
pub fn open_books() -> Receiver<u64> {
    let (sender, receiver) = channel();
    let mut ledger = LEDGER.lock().unwrap();
    ledger.alive.clear();
    ledger.clones = 0;
    ledger.mailbox = Some(sender);
    receiver
}

/// The tokens and the clones of a graph.
pub struct Counts {
    pub tokens: usize,
    pub clones: usize,
}

/// Waits until all tokens are dropped, and tells what was done to them that may not be done.
pub fn close_books(mail: &Receiver<u64>) -> Result<Counts, String> {
    let mut ledger = LEDGER.lock().unwrap();
    ledger.mailbox = None;
    let until = Instant::now() + DEADLINE;
    while ledger.alive.contains(&true) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let alive = ledger.alive.iter().filter(|alive| **alive).count();
            return Err(format!(
                "{alive} of {} tokens were never dropped",
                ledger.alive.len()
            ));
        }
        ledger = DROPPED.wait_timeout(ledger, left).unwrap().0;
    }
    let violations = std::mem::take(&mut ledger.violations);
    let counts = Counts {
        tokens: ledger.alive.len(),
        clones: ledger.clones,
    };
    drop(ledger);
    if !violations.is_empty() {
        return Err(violations.join(", "));
    }
    // A mail drops its token last, so every sender is gone by now.
    while mail.try_recv().is_ok() {}
    match mail.try_recv() {
        Err(std::sync::mpsc::TryRecvError::Disconnected) => Ok(counts),
        other => Err(format!("a sender is left: {other:?}")),
    }
}

/// A number in the ledger. It must be dropped once, and not be used after that.
pub struct Token(usize);

impl Token {
    fn new() -> Self {
        let mut ledger = LEDGER.lock().unwrap();
        ledger.alive.push(true);
        Token(ledger.alive.len() - 1)
    }

    fn check(&self) {
        let mut ledger = LEDGER.lock().unwrap();
        if ledger.alive.get(self.0) != Some(&true) {
            ledger
                .violations
                .push(format!("token {} was used after its drop", self.0));
        }
    }
}

impl Clone for Token {
    fn clone(&self) -> Self {
        self.check();
        LEDGER.lock().unwrap().clones += 1;
        Token::new()
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let mut ledger = LEDGER.lock().unwrap();
        match ledger.alive.get_mut(self.0) {
            Some(alive) if *alive => *alive = false,
            _ => ledger
                .violations
                .push(format!("token {} was dropped twice", self.0)),
        }
        drop(ledger);
        DROPPED.notify_all();
    }
}

/// What actors do with a value: read its number, which uses it.
pub trait Value: Sized {
    fn of(number: u64) -> Self;
    fn number(&self) -> u64;
}

/// Holds a `Sender`: it can be cloned and shared.
#[derive(Clone)]
pub struct Mail {
    number: u64,
    /// `None` in another process, where nobody keeps books.
    to: Option<Sender<u64>>,
    token: Token,
}

impl Value for Mail {
    fn of(number: u64) -> Self {
        let to = LEDGER.lock().unwrap().mailbox.clone();
        Mail {
            number,
            to,
            token: Token::new(),
        }
    }

    fn number(&self) -> u64 {
        self.token.check();
        self.to.iter().for_each(|to| to.send(self.number).unwrap());
        self.number
    }
}

/// Holds a file: several threads may read it, and nobody can clone it.
pub struct Handle {
    number: u64,
    file: File,
    token: Token,
}

impl Value for Handle {
    fn of(number: u64) -> Self {
        Handle {
            number,
            file: File::open("/dev/null").unwrap(),
            token: Token::new(),
        }
    }

    fn number(&self) -> u64 {
        self.token.check();
        assert!(self.file.metadata().is_ok(), "a file that is open");
        self.number
    }
}

/// A closure: it can be moved and called, and nothing else.
pub type Job = Box<dyn Fn() -> u64 + Send>;

impl Value for Job {
    fn of(number: u64) -> Self {
        let token = Token::new();
        Box::new(move || {
            token.check();
            number
        })
    }

    fn number(&self) -> u64 {
        self()
    }
}

/// It can be cloned, and not shared.
#[derive(Clone)]
pub struct Tally {
    number: Cell<u64>,
    token: Token,
}

impl Value for Tally {
    fn of(number: u64) -> Self {
        Tally {
            number: Cell::new(number),
            token: Token::new(),
        }
    }

    fn number(&self) -> u64 {
        self.token.check();
        self.number.replace(self.number.get())
    }
}

/// What an `Arc` points to. There is no second one, however many have the `Arc`.
pub struct Client {
    number: u64,
    token: Token,
    uses: AtomicUsize,
}

pub type Shared = Arc<Client>;

impl Value for Shared {
    fn of(number: u64) -> Self {
        Arc::new(Client {
            number,
            token: Token::new(),
            uses: AtomicUsize::new(0),
        })
    }

    fn number(&self) -> u64 {
        self.token.check();
        self.uses.fetch_add(1, Ordering::Relaxed);
        self.number
    }
}

/// A tuple of values that can only be moved.
pub type Both = (Job, Mail);

/// A tuple that can be cloned, and not shared.
pub type Mixed = (Tally, u64);

impl Value for Both {
    fn of(number: u64) -> Self {
        (Job::of(number), Mail::of(number + 1))
    }

    fn number(&self) -> u64 {
        self.0.number() ^ self.1.number().rotate_left(1)
    }
}

impl Value for Mixed {
    fn of(number: u64) -> Self {
        (Tally::of(number), number + 1)
    }

    fn number(&self) -> u64 {
        self.0.number() ^ self.1.rotate_left(1)
    }
}

impl Value for u64 {
    fn of(number: u64) -> Self {
        number
    }

    fn number(&self) -> u64 {
        *self
    }
}
