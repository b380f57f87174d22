//! An actor and programs written by hand, without the attribute, so that the tests need this crate alone and not the
//! crates above it.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use selvedge_channels::{Doorbell, PayloadType, Traits, Waiting, decode, encode};
use selvedge_core::{
    ACTORS, Actor, ActorEntry, ActorId, ActorRef, ActorState, Arguments, AsyncDriver, Call, Construction,
    ConstructorEntry, Failure, Frame, LOADERS, LaneHost, LaneId, Lease, LoadedPrograms, Loading, MethodEntry,
    Program, ProgramLoader, Returned, Sharing,
};
use serde::{Deserialize, Serialize};

/// A time limit that is long enough for a busy machine, and short enough to reveal a hang.
pub const TIMEOUT: Duration = Duration::from_secs(20);

pub fn soon() -> Instant {
    Instant::now() + TIMEOUT
}

/// Aborts the test program when a test takes too long: a hang must not look like a slow machine.
pub struct Watchdog(Option<std::sync::mpsc::Sender<()>>);

impl Watchdog {
    pub fn new(name: &'static str) -> Self {
        let (alive, gone) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            if gone.recv_timeout(Duration::from_secs(60)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                eprintln!("{name} hangs");
                std::process::abort();
            }
        });
        Self(Some(alive))
    }
}

/// The behaviour of a toy's constructor.
#[derive(Clone, Serialize, Deserialize)]
pub enum Birth {
    Fine,
    Refuses,
    Panics,
    /// The process ends in the middle of the constructor.
    Exits,
    Hangs,
}

pub struct Toy {
    sum: i64,
}

pub const ADD: u16 = 0;
pub const FAIL: u16 = 1;
pub const PANIC: u16 = 2;
pub const PID: u16 = 3;
pub const SAY: u16 = 4;
pub const EXIT: u16 = 5;
pub const HANG: u16 = 6;
pub const ENV: u16 = 7;
pub const NAP: u16 = 8;
pub const THREAD: u16 = 9;
pub const DIE: u16 = 10;

#[derive(Debug, thiserror::Error)]
#[error("no {0} today")]
pub struct Refusal(pub String);

/// Wraps `|toy, (arguments), driver| result` in the way that generated code does.
macro_rules! entry {
    ($name:literal, |$toy:ident, ($($arg:ident),*): $types:ty, $driver:ident| -> $result:ty $body:block) => {
        MethodEntry {
            name: $name,
            params: &[],
            result: || PayloadType::of::<$result>(),
            parts: Vec::new,
            error: || None,
            sharing: Sharing::Exclusive,
            compute: |_: &mut ActorState, _: &mut Frame<'_>| Err(Box::new(Failure::Internal("not in graphs".to_owned()))),
            call: |toy, arguments, driver| {
                let run: fn(&mut Toy, $types, &AsyncDriver) -> Result<$result, Failure> =
                    |$toy, ($($arg,)*), $driver| $body;
                let kind = arguments.kind();
                let toy = toy.receiver::<Toy>().unwrap();
                Returned::new(run(toy, arguments.into(&Traits::WIRE)?, driver)?, kind, &Traits::WIRE)
            },
        }
    };
}

static METHODS: &[MethodEntry] = &[
    entry!("add", |toy, (x): (i64,), _driver| -> i64 {
        toy.sum += x;
        Ok(toy.sum)
    }),
    entry!("fail", |_toy, (what): (String,), _driver| -> () {
        Err(Failure::from_error(Refusal(what)))
    }),
    entry!("panic", |toy, (text): (String,), _driver| -> () {
        toy.sum = -1;
        panic!("{text}")
    }),
    entry!("pid", |_toy, (): (), _driver| -> u32 { Ok(std::process::id()) }),
    entry!("say", |_toy, (text): (String,), _driver| -> () {
        eprintln!("{text}");
        Ok(())
    }),
    entry!("exit", |_toy, (code): (i32,), _driver| -> () {
        std::process::exit(code)
    }),
    entry!("hang", |_toy, (): (), _driver| -> () {
        loop {
            std::thread::park();
        }
    }),
    entry!("env", |_toy, (key): (String,), _driver| -> Option<String> {
        Ok(std::env::var(key).ok())
    }),
    entry!("nap", |_toy, (ms): (u64,), driver| -> u64 {
        driver.block_on(async { tokio::time::sleep(Duration::from_millis(ms)).await })?;
        Ok(ms)
    }),
    entry!("thread", |_toy, (): (), _driver| -> String {
        Ok(std::thread::current().name().unwrap_or_default().to_owned())
    }),
    entry!("die", |_toy, (): (), _driver| -> () {
        kill_9(std::process::id());
        Ok(())
    }),
];

static ENTRY: ActorEntry = ActorEntry {
    name: concat!(module_path!(), "::Toy"),
    instance: None,
    id: std::any::TypeId::of::<Toy>(),
    place: "",
    is_pinned: || false,
    checkpoint: || None,
    constructors: &[ConstructorEntry {
        name: "new",
        error: || None,
        create: |bytes, driver| {
            let (birth, sum) = decode(bytes).map_err(Failure::from_error)?;
            Ok(Toy::create((birth, sum), driver)?.into_actor_state())
        },
    }],
    concurrency: 1,
    methods: METHODS,
};

#[linkme::distributed_slice(ACTORS)]
static REGISTERED: fn() -> &'static ActorEntry = Toy::entry;

impl Toy {
    fn create((birth, sum): (Birth, i64), _: &AsyncDriver) -> Result<Self, Failure> {
        match birth {
            Birth::Fine => Ok(Toy { sum }),
            Birth::Refuses => Err(Failure::from_error(Refusal("toy".to_owned()))),
            Birth::Panics => panic!("born to panic"),
            Birth::Exits => std::process::exit(9),
            Birth::Hangs => loop {
                std::thread::park();
            },
        }
    }
}

impl Actor for Toy {
    type Args = (Birth, i64);
    type Handle = ToyHandle;
    const NAME: &'static str = ENTRY.name;

    fn entry() -> &'static ActorEntry {
        &ENTRY
    }

    fn construction(args: (Birth, i64)) -> Construction<Toy, (Birth, i64)> {
        Construction::new(0, args, &Traits::WIRE, |args, driver| {
            Ok(Toy::create(args, driver)?.into_actor_state())
        })
    }

    fn into_actor_state(self) -> ActorState {
        ActorState::new(self)
    }

    fn handle(actor: ActorRef) -> ToyHandle {
        ToyHandle(actor)
    }
}

#[derive(Clone, Debug)]
pub struct ToyHandle(pub ActorRef);

impl ToyHandle {
    pub fn add(&self, x: i64) -> Call<i64> {
        self.0.call(ADD, (x,))
    }

    pub fn say(&self, text: &str) -> Call<()> {
        self.0.call(SAY, (text.to_owned(),))
    }

    pub fn real_pid(&self) -> u32 {
        self.0.call(PID, ()).wait_timeout(TIMEOUT).unwrap()
    }
}

pub const FINE: (Birth, i64) = (Birth::Fine, 0);

/// The behaviour of a toy program.
#[derive(Clone, Serialize, Deserialize)]
pub enum Act {
    /// Adds to an actor's sum, then ends.
    Add(ActorId, i64),
    /// Serves calls until the sum of an actor, read after each call, is this number.
    ServeUntil(ActorId, i64),
    /// Never ends, and serves no calls.
    Hang,
    Panic,
}

/// A program for a lane of any process. It counts the times that its bell woke it.
pub struct ToyProgram {
    pub act: Act,
    pub served: Arc<AtomicU64>,
}

impl ToyProgram {
    pub fn boxed(act: Act) -> Box<dyn Program> {
        Box::new(Self {
            act,
            served: Arc::default(),
        })
    }
}

impl Program for ToyProgram {
    fn run(&mut self, lane: &mut LaneHost<'_>) {
        match self.act {
            Act::Add(actor, x) => {
                add(lane, actor, x);
            }
            Act::ServeUntil(actor, wanted) => {
                let bell = Doorbell::heap();
                lane.set_bell(Some(bell.clone()));
                while add(lane, actor, 0) != wanted && !lane.stopping() {
                    bell.wait(&Waiting::Park, None, || lane.mailbox_pending());
                    lane.serve_mailbox();
                    self.served.fetch_add(1, Ordering::Relaxed);
                }
            }
            Act::Hang => loop {
                std::thread::park();
            },
            Act::Panic => panic!("a program's own bug"),
        }
    }
}

fn add(lane: &mut LaneHost<'_>, actor: ActorId, x: i64) -> i64 {
    let driver = lane.driver();
    let cell = lane.actor(actor).unwrap();
    let arguments = Arguments::local((x,));
    cell.call(ADD, arguments, &driver)
        .unwrap()
        .into::<i64>(&Traits::WIRE)
        .unwrap()
}

#[linkme::distributed_slice(LOADERS)]
static LOADER: ProgramLoader = ProgramLoader { kind: "toy", load };

fn load(bytes: &[u8]) -> Result<LoadedPrograms, String> {
    let acts: Vec<(LaneId, Act)> = decode(bytes).map_err(|error| error.to_string())?;
    Ok(acts
        .into_iter()
        .map(|(lane, act)| (lane, ToyProgram::boxed(act)))
        .collect())
}

pub fn shipped(acts: Vec<(LaneId, Act)>) -> Vec<u8> {
    encode(&acts).unwrap().to_vec()
}

/// Has the toy's worker load a program for its lane.
pub fn loading(lease: &Lease, toy: &ToyHandle, act: Act) -> Loading {
    let bytes = shipped(vec![(toy.0.lane(), act)]);
    lease
        .load_worker(toy.0.address().process, "toy", bytes, soon())
        .unwrap()
}

/// A flag that is set at most once, and that other threads poll.
#[derive(Clone, Default)]
pub struct Raised(Arc<AtomicBool>);

impl Raised {
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Calls `look` until it returns true, for at most [`TIMEOUT`]. It polls, because events in other processes ring no
/// bell.
pub fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let deadline = soon();
    while !look() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn kill_9(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// Whether a process exists, zombies included.
pub fn exists(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}
