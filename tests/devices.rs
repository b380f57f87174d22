//! Tensors that stay on a device, on the edges of a graph: over threads and processes, in the shapes that hang or crash
//! elsewhere. The tests use the driver that the library path leads to. Without a driver they report that and pass,
//! unless `REQUIRE_GPU=1`:
//!
//! `LD_LIBRARY_PATH=$(scripts/simulated-driver) cargo test --features cuda --test devices`
#![cfg(feature = "cuda")]
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic
)] // a test may panic

#[path = "devices/arrays.rs"]
#[cfg(feature = "parallel")]
mod arrays;
#[path = "devices/layer.rs"]
mod layer;
#[path = "devices/placed.rs"]
mod placed;

use std::sync::Barrier;
use std::time::Duration;

use selvedge::device::{DeviceMemory, DeviceTensor, Gpu, Library, Stream};
use selvedge::prelude::*;
use selvedge::{Transport, list};

use layer::{Layer, LayerHandle, PLACES, Where, layers};

const LONG: Duration = Duration::from_secs(60);

fn there() -> bool {
    match Gpu::open(0) {
        Ok(_) => true,
        Err(error) => {
            let required = std::env::var("REQUIRE_GPU").is_ok_and(|value| value == "1");
            assert!(!required, "REQUIRE_GPU=1, and {error}");
            eprintln!("not tested, for want of a device: {error}");
            false
        }
    }
}

fn sum(x: i64) -> i64 {
    (0..x % 5000).map(|at| x + at).sum()
}

/// Lengths of tensors in flight at once: they grow, shrink and are zero.
const LENGTHS: [i64; 9] = [3, 100, 0, 4999, 1, 2048, 4000, 7, 4998];

#[test]
fn acc_05_what_is_sent_arrives_wherever_the_ends_are() {
    if !there() {
        return;
    }
    for place in PLACES {
        let runtime = Runtime::new();
        let [a, b, c]: [LayerHandle; 3] = layers(&runtime, place);
        let graph = runtime
            .compile(|x: Edge<i64>| c.total(&c.copy(&b.pass(&b.double(&a.make(&x))))))
            .unwrap();
        let executions: Vec<_> = LENGTHS.map(|x| (x, graph.execute(x))).into();
        for (x, execution) in executions {
            assert_eq!(execution.wait().unwrap(), 2 * sum(x), "{place:?}");
        }
    }
}

#[test]
fn acc_08_acc_15_several_readers_here_and_elsewhere_each_get_it() {
    if !there() {
        return;
    }
    for place in PLACES {
        let runtime = Runtime::new();
        let [a, b, c]: [LayerHandle; 3] = layers(&runtime, place);
        let graph = runtime
            .compile(|x: Edge<i64>| {
                let made = a.make(&x);
                (
                    a.total(&made),
                    b.total(&b.double(&made)),
                    c.total(&made),
                    b.total(&made),
                )
            })
            .unwrap();
        for x in LENGTHS {
            let all = graph.execute(x).wait().unwrap();
            assert_eq!(all, (sum(x), 2 * sum(x), sum(x), sum(x)), "{place:?}");
        }
    }
}

#[test]
fn acc_21_lists_of_tensors_and_none_of_them() {
    if !there() {
        return;
    }
    for place in PLACES {
        let runtime = Runtime::new();
        let [a, b]: [LayerHandle; 2] = layers(&runtime, place);
        let graph = runtime
            .compile(|x: Edge<i64>| {
                let both = a.both(&a.make(&x));
                (b.totals(&both), b.totals(&list([a.make(&x), b.make(&x)])))
            })
            .unwrap();
        for x in LENGTHS {
            assert_eq!(
                graph.execute(x).wait().unwrap(),
                (3 * sum(x), 2 * sum(x)),
                "{place:?}"
            );
        }
    }
}

#[test]
fn acc_09_acc_10_acc_12_values_carry_tensors_and_other_things() {
    if !there() {
        return;
    }
    for place in PLACES {
        let runtime = Runtime::new();
        let [a, b]: [LayerHandle; 2] = layers(&runtime, place);
        let graph = runtime.compile(|x: Edge<i64>| b.total_of(&a.batch(&x))).unwrap();
        for x in LENGTHS {
            let mask = if x % 2 == 0 { sum(x + 1) } else { 0 };
            assert_eq!(
                graph.execute(x).wait().unwrap(),
                sum(x) + mask + 5 * x,
                "{place:?}"
            );
        }
        drop(graph);
        let graph = runtime.compile(|x: Edge<i64>| b.find(&a.hide(&x))).unwrap();
        match (place, graph.execute(9).wait()) {
            (Where::Processes | Where::Mixed, Err(error)) => {
                assert!(
                    error.to_string().contains("selvedge::carries_tensors!"),
                    "{error}"
                );
            }
            (_, found) => assert_eq!(found.unwrap(), sum(9)),
        }
    }
}

#[test]
fn a_value_with_references_and_tensors_is_refused_where_it_crosses_processes() {
    if !there() {
        return;
    }
    for place in PLACES {
        let runtime = Runtime::new();
        let [a, b]: [LayerHandle; 2] = layers(&runtime, place);
        match (place, runtime.compile(|x: Edge<i64>| b.labelled(&a.label(&x)))) {
            (Where::Processes | Where::Mixed, refused) => {
                let error = refused.unwrap_err();
                let code = error.diagnostics[0].code.as_str();
                assert_eq!(code, "D0122", "{error}");
                assert!(error.to_string().contains("Labelled"), "{error}");
            }
            (_, graph) => assert_eq!(graph.unwrap().run(9).unwrap(), (sum(9), false)),
        }
    }
}

/// The shapes of D1 to D4 and E-02 to E-04, with one slot and several executions at once.
#[test]
fn d1_to_e04_shapes_that_hang_elsewhere_with_edges_of_tensors() {
    if !there() {
        return;
    }
    for place in PLACES {
        let runtime = Runtime::new();
        let [a, b, c]: [LayerHandle; 3] = layers(&runtime, place);
        for transport in [Transport::Auto, Transport::Rendezvous] {
            let options = || Options::new().slots(1).max_inflight(3).transport(transport);
            let fan_in = |x: Edge<i64>| c.total(&c.add(&a.make(&x), &b.make(&x)));
            let fan_out = |x: Edge<i64>| {
                let made = a.make(&x);
                c.total(&c.add(&b.copy(&made), &c.copy(&made)))
            };
            let there_and_back = |x: Edge<i64>| a.total(&a.add(&b.copy(&a.make(&x)), &a.make(&x)));
            let exchange = |x: Edge<i64>| {
                let (first, second) = (a.make(&x), b.make(&x));
                let (to_a, to_b) = (a.copy(&second), b.copy(&first));
                c.total(&c.add(&to_a, &to_b))
            };
            let diamond = |x: Edge<i64>| {
                let made = a.make(&x);
                a.total(&a.add(&b.copy(&made), &c.copy(&made)))
            };
            let shapes: [&dyn Fn(Edge<i64>) -> Edge<i64>; 5] =
                [&fan_in, &fan_out, &there_and_back, &exchange, &diamond];
            for (index, shape) in shapes.into_iter().enumerate() {
                let graph = runtime.compile_with(options(), shape).unwrap();
                let executions: Vec<_> = LENGTHS[..5].iter().map(|x| (*x, graph.execute(*x))).collect();
                for (x, execution) in executions {
                    assert_eq!(
                        execution.wait().unwrap(),
                        2 * sum(x),
                        "{place:?} {transport:?} {index}"
                    );
                }
            }
        }
    }
}

#[test]
fn acc_17_an_error_goes_on_to_the_reader_and_the_graph_goes_on() {
    if !there() {
        return;
    }
    for place in PLACES {
        let runtime = Runtime::new();
        let [a, b]: [LayerHandle; 2] = layers(&runtime, place);
        let graph = runtime
            .compile(|x: Edge<i64>| b.total(&b.copy(&a.make(&x))))
            .unwrap();
        for x in [5, -1, 7, -2, -3, 2000] {
            match graph.execute(x).wait() {
                Ok(total) => assert_eq!(total, sum(x)),
                Err(ExecError::Task(error)) => {
                    assert!(x < 0 && error.to_string().contains("negative lengths"), "{error}");
                }
                Err(other) => panic!("{place:?}: {other}"),
            }
        }
    }
}

#[test]
fn acc_17_a_value_with_tensors_that_cannot_be_read_is_an_error_of_who_reads_it() {
    if !there() {
        return;
    }
    for place in PLACES {
        let runtime = Runtime::new();
        let [a, b, c]: [LayerHandle; 3] = layers(&runtime, place);
        let graph = runtime
            .compile(|x: Edge<i64>| {
                let fussy = a.fussy(&x);
                (b.level(&fussy), c.level_of(&fussy), b.level_of(&fussy))
            })
            .unwrap();
        let [d]: [LayerHandle; 1] = layers(&runtime, place);
        let only = runtime.compile(|x: Edge<i64>| d.fussy(&x)).unwrap();
        for level in [5, 2, 7, 3, 3, 2, 9] {
            let all = graph.run(level);
            let alone = only.run(level).map(|fussy| format!("{fussy:?}"));
            for said in [all.as_ref().err(), alone.as_ref().err()].into_iter().flatten() {
                let ExecError::Task(error) = said else {
                    panic!("{place:?}, {level}: {said}");
                };
                let why = [(2, "two is not read"), (3, "three is refused")];
                let said = |(at, text): &(i64, &str)| *at == level && error.to_string().contains(text);
                assert!(why.iter().any(said), "{place:?}, {level}: {error}");
            }
            match all {
                Ok(found) => assert_eq!(found, (sum(100) + level, sum(100) + level, sum(100) + level)),
                Err(_) => assert!([2, 3].contains(&level), "{place:?}"),
            }
            let crosses = matches!(place, Where::Processes);
            assert!(!crosses || alone.is_err() == [2, 3].contains(&level), "{alone:?}");
        }
    }
}

#[test]
fn acc_17_a_reader_without_memory_on_the_device_fails_one_execution() {
    if !there() {
        return;
    }
    if simulator().is_none() {
        // The simulated device limits each process; on another one the writer would have no memory either.
        eprintln!("not tested: processes share the memory of this device");
        return;
    }
    let runtime = Runtime::new();
    let [a, b]: [LayerHandle; 2] = layers(&runtime, Where::Processes);
    let graph = runtime.compile(|x: Edge<i64>| b.total(&a.make(&x))).unwrap();
    assert_eq!(graph.run(100).unwrap(), sum(100));
    for _ in 0..2 {
        b.call().hoard(true).wait().unwrap();
        let error = graph.run(100).unwrap_err();
        assert!(matches!(&error, ExecError::Task(_)), "{error}");
        assert!(error.to_string().contains("could not be received"), "{error}");
        b.call().hoard(false).wait().unwrap();
        // Tensors that need a larger channel arrive too.
        for x in [100, 4000] {
            assert_eq!(graph.run(x).unwrap(), sum(x));
        }
    }
}

/// At least as many executions as there are slots fail while the reader's process lacks a descriptor for the tensors'
/// channel.
#[test]
fn acc_17_a_reader_without_descriptors_fails_some_executions_and_no_later_ones() {
    if !there() {
        return;
    }
    let runtime = Runtime::new();
    let [a, b]: [LayerHandle; 2] = layers(&runtime, Where::Processes);
    let graph = runtime
        .compile_with(Options::new().slots(1), |x: Edge<i64>| b.total(&a.make(&x)))
        .unwrap();
    b.call().starve(true).wait().unwrap();
    for _ in 0..3 {
        let error = graph.run(100).unwrap_err();
        assert!(matches!(&error, ExecError::Task(_)), "{error}");
    }
    b.call().starve(false).wait().unwrap();
    for x in [100, 4000] {
        assert_eq!(graph.run(x).unwrap(), sum(x));
    }
}

/// Tensors as the input and the output of a graph, in the process that executes it.
#[test]
fn tensors_go_in_and_come_out() {
    if !there() {
        return;
    }
    for place in PLACES {
        let runtime = Runtime::new();
        let [a]: [LayerHandle; 1] = layers(&runtime, place);
        let graph = runtime.compile(|x: Edge<DeviceTensor>| a.double(&x)).unwrap();
        let stream = Stream::compute(&Gpu::open(0).unwrap()).unwrap();
        for x in LENGTHS {
            let values: Vec<i64> = (0..x).collect();
            let host = Tensor::from_slice(&values, &[values.len()]).unwrap();
            let sent = DeviceTensor::upload(&stream, &host).unwrap();
            let received = graph.execute(sent).wait().unwrap();
            let received = received.download(&stream, LONG).unwrap().to_vec::<i64>().unwrap();
            assert!(
                received.iter().zip(&values).all(|(got, sent)| *got == 2 * sent),
                "{place:?}"
            );
            assert_eq!(received.len(), values.len());
        }
    }
}

#[test]
fn acc_18_a_process_that_dies_is_named_and_the_others_make_a_new_graph() {
    if !there() {
        return;
    }
    let runtime = Runtime::new();
    let [a, b]: [LayerHandle; 2] = layers(&runtime, Where::Processes);
    let victim = runtime.spawn::<Layer>("victim", (0,)).in_process().unwrap();
    let graph = runtime
        .compile(|x: Edge<i64>| b.total(&b.copy(&victim.die(&a.make(&x), 77))))
        .unwrap();
    assert_eq!(graph.execute(5).wait().unwrap(), sum(5));
    match graph.execute(77).wait() {
        Err(ExecError::ActorDied(died)) => assert_eq!(died.actor, "victim"),
        other => panic!("{other:?}"),
    }
    drop(graph);
    let graph = runtime.compile(|x: Edge<i64>| b.total(&a.make(&x))).unwrap();
    for x in LENGTHS {
        assert_eq!(graph.execute(x).wait().unwrap(), sum(x));
    }
}

/// The library of the simulated driver; `None` for another driver.
fn simulator() -> Option<Library> {
    let library = Library::open("the driver", "SELVEDGE_CUDA_LIB", &["libcuda.so.1"]).ok()?;
    library.has(&["selvedge_sim_hold", "selvedge_sim_release"]).ok()?;
    Some(library)
}

static BOTH: Barrier = Barrier::new(2);

/// A rank of a training whose gradients stay on the device.
struct Learner {
    rank: i64,
    stream: Stream,
    sim: Library,
}

#[allow(unsafe_code)] // calls the simulator
impl Learner {
    /// Blocks the operations that are enqueued from now on until `release` with this number.
    fn hold(&self, number: u64) {
        type Hold = unsafe extern "C" fn(u64, u64) -> u32;
        // SAFETY: the simulator declares the function with this type.
        let hold = unsafe { self.sim.function::<Hold>("selvedge_sim_hold") }.unwrap();
        // SAFETY: the stream is alive.
        assert_eq!(unsafe { hold(self.stream.as_raw() as u64, number) }, 0);
    }

    fn release(&self, number: u64) {
        // SAFETY: the simulator declares the function with this type.
        let release = unsafe {
            self.sim
                .function::<unsafe extern "C" fn(u64)>("selvedge_sim_release")
        };
        // SAFETY: the function takes only a number.
        unsafe { release.unwrap()(number) };
    }

    fn gradient(&self, x: i64) -> Result<DeviceTensor> {
        let host = Tensor::from_slice(&[x + self.rank; 1000], &[1000])?;
        Ok(DeviceTensor::upload(&self.stream, &host)?)
    }
}

#[actor]
impl Learner {
    pub fn new(rank: i64) -> Result<Self> {
        let stream = Stream::compute(&Gpu::open(0)?)?;
        let sim = simulator().ok_or("there is no simulator")?;
        Ok(Learner { rank, stream, sim })
    }

    /// The gradient of the last layer. On rank 1 it is ready only after rank 1 has been at its first layer.
    pub fn backward_last(&mut self, x: i64) -> Result<DeviceTensor> {
        if self.rank == 1 {
            self.hold(x as u64 + 1);
        }
        self.gradient(x)
    }

    /// The layer between the other two. It waits for both ranks, so both have posted the gradient of the last layer.
    pub fn backward_middle(&mut self, x: i64) -> i64 {
        BOTH.wait();
        x
    }

    /// The gradient of the first layer, which the device has finished when this method returns.
    pub fn backward_first(&mut self, x: i64) -> Result<DeviceTensor> {
        let own = Stream::compute(self.stream.gpu())?;
        let host = Tensor::from_slice(&[10 * x + self.rank; 77], &[77])?;
        let gradient = DeviceTensor::upload(&own, &host)?;
        own.wait(LONG)?;
        if self.rank == 1 {
            self.release(x as u64 + 1);
        }
        Ok(gradient)
    }

    pub fn step(&mut self, last: &DeviceTensor, middle: i64, first: &DeviceTensor) -> Result<i64> {
        let first_of = |tensor: &DeviceTensor| -> Result<i64> {
            let host = tensor.download(&self.stream, LONG)?.to_vec::<i64>()?;
            Ok(host[0])
        };
        Ok(first_of(last)? + middle + first_of(first)?)
    }

    /// A tensor that is ready only after `let_go`.
    pub fn held(&mut self, x: i64) -> Result<DeviceTensor> {
        self.hold(x as u64);
        self.gradient(x)
    }

    /// The length of the tensor, which needs the tensor but not its bytes.
    pub fn length(&mut self, x: &DeviceTensor) -> u64 {
        x.layout().shape()[0] as u64
    }

    pub fn let_go(&mut self, x: i64) {
        self.release(x as u64);
    }

    pub fn sum(&mut self, x: &DeviceTensor) -> Result<i64> {
        Ok(x.download(&self.stream, LONG)?.to_vec::<i64>()?.iter().sum())
    }
}

fn learners<const N: usize>(runtime: &Runtime, process: bool) -> [LearnerHandle; N] {
    std::array::from_fn(|rank| {
        let spawn = runtime.spawn::<Learner>(format!("learner{rank}"), (rank as i64,));
        if process {
            spawn.in_process()
        } else {
            spawn.in_thread()
        }
        .unwrap()
    })
}

/// Runs D6 on the device: the sum of the last layer's gradients cannot end before rank 1 has computed its first
/// layer's. Once in a process.
fn train(executions: i64) {
    let runtime = Runtime::new();
    let learners: [LearnerHandle; 2] = learners(&runtime, false);
    let options = Options::new().communicator("nccl").timeout(LONG);
    let graph = runtime
        .compile_with(options, |x: Edge<i64>| {
            let last = allreduce(ReduceOp::Sum, learners.each_ref().map(|it| it.backward_last(&x)));
            let middle = learners.each_ref().map(|it| it.backward_middle(&x));
            let first = allreduce(ReduceOp::Sum, learners.each_ref().map(|it| it.backward_first(&x)));
            std::array::from_fn::<_, 2, _>(|rank| {
                learners[rank].step(&last[rank], &middle[rank], &first[rank])
            })
        })
        .unwrap();
    for x in 0..executions {
        assert_eq!(graph.execute(x).wait().unwrap(), [2 * x + 1 + x + 20 * x + 1; 2]);
    }
}

#[test]
fn d6_an_allreduce_is_in_flight_during_the_next_layers_backward() {
    if there() && simulator().is_some() {
        train(20);
    }
}

/// The child process of the next test.
#[test]
#[ignore = "run by the test below, with a time line"]
fn train_for_a_time_line() {
    if std::env::var_os("SELVEDGE_SIM_TIMELINE").is_some() {
        train(10);
    }
}

#[test]
fn d6_the_time_line_of_the_device_shows_it() {
    if !there() || simulator().is_none() {
        return;
    }
    let file = std::env::temp_dir().join(format!("selvedge-timeline-{}", std::process::id()));
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "train_for_a_time_line", "--ignored", "--quiet"])
        .env("SELVEDGE_SIM_TIMELINE", &file)
        .status();
    let lines = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(child.unwrap().success());
    let lines: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let named = |name: &'static str| lines.iter().filter(move |line| line["name"] == name);
    let ns = |line: &serde_json::Value, key: &str| line[key].as_u64().unwrap();
    // Sums of the last layer's 1000 numbers, read and written, and uploads of the first layer's 77 during those sums.
    let overlaps = named("ncclAllReduce")
        .filter(|sum| ns(sum, "bytes") == 2 * 8000)
        .filter(|sum| {
            let mut uploads = named("cuMemcpyHtoDAsync").filter(|copy| ns(copy, "bytes") == 2 * 77 * 8);
            uploads.any(|copy| {
                ns(copy, "begin_ns") > ns(sum, "enqueued_ns") && ns(copy, "end_ns") < ns(sum, "end_ns")
            })
        });
    // In the first execution the ranks may still connect, and a rank that is scheduled late enqueues its sum late. The
    // test above shows that no execution waits for the sum.
    assert!(overlaps.count() >= 1);
}

/// A task that needs only the layout of a tensor does not wait for its bytes, within a process and across processes.
#[test]
fn acc_19_a_receive_is_in_flight_while_the_reader_computes() {
    if !there() || simulator().is_none() {
        return;
    }
    for process in [false, true] {
        let runtime = Runtime::new();
        let [a, b]: [LearnerHandle; 2] = learners(&runtime, process);
        let graph = runtime
            .compile(|x: Edge<i64>| {
                let held = a.held(&x);
                (b.length(&held), b.sum(&held))
            })
            .unwrap();
        for x in 1..10 {
            let (length, sum) = graph.execute(x).split();
            assert_eq!(
                length.wait().unwrap(),
                1000,
                "before the device has written a byte"
            );
            // The writer's lane is free, although its stream is blocked.
            a.call().let_go(x).wait().unwrap();
            assert_eq!(sum.wait().unwrap(), 1000 * x);
        }
    }
}

/// Collectives on edges of tensors: by NCCL on the device, and through the host over shared memory.
#[test]
fn collectives_of_tensors_on_a_device() {
    if !there() {
        return;
    }
    for (place, communicator) in PLACES
        .into_iter()
        .flat_map(|place| [(place, "shm"), (place, "nccl")])
    {
        if communicator == "nccl" && simulator().is_none() {
            // All ranks share one device, which NCCL rejects.
            continue;
        }
        let runtime = Runtime::new();
        let [a, b]: [LayerHandle; 2] = layers(&runtime, place);
        let options = Options::new().communicator(communicator);
        let graph = runtime
            .compile_with(options, |x: Edge<i64>| {
                let [first, second] = allreduce(ReduceOp::Sum, [a.make(&x), b.make(&x)]);
                let [gathered, _] = allgather([a.copy(&first), b.copy(&second)]);
                let [_, sent] = selvedge::broadcast(0, [a.both(&first), b.both(&second)]);
                let met = selvedge::barrier([a.make(&x), b.make(&x)]);
                (a.total(&gathered), b.totals(&sent), b.total(&met[1]))
            })
            .unwrap();
        for x in LENGTHS {
            let all = graph.execute(x).wait().unwrap();
            assert_eq!(all, (4 * sum(x), 6 * sum(x), sum(x)), "{place:?} {communicator}");
        }
        let failed = graph.execute(-1).wait();
        assert!(matches!(failed, Err(ExecError::Task(_))), "{failed:?}");
        assert_eq!(graph.execute(3).wait().unwrap().2, sum(3));
    }
}
