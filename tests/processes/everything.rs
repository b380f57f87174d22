//! Everything at once while workers are killed: calls, references, the store, remote channels, graphs, maps, shared arrays and submitted
//! calls, each by a thread of its own. Every value is right, every error is one of a death, and what is there between the quarters is what
//! was there after the first one. `SOAK_SECONDS=600 cargo test --test processes everything -- --nocapture` does so for ten minutes.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use selvedge::parallel::SharedArray;
use selvedge::prelude::*;
use selvedge::{CallInfo, DType, RefStats, RemoteChannel, StoreOptions, Worker};

use crate::actors::Counter;
use crate::alone::alone;
use crate::census::{Census, settled, wait_until};
use crate::killing::{Random, kill};

const SEED: u64 = 0x5e1_7ed6e;
const WORKERS: usize = 3;
const MIB: usize = 1 << 20;
/// Less than what is put at a time, so that objects are spilled.
const STORE_BYTES: u64 = 16 << 20;
/// The memory that may come after the first quarter: what a process keeps for the next long bodies, 128 MiB at most, and caches of the allocator
/// and of the kernel.
const MORE_BYTES: u64 = (128 + 48) << 20;

fn number_of(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.and_then(|it| it.parse().ok()).unwrap_or(default)
}

#[remote]
fn added(x: u64, y: u64) -> u64 {
    x + y
}

#[remote]
fn rows(number: u64) -> Vec<u64> {
    (0..number).collect()
}

#[remote]
fn total(rows: Ref<Vec<u64>>) -> Result<u64> {
    Ok(rows.fetch()?.iter().sum())
}

#[remote]
fn brightest(image: Ref<Tensor>) -> Result<u8> {
    Ok(*image.fetch()?.bytes().iter().max().ok_or("empty")?)
}

#[remote]
fn put_by_worker(level: u8) -> Result<Ref<Tensor>> {
    Ok(Runtime::current()?.put(image(level, MIB))?)
}

#[remote]
fn doubles(jobs: RemoteChannel<u64>, results: RemoteChannel<u64>) -> Result<()> {
    for job in jobs.iter() {
        results.put(2 * job?)?;
    }
    results.close()?;
    Ok(())
}

#[remote]
fn fill_own_part(array: SharedArray<u64>) -> Result<()> {
    let mut part = array.claim()?;
    let places = part.range();
    part.iter_mut()
        .zip(places)
        .for_each(|(element, place)| *element = place as u64);
    Ok(())
}

#[remote(pure, retries = 1000)]
fn mixed(x: u64, y: u64) -> u64 {
    x.rotate_left(7) ^ y.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn image(level: u8, bytes: usize) -> Tensor {
    Tensor::filled(DType::U8, [bytes], |bytes| bytes.fill(level)).unwrap()
}

/// The workers that live, and what has been seen.
struct Yard<'a> {
    runtime: &'a Runtime,
    workers: Mutex<Vec<Worker>>,
    seed: AtomicU64,
    done: [AtomicUsize; WORK.len()],
    errors: Mutex<BTreeMap<String, usize>>,
}

/// A piece of work: its name, and what is done again and again. An error may only be that of a death.
type Work = (&'static str, fn(&Yard<'_>, &mut Random) -> Result<()>);

const WORK: [Work; 9] = [
    ("calls", calls),
    ("references", references),
    ("store", store),
    ("store of workers", store_of_workers),
    ("channels", channels),
    ("graphs", graphs),
    ("map", map),
    ("shared arrays", shared_arrays),
    ("submitted calls", submitted),
];

impl Yard<'_> {
    fn any(&self, random: &mut Random) -> Worker {
        let workers = self.workers.lock().unwrap();
        workers[random.below(workers.len() as u64) as usize].clone()
    }

    fn all(&self) -> Vec<Worker> {
        self.workers.lock().unwrap().clone()
    }

    fn random(&self) -> Random {
        Random(SEED + self.seed.fetch_add(0x9e37, Ordering::Relaxed))
    }
}

fn calls(yard: &Yard<'_>, random: &mut Random) -> Result<()> {
    let mut calls = Vec::new();
    for x in 0..64 {
        let call = added::remote(x, 7).on(&yard.any(random));
        calls.push((x + 7, yard.runtime.call(call)));
    }
    let mut last = Ok(());
    for (sum, call) in calls {
        match call.wait() {
            Ok(made) => assert_eq!(made, sum),
            Err(error) => last = Err(error.into()),
        }
    }
    last
}

fn references(yard: &Yard<'_>, random: &mut Random) -> Result<()> {
    let kept: Ref<Vec<u64>> = yard.any(random).keep(rows::remote(1000));
    let copies: Vec<Ref<Vec<u64>>> = (0..4).map(|_| kept.clone()).collect();
    for copy in copies {
        let sum = yard.runtime.call(total::remote(&copy).on(&yard.any(random)));
        drop(copy);
        assert_eq!(sum.wait()?, 499_500);
    }
    assert_eq!(kept.fetch()?.len(), 1000);
    Ok(())
}

fn store(yard: &Yard<'_>, random: &mut Random) -> Result<()> {
    let mut images = Vec::new();
    for level in 1..=12 {
        images.push(yard.runtime.put(image(level, 2 * MIB))?);
    }
    for _ in 0..6 {
        let level = random.below(12) as usize;
        assert_eq!(images[level].fetch()?.bytes()[MIB], level as u8 + 1);
        let seen = brightest::remote(&images[level]).on(&yard.any(random));
        assert_eq!(yard.runtime.call(seen).wait()?, level as u8 + 1);
    }
    Ok(())
}

fn store_of_workers(yard: &Yard<'_>, random: &mut Random) -> Result<()> {
    let image = yard
        .runtime
        .call(put_by_worker::remote(9).on(&yard.any(random)))
        .wait()?;
    assert_eq!(image.fetch()?.bytes()[77], 9, "it outlives its worker");
    Ok(())
}

fn channels(yard: &Yard<'_>, random: &mut Random) -> Result<()> {
    const JOBS: u64 = 100;
    let (jobs, results) = (yard.any(random).channel(16)?, yard.any(random).channel(16)?);
    let working = yard
        .runtime
        .call(doubles::remote(&jobs, &results).on(&yard.any(random)));
    std::thread::scope(|scope| {
        // Both ends may wait for one whose process is dead, and that process may be a third one: its death ends the call.
        let ended = scope.spawn(|| {
            let ended = working.wait();
            if ended.is_err() {
                let _ = (jobs.close(), results.close());
            }
            ended
        });
        let putting = scope.spawn(|| {
            (0..JOBS).try_for_each(|job| jobs.put(job))?;
            jobs.close()
        });
        let taken: std::result::Result<Vec<u64>, _> = results.iter().collect();
        let (put, ended) = (putting.join().unwrap(), ended.join().unwrap());
        ended?;
        put?;
        assert_eq!(taken?, (0..JOBS).map(|job| 2 * job).collect::<Vec<_>>());
        Ok(())
    })
}

fn graphs(yard: &Yard<'_>, random: &mut Random) -> Result<()> {
    static NAMES: AtomicUsize = AtomicUsize::new(0);
    let name = || format!("counter{}", NAMES.fetch_add(1, Ordering::Relaxed));
    let lanes = [0; 2].map(|_: u8| yard.any(random).lane(name()));
    let executed = || -> Result<()> {
        let counter = |lane| yard.runtime.spawn::<Counter>(name(), (0,)).in_lane(lane);
        let (near, far) = (counter(&lanes[0])?, counter(&lanes[1])?);
        let graph = yard.runtime.compile(|x: Edge<i64>| far.add(&near.echo(&x), &x))?;
        for x in 0..200 {
            assert_eq!(graph.execute(x).wait()?, 2 * x);
        }
        let results = graph.map(0..50).collect::<std::result::Result<Vec<i64>, _>>()?;
        assert_eq!(results, (0..50).map(|x| 2 * x).collect::<Vec<_>>());
        Ok(())
    };
    let executed = executed();
    // An actor outlives its handle, and ends with its lane.
    for lane in &lanes {
        lane.end(Duration::from_secs(10))?;
    }
    executed
}

fn map(yard: &Yard<'_>, _: &mut Random) -> Result<()> {
    let pool = yard.runtime.pool_of(&yard.all())?;
    let sums = pool
        .map_tuples(remote_fn!(added), (0..2000).map(|x| (x, x)))
        .collect()?;
    assert!(sums.iter().zip(0..).all(|(sum, x)| *sum == 2 * x) && sums.len() == 2000);
    Ok(())
}

fn shared_arrays(yard: &Yard<'_>, _: &mut Random) -> Result<()> {
    let workers = yard.all();
    let array = SharedArray::<u64>::build(yard.runtime, [3, 1000])
        .on(&workers)
        .init(remote_fn!(fill_own_part))?;
    let all = array.snapshot()?;
    assert!(all.iter().zip(0..).all(|(element, place)| *element == place));
    Ok(())
}

fn submitted(yard: &Yard<'_>, random: &mut Random) -> Result<()> {
    let (mut values, mut calls) = (vec![mixed(1, 2)], vec![yard.runtime.submit(mixed::remote(1, 2))]);
    for _ in 0..30 {
        let [x, y] = [0; 2].map(|_: u8| random.below(values.len() as u64) as usize);
        values.push(mixed(values[x], values[y]));
        calls.push(yard.runtime.submit(mixed::remote(&calls[x], &calls[y])));
    }
    for (call, value) in calls.iter().zip(&values) {
        // These run again wherever they were, so not even a death is an error.
        assert_eq!(*call.fetch().unwrap(), *value);
    }
    Ok(())
}

/// What is there while nobody works.
#[derive(Clone, Debug, PartialEq)]
struct Tables {
    census: Census,
    references: RefStats,
    of_workers: Vec<String>,
    calls: Vec<CallInfo>,
    objects: (usize, u64, usize),
    actors: Vec<String>,
}

#[remote]
fn references_here() -> Result<String> {
    Ok(format!("{:?}", Runtime::current()?.references()))
}

impl Tables {
    fn of(yard: &Yard<'_>) -> Self {
        let of_workers = yard.all().into_iter().map(|worker| {
            let asked = yard.runtime.call(references_here::remote().on(&worker));
            asked.wait().unwrap()
        });
        let objects = yard.runtime.objects();
        Tables {
            of_workers: of_workers.collect(),
            census: Census::beside_functions(),
            references: yard.runtime.references(),
            calls: yard.runtime.calls(),
            objects: (objects.objects.len(), objects.used_bytes, objects.waiting),
            actors: yard
                .runtime
                .actors()
                .iter()
                .map(|actor| format!("{actor:?}"))
                .collect(),
        }
    }
}

/// The memory of this process that nobody else has, and of the store.
fn memory(runtime: &Runtime) -> u64 {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let line = rollup.lines().find(|line| line.starts_with("Pss:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    let store = runtime.objects();
    kib * 1024 + store.backed_bytes + store.spilled_bytes
}

/// Whether an error says that somebody is dead, or that what somebody had is lost.
fn is_of_a_death(error: &str) -> bool {
    [
        "died",
        "dead",
        "SIGKILL",
        "lost",
        "no worker of the pool lives",
        "not there any more",
    ]
    .iter()
    .any(|word| error.contains(word))
}

fn works(yard: &Yard<'_>, index: usize, until: Instant) {
    let (name, work) = WORK[index];
    let mut random = yard.random();
    while Instant::now() < until {
        match work(yard, &mut random) {
            Ok(()) => _ = yard.done[index].fetch_add(1, Ordering::Relaxed),
            Err(error) => {
                let error = error.to_string();
                assert!(is_of_a_death(&error), "{name}, seed {SEED:#x}: {error}");
                let kind: String = error.chars().filter(|it| !it.is_ascii_digit()).take(90).collect();
                *yard
                    .errors
                    .lock()
                    .unwrap()
                    .entry(format!("{name}: {kind}"))
                    .or_default() += 1;
            }
        }
    }
}

/// Kills a worker at times, and launches another one.
fn kills(yard: &Yard<'_>, every: Duration, until: Instant) -> usize {
    static NAMES: AtomicUsize = AtomicUsize::new(0);
    let (mut random, mut killed) = (yard.random(), 0);
    while Instant::now() + every < until {
        std::thread::sleep(every);
        let name = format!("next{}", NAMES.fetch_add(1, Ordering::Relaxed));
        let next = yard.runtime.worker(name).unwrap();
        let victim = random.below(WORKERS as u64) as usize;
        let victim = std::mem::replace(&mut yard.workers.lock().unwrap()[victim], next);
        let Some(pid) = victim.pid() else {
            let why = yard.runtime.call(added::remote(1, 2).on(&victim)).wait();
            panic!(
                "seed {SEED:#x}: {} was not killed, and is dead: {why:?}",
                victim.name()
            );
        };
        kill(pid);
        killed += 1;
    }
    killed
}

#[test]
fn jpar_16_everything_at_once_while_workers_are_killed_leaves_no_trace() -> Result<()> {
    alone(|| {
        let quarter = Duration::from_secs(number_of("SOAK_SECONDS", 20)) / 4;
        let every = Duration::from_millis(number_of("KILL_EVERY_MS", 1000));
        drop(Runtime::new());
        let before = settled(Census::take);
        let runtime =
            Runtime::new().store(StoreOptions::new().bytes(STORE_BYTES).spill(std::env::temp_dir()));
        let workers: std::result::Result<Vec<_>, _> = (0..WORKERS)
            .map(|number| runtime.worker(format!("first{number}")))
            .collect();
        let yard = Yard {
            runtime: &runtime,
            workers: Mutex::new(workers?),
            seed: AtomicU64::new(0),
            done: Default::default(),
            errors: Mutex::default(),
        };
        let mut first: Option<(Tables, u64)> = None;
        for number in 1..=4 {
            let until = Instant::now() + quarter;
            let killed = std::thread::scope(|scope| {
                for index in 0..WORK.len() {
                    let yard = &yard;
                    scope.spawn(move || works(yard, index, until));
                }
                kills(&yard, every, until)
            });
            let wanted = first.as_ref().map(|(tables, _)| tables);
            let tables = match wanted {
                Some(wanted) => wait_until(wanted, || settled(|| Tables::of(&yard))),
                None => settled(|| Tables::of(&yard)),
            };
            let memory = memory(&runtime);
            println!(
                "quarter {number}: {killed} kills, {} MiB, {tables:?}",
                memory >> 20
            );
            let (wanted, at_first) = first.get_or_insert((tables.clone(), memory));
            assert_eq!(tables, *wanted, "quarter {number}, seed {SEED:#x}");
            assert!(
                memory <= *at_first + MORE_BYTES,
                "{memory} bytes after {at_first}"
            );
        }
        for ((name, _), done) in WORK.iter().zip(&yard.done) {
            let done = done.load(Ordering::Relaxed);
            println!("{done} times: {name}");
            assert!(done > 0, "{name}");
        }
        println!("{:#?}", yard.errors.lock().unwrap());
        drop(yard);
        drop(runtime);
        assert_eq!(wait_until(&before, || settled(Census::take)), before);
        Ok(())
    })
}
