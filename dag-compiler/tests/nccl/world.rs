//! Ranks over the simulated NCCL: a thread, a stream and memory for each lane, and communicators on demand.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_void};
use std::thread;

use selvedge_channels::device::{DeviceMemory, Gpu, Library, Stream, Unavailable};
use selvedge_collectives::gpu::probe;

use super::calls::{Call, List, Members, Verb};

const SUCCESS: c_int = 0;
const IN_PROGRESS: c_int = 7;
/// The values of `ncclUint8` and `ncclSum`.
const BYTES: c_int = 1;
const SUM: c_int = 0;

/// The largest number of values and collectives of a plan, and so of elements of a message.
const MOST: usize = 64;
/// The largest number of lanes, the driver's included.
const LANES: usize = 5;
/// The number of executions that are enqueued one behind the other.
const EXECUTIONS: u32 = 2;
const WORDS: usize = MOST * EXECUTIONS as usize;

#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId([u8; 128]);

/// `ncclConfig_t` of 2.28.
#[repr(C)]
struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
    rest: [c_int; 24],
}

type Message = extern "C" fn(u64, usize, c_int, c_int, usize, *mut c_void) -> c_int;
type Word = extern "C" fn(*mut c_void, u64, u32, c_uint) -> c_int;

macro_rules! functions {
    ($($field:ident = $symbol:literal: $type:ty;)+) => {
        struct Functions {
            $($field: $type,)+
            /// Keeps the library, and so the functions, loaded.
            _library: Library,
        }

        impl Functions {
            fn of(library: Library) -> Result<Self, Unavailable> {
                Ok(Functions {
                    // SAFETY: these are the simulator's types, and it checks its arguments; the library is stored
                    // beside the pointers, so it outlives them.
                    $($field: unsafe { library.function($symbol) }?,)+
                    _library: library,
                })
            }
        }
    };
}

functions! {
    settle = "selvedge_sim_settle": extern "C" fn() -> c_int;
    violations = "selvedge_sim_violations": extern "C" fn() -> u64;
    unique_id = "ncclGetUniqueId": extern "C" fn(&mut UniqueId) -> c_int;
    join = "ncclCommInitRankConfig": extern "C" fn(&mut usize, c_int, UniqueId, c_int, &Config) -> c_int;
    state = "ncclCommGetAsyncError": extern "C" fn(usize, &mut c_int) -> c_int;
    abort = "ncclCommAbort": extern "C" fn(usize) -> c_int;
    group_start = "ncclGroupStart": extern "C" fn() -> c_int;
    group_end = "ncclGroupEnd": extern "C" fn() -> c_int;
    send = "ncclSend": Message;
    receive = "ncclRecv": Message;
    broadcast = "ncclBroadcast": extern "C" fn(u64, u64, usize, c_int, c_int, usize, *mut c_void) -> c_int;
    all_reduce = "ncclAllReduce": extern "C" fn(u64, u64, usize, c_int, c_int, usize, *mut c_void) -> c_int;
    write_word = "cuStreamWriteValue32_v2": Word;
    wait_word = "cuStreamWaitValue32_v2": Word;
}

/// The reason why there is no simulator.
pub enum Missing {
    /// No driver was found.
    Driver(String),
    /// A driver was found, but it lacks functions that this test needs.
    Simulator(String),
}

/// The resources of a lane.
struct Place {
    stream: Stream,
    /// The bytes that the lane sends, followed by those that it receives.
    memory: DeviceMemory,
}

/// The ranks, and the simulator that they are ranks of.
pub struct World {
    nccl: Functions,
    gpu: Gpu,
    places: Vec<Place>,
    /// A word for each value of each execution, which holds the last round in which the value was stored.
    words: DeviceMemory,
    /// A stream for the writes that release other streams.
    outside: Stream,
    communicators: BTreeMap<Members, Vec<usize>>,
    round: u32,
}

impl World {
    /// Opens the simulator: an NCCL that can tell whether any operation can still advance.
    pub fn open() -> Result<Self, Missing> {
        let found = probe();
        let driver = found.driver.map_err(|error| Missing::Driver(error.to_string()))?;
        if driver.devices.is_empty() {
            return Err(Missing::Driver("no device".to_owned()));
        }
        let simulator = |error: Unavailable| Missing::Simulator(error.to_string());
        found.nccl.map_err(simulator)?;
        let library = Library::open(
            "the simulated NCCL",
            "SELVEDGE_NCCL_LIB",
            &["libnccl.so.2", "libnccl.so"],
        );
        let nccl = library.and_then(Functions::of).map_err(simulator)?;
        let gpu = Gpu::open(0).unwrap();
        let place = |_| Place {
            stream: Stream::communication(&gpu).unwrap(),
            memory: DeviceMemory::new(&gpu, 2 * MOST).unwrap(),
        };
        let places = (0..LANES).map(place).collect();
        let outside = Stream::compute(&gpu).unwrap();
        let mut words = DeviceMemory::new(&gpu, WORDS * 4).unwrap();
        outside.fill(words.span_mut(0, WORDS * 4).unwrap(), 0).unwrap();
        assert_eq!((nccl.settle)(), 1);
        Ok(World {
            nccl,
            gpu,
            places,
            words,
            outside,
            communicators: BTreeMap::new(),
            round: 0,
        })
    }

    /// Lets every lane enqueue its list, twice, without waiting. Returns true if all operations complete in the end;
    /// otherwise aborts the others.
    pub fn drains(&mut self, lists: &[List]) -> bool {
        let members = || lists.iter().flatten().flatten().filter_map(Call::members);
        members().for_each(|members| self.connect(members));
        let before = (self.nccl.violations)();
        let world = &*self;
        thread::scope(|scope| {
            for (lane, list) in lists.iter().enumerate() {
                scope.spawn(move || world.issue(lane, list));
            }
        });
        self.round += EXECUTIONS;
        // The number of the round must not overflow.
        assert!(self.round < 1 << 30);
        let settled = (self.nccl.settle)();
        assert!(
            settled == 0 || settled == 1,
            "{settled}: somebody outside is waited for"
        );
        if settled == 0 {
            members().for_each(|members| self.abort(members));
            self.release();
            assert_eq!((self.nccl.settle)(), 1, "an abort has not freed what was stuck");
            return false;
        }
        assert_eq!(
            (self.nccl.violations)(),
            before,
            "all is done, but something was amiss"
        );
        true
    }

    /// Creates a communicator, unless it exists.
    fn connect(&mut self, members: &Members) {
        if self.communicators.contains_key(members) {
            return;
        }
        let mut id = UniqueId([0; 128]);
        assert_eq!((self.nccl.unique_id)(&mut id), SUCCESS);
        let config = Config {
            size: size_of::<Config>(),
            magic: 0xcafe_beef,
            version: 22809,
            blocking: 0,
            rest: [c_int::MIN; 24],
        };
        self.gpu.bind().unwrap();
        let ranks = members.lanes.len();
        let join = |rank: usize| {
            let mut handle = 0;
            let code = (self.nccl.join)(&mut handle, ranks as c_int, id, rank as c_int, &config);
            assert_eq!(code, IN_PROGRESS);
            handle
        };
        let handles: Vec<usize> = (0..ranks).map(join).collect();
        handles.iter().for_each(|handle| self.ready(*handle));
        self.communicators.insert(members.clone(), handles);
    }

    /// Asserts that the last call of a communicator has been enqueued.
    fn ready(&self, handle: usize) {
        let mut state = IN_PROGRESS;
        assert_eq!((self.nccl.state)(handle, &mut state), SUCCESS);
        assert_eq!(state, SUCCESS);
    }

    fn abort(&mut self, members: &Members) {
        for handle in self.communicators.remove(members).unwrap_or_default() {
            assert_eq!((self.nccl.abort)(handle), SUCCESS);
        }
    }

    /// Releases all communicators.
    pub fn close(&mut self) {
        let all: Vec<Members> = self.communicators.keys().cloned().collect();
        all.iter().for_each(|members| self.abort(members));
    }

    /// Releases lanes that wait for their own words, now or later: every word gets a round that no waiter exceeds.
    fn release(&self) {
        for word in 0..WORDS as u64 {
            let address = self.words.address() + 4 * word;
            let code = (self.nccl.write_word)(self.outside.as_raw(), address, self.round, 0);
            assert_eq!(code, SUCCESS);
        }
    }

    /// The address of a value's word in the execution of `round`.
    fn word(&self, value: usize, round: u32) -> u64 {
        assert!(value < MOST);
        let execution = (round % EXECUTIONS) as usize;
        self.words.address() + 4 * (execution * MOST + value) as u64
    }

    /// The thread of a lane: enqueues its list for each execution.
    fn issue(&self, lane: usize, list: &List) {
        self.gpu.bind().unwrap();
        for round in self.round + 1..=self.round + EXECUTIONS {
            for group in list {
                self.group(lane, group, round);
            }
        }
    }

    fn group(&self, lane: usize, group: &[Call], round: u32) {
        let together = group.len() > 1;
        if together {
            assert_eq!((self.nccl.group_start)(), SUCCESS);
        }
        for call in group {
            let code = self.call(lane, call, round);
            let grouped = together || call.members().is_none();
            assert_eq!(code, if grouped { SUCCESS } else { IN_PROGRESS }, "{call:?}");
        }
        if together {
            assert_eq!((self.nccl.group_end)(), IN_PROGRESS);
        }
        for members in group.iter().filter_map(Call::members) {
            self.ready(self.handle(lane, members));
        }
    }

    fn handle(&self, lane: usize, members: &Members) -> usize {
        self.communicators[members][members.rank(lane)]
    }

    fn call(&self, lane: usize, call: &Call, round: u32) -> c_int {
        let place = &self.places[lane];
        let (nccl, stream) = (&self.nccl, place.stream.as_raw());
        let (from, to) = (place.memory.address(), place.memory.address() + MOST as u64);
        let (members, verb, count) = match call {
            // The wait is for at least this round: the word of a later round ends it too.
            Call::Await(value) => return (nccl.wait_word)(stream, self.word(*value, round), round, 0),
            Call::Put(value) => return (nccl.write_word)(stream, self.word(*value, round), round, 0),
            Call::Nccl { members, verb, count } => (members, *verb, *count),
        };
        assert!(count <= MOST);
        let handle = self.handle(lane, members);
        match verb {
            Verb::Send { to } => (nccl.send)(from, count, BYTES, to as c_int, handle, stream),
            Verb::Receive { from } => (nccl.receive)(to, count, BYTES, from as c_int, handle, stream),
            Verb::Broadcast { root } => {
                (nccl.broadcast)(from, to, count, BYTES, root as c_int, handle, stream)
            }
            Verb::AllReduce => (nccl.all_reduce)(from, to, count, BYTES, SUM, handle, stream),
        }
    }
}
