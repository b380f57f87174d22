//! Tensors that stay on a device, on the edges of a graph: what arrives, over threads and processes, in the shapes that hang or
//! crash elsewhere. Over whatever driver the library path leads to; where there is none, these tests say so and pass, unless
//! `REQUIRE_GPU=1`:
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

use std::sync::Barrier;
use std::time::Duration;

use selvedge::device::{DeviceTensor, Gpu, Library, Stream};
use selvedge::prelude::*;
use selvedge::{Cause, TaskError, Transport, gather};

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

/// What is on the device, and what is not.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Batch {
    ids: Vec<u32>,
    hidden: DeviceTensor,
    mask: Option<DeviceTensor>,
    scale: Tensor,
}

selvedge::carries_tensors!(Batch);

/// The same, of which nobody knows it.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Stowaway(DeviceTensor);

/// A layer with a stream of its own.
struct Layer {
    stream: Stream,
}

impl Layer {
    fn upload(&self, values: &[i64]) -> Result<DeviceTensor> {
        let host = Tensor::from_slice(values, &[values.len()])?;
        Ok(DeviceTensor::upload(&self.stream, &host)?)
    }

    fn download(&self, tensor: &DeviceTensor) -> Result<Vec<i64>> {
        Ok(tensor.download(&self.stream, LONG)?.to_vec::<i64>()?)
    }
}

#[actor]
impl Layer {
    pub fn new() -> Result<Self> {
        let stream = Stream::compute(&Gpu::open(0)?)?;
        Ok(Layer { stream })
    }

    /// `x + at`, so many of them; none for nothing, an error for a negative number.
    pub fn make(&mut self, x: i64) -> Result<DeviceTensor> {
        if x < 0 {
            return Err("there are no negative lengths".into());
        }
        self.upload(&(0..x % 5000).map(|at| x + at).collect::<Vec<_>>())
    }

    pub fn double(&mut self, x: &DeviceTensor) -> Result<DeviceTensor> {
        let values = self.download(x)?;
        self.upload(&values.iter().map(|value| 2 * value).collect::<Vec<_>>())
    }

    /// The same bytes, moved by the device alone: the host waits for nothing.
    pub fn copy(&mut self, x: &DeviceTensor) -> Result<DeviceTensor> {
        self.stream.order_after(x.ready())?;
        Ok(DeviceTensor::copy_of(
            &self.stream,
            x.layout().clone(),
            x.span()?,
        )?)
    }

    /// Gives on what it was given.
    pub fn pass(&mut self, x: DeviceTensor) -> DeviceTensor {
        x
    }

    pub fn add(&mut self, x: &DeviceTensor, y: &DeviceTensor) -> Result<DeviceTensor> {
        let (x, y) = (self.download(x)?, self.download(y)?);
        self.upload(&x.iter().zip(&y).map(|(x, y)| x + y).collect::<Vec<_>>())
    }

    pub fn both(&mut self, x: &DeviceTensor) -> Result<Vec<DeviceTensor>> {
        Ok(vec![self.copy(x)?, self.double(x)?])
    }

    pub fn total(&mut self, x: &DeviceTensor) -> Result<i64> {
        Ok(self.download(x)?.iter().sum())
    }

    pub fn totals(&mut self, all: &[DeviceTensor]) -> Result<i64> {
        all.iter().map(|x| self.total(x)).sum()
    }

    pub fn batch(&mut self, x: i64) -> Result<Batch> {
        Ok(Batch {
            ids: vec![x as u32; 3],
            hidden: self.make(x)?,
            mask: if x % 2 == 0 { Some(self.make(x + 1)?) } else { None },
            scale: Tensor::from_slice(&[x; 2], &[2])?,
        })
    }

    pub fn total_of(&mut self, batch: &Batch) -> Result<i64> {
        let mask = batch.mask.as_ref().map_or(Ok(0), |mask| self.total(mask))?;
        let ids: u32 = batch.ids.iter().sum();
        let scale: i64 = batch.scale.to_vec::<i64>()?.iter().sum();
        Ok(self.total(&batch.hidden)? + mask + i64::from(ids) + scale)
    }

    pub fn hide(&mut self, x: i64) -> Result<Stowaway> {
        Ok(Stowaway(self.make(x)?))
    }

    pub fn find(&mut self, x: &Stowaway) -> Result<i64> {
        self.total(&x.0)
    }

    pub fn die(&mut self, x: &DeviceTensor, #[constant] at: i64) -> Result<DeviceTensor> {
        if x.layout().shape() == [at as usize] {
            std::process::abort();
        }
        self.copy(x)
    }
}

/// An actor whose stream is on a device of its own.
struct Placed {
    stream: Stream,
}

#[actor]
impl Placed {
    pub fn new(device: u32) -> Result<Self> {
        let stream = Stream::compute(&Gpu::open(device)?)?;
        Ok(Placed { stream })
    }

    pub fn make(&mut self, x: i64) -> Result<DeviceTensor> {
        let values: Vec<_> = (0..x % 5000).map(|at| x + at).collect();
        let host = Tensor::from_slice(&values, &[values.len()])?;
        Ok(DeviceTensor::upload(&self.stream, &host)?)
    }

    /// Refused by the device where `x` is on another one.
    pub fn copy(&mut self, x: &DeviceTensor) -> Result<DeviceTensor> {
        self.stream.order_after(x.ready())?;
        let (layout, span) = (x.layout().clone(), x.span()?);
        Ok(DeviceTensor::copy_of(&self.stream, layout, span)?)
    }

    pub fn total(&mut self, x: &DeviceTensor) -> Result<i64> {
        let host = x.download(&self.stream, LONG)?;
        Ok(host.to_vec::<i64>()?.iter().sum())
    }

    pub fn totals(&mut self, all: Vec<DeviceTensor>, one: DeviceTensor) -> Result<i64> {
        all.iter().chain([&one]).map(|x| self.total(x)).sum()
    }

    pub fn batch(&mut self, x: i64) -> Result<Batch> {
        Ok(Batch {
            ids: vec![x as u32; 3],
            hidden: self.make(x)?,
            mask: if x % 2 == 0 { Some(self.make(x + 1)?) } else { None },
            scale: Tensor::from_slice(&[x; 2], &[2])?,
        })
    }

    pub fn total_of(&mut self, batch: &Batch) -> Result<i64> {
        let mask = batch.mask.as_ref().map_or(Ok(0), |mask| self.total(mask))?;
        Ok(self.total(&batch.hidden)? + mask + i64::from(batch.ids[0]))
    }

    /// Gives on what it was given, and says where that is.
    pub fn locate(&mut self, x: &DeviceTensor) -> (DeviceTensor, u32) {
        (x.clone(), x.gpu().index())
    }

    pub fn host(&mut self, x: i64) -> Result<Tensor> {
        Ok(Tensor::zeros::<f32>(&[x as usize, 2])?)
    }

    pub fn rows(&mut self, x: &Tensor) -> i64 {
        x.shape()[0] as i64
    }
}

#[derive(Clone, Copy, Debug)]
enum Where {
    Threads,
    Processes,
    Mixed,
    OneLane,
    Inline,
}

const PLACES: [Where; 5] = [
    Where::Threads,
    Where::Processes,
    Where::Mixed,
    Where::OneLane,
    Where::Inline,
];

fn layers<const N: usize>(runtime: &Runtime, place: Where) -> [LayerHandle; N] {
    let lane = runtime.lane("layers");
    std::array::from_fn(|index| {
        let spawn = runtime.spawn::<Layer>(format!("layer{index}"), ());
        match place {
            Where::Threads => spawn.in_thread(),
            Where::Processes => spawn.in_process(),
            Where::Mixed if index % 2 == 0 => spawn.in_thread(),
            Where::Mixed => spawn.in_process(),
            Where::OneLane => spawn.in_lane(&lane),
            Where::Inline => spawn.inline(),
        }
        .unwrap()
    })
}

/// Whether there are two devices; where a simulated driver could show two, this test is run again in a process in which it does.
fn two_there(test: &str) -> bool {
    if !there() || Gpu::open(1).is_ok() {
        return Gpu::open(1).is_ok();
    }
    if simulator().is_none() {
        eprintln!("not tested, for want of a second device");
        return false;
    }
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env("SELVEDGE_SIM_DEVICES", "2")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&child.stdout), text(&child.stderr));
    assert!(stdout.contains("1 passed"), "{stdout}{stderr}");
    false
}

/// Actors on devices 0, 1 and 0.
fn placed(runtime: &Runtime, place: Where) -> [PlacedHandle; 3] {
    let lane = runtime.lane("placed");
    [0, 1, 0].map(|device| {
        let names = ["zero", "one"];
        let name = names[device as usize];
        let spawn = runtime.spawn::<Placed>(name, (device,)).on_device(device);
        match place {
            Where::Threads => spawn.in_thread(),
            Where::Processes => spawn.in_process(),
            Where::Mixed if device == 0 => spawn.in_thread(),
            Where::Mixed => spawn.in_process(),
            Where::OneLane => spawn.in_lane(&lane),
            Where::Inline => spawn.inline(),
        }
        .unwrap()
    })
}

fn sum(x: i64) -> i64 {
    (0..x % 5000).map(|at| x + at).sum()
}

/// Several at once, of lengths that grow, shrink and are nothing.
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
                (b.totals(&both), b.totals(&gather([a.make(&x), b.make(&x)])))
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

/// The input and the output of a graph, in the process that executes it.
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
    let victim = runtime.spawn::<Layer>("victim", ()).in_process().unwrap();
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

/// An actor's tensors lie where it was spawned to have them: what it reads is brought there, wherever it was made.
#[test]
fn acc_07_type_05_tensors_are_brought_to_the_device_of_who_reads_them() {
    if !two_there("acc_07_type_05_tensors_are_brought_to_the_device_of_who_reads_them") {
        return;
    }
    for place in PLACES {
        let runtime = Runtime::new();
        let [a, b, c] = placed(&runtime, place);
        let graph = runtime
            .compile(|x: Edge<i64>| {
                let made = a.make(&x);
                let there = b.copy(&made);
                let (passed, located) = b.locate(&made).split();
                (
                    c.total(&c.copy(&there)),
                    b.totals(&gather([made.clone(), there.clone()]), &made),
                    a.totals(&gather([there.clone(), passed]), &there),
                    located,
                    b.total_of(&a.batch(&x)),
                    a.total(&made),
                )
            })
            .unwrap();
        let executions: Vec<_> = LENGTHS.map(|x| (x, graph.execute(x))).into();
        for (x, execution) in executions {
            let mask = if x % 2 == 0 { sum(x + 1) } else { 0 };
            let expected = (sum(x), 3 * sum(x), 3 * sum(x), 1, sum(x) + mask + x, sum(x));
            assert_eq!(execution.wait().unwrap(), expected, "{place:?}");
        }
    }
}

/// A driver's tensors are brought to where they are wanted, and come back from where they are.
#[test]
fn type_05_a_graphs_input_and_output_keep_their_devices_or_are_brought() {
    if !two_there("type_05_a_graphs_input_and_output_keep_their_devices_or_are_brought") {
        return;
    }
    for place in PLACES {
        let runtime = Runtime::new();
        let [_, b, _] = placed(&runtime, place);
        let graph = runtime.compile(|x: Edge<DeviceTensor>| b.copy(&x)).unwrap();
        for device in [0, 1, 0] {
            let stream = Stream::compute(&Gpu::open(device).unwrap()).unwrap();
            let host = Tensor::from_slice(&[7_i64, 8], &[2]).unwrap();
            let sent = DeviceTensor::upload(&stream, &host).unwrap();
            let received = graph.execute(sent).wait().unwrap();
            assert_eq!(received.gpu().index(), 1, "{place:?}");
            let stream = Stream::compute(received.gpu()).unwrap();
            let host = received.download(&stream, LONG).unwrap();
            assert_eq!(host.to_vec::<i64>().unwrap(), [7, 8]);
        }
    }
}

#[test]
fn acc_07_a_tensor_that_is_made_elsewhere_is_an_error_that_names_both_devices() {
    if !two_there("acc_07_a_tensor_that_is_made_elsewhere_is_an_error_that_names_both_devices") {
        return;
    }
    for place in [Where::Threads, Where::Processes] {
        let runtime = Runtime::new();
        // Its stream is on the other device.
        let spawn = |name: &str| runtime.spawn::<Placed>(name, (1,));
        let (said, open) = match place {
            Where::Processes => (
                spawn("said").on_device(0).in_process(),
                spawn("open").in_process(),
            ),
            _ => (spawn("said").on_device(0).in_thread(), spawn("open").in_thread()),
        };
        let (said, open) = (said.unwrap(), open.unwrap());
        let shapes: [&dyn Fn(Edge<i64>) -> Edge<i64>; 2] = [&|x| open.total(&said.make(&x)), &|x| {
            open.total(&open.make(&x).on_device(0))
        }];
        for (shape, edge) in shapes.into_iter().zip(["said.make", "open.make"]) {
            let graph = runtime.compile(shape).unwrap();
            for x in [3, 4] {
                let Err(ExecError::Task(error)) = graph.execute(x).wait() else {
                    panic!("{place:?}");
                };
                let expected = Cause::Elsewhere {
                    edge: edge.to_owned(),
                    expected: 0,
                    found: 1,
                };
                assert_eq!(error.cause(), &expected);
            }
        }
    }
}

/// The first value fixes the layouts, of tensors on devices and in memory; another is its execution's error.
#[test]
fn acc_06_type_09_a_static_shape_is_that_of_the_first_value() {
    if !there() {
        return;
    }
    for place in PLACES {
        let runtime = Runtime::new();
        let [a, b]: [LayerHandle; 2] = layers(&runtime, place);
        let host = runtime.spawn::<Placed>("host", (0,)).in_thread().unwrap();
        let graph = runtime
            .compile(|x: Edge<i64>| {
                let (x, y) = (x.clone().static_shape(), x);
                let batch = a.batch(&y).static_shape();
                (
                    b.total(&a.make(&x).static_shape()),
                    host.rows(&host.host(&y).static_shape()),
                    b.total_of(&batch),
                )
            })
            .unwrap();
        let layouts = |error: &TaskError| match error.cause() {
            Cause::StaticShape {
                edge,
                expected,
                found,
            } => {
                let text = |layouts: &[selvedge::TensorLayout]| {
                    layouts
                        .iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                        .join(" ")
                };
                (edge.clone(), text(expected), text(found))
            }
            other => panic!("{other:?}"),
        };
        for x in [7, 9, 7, 5] {
            let (device, memory, batch) = graph.execute(x).split();
            if x == 7 {
                assert_eq!(
                    (device.wait().unwrap(), memory.wait().unwrap()),
                    (sum(7), 7),
                    "{place:?}"
                );
                assert_eq!(batch.wait().unwrap(), sum(7) + 5 * 7);
                continue;
            }
            let failed = |error: ExecError| match error {
                ExecError::Task(error) => layouts(&error),
                other => panic!("{other}"),
            };
            let said =
                |edge: &str, expected: &str, found: String| (edge.to_owned(), expected.to_owned(), found);
            let device = failed(device.wait().unwrap_err());
            assert_eq!(device, said("layer0.make", "I64[7]", format!("I64[{x}]")));
            let memory = failed(memory.wait().unwrap_err());
            assert_eq!(memory, said("host.host", "F32[7, 2]", format!("F32[{x}, 2]")));
            let batch = failed(batch.wait().unwrap_err());
            assert_eq!(
                batch,
                said("layer0.batch", "I64[7] I64[2]", format!("I64[{x}] I64[2]"))
            );
        }
    }
}

/// What was said is checked where the graph is compiled, and shown with its reason.
#[test]
fn type_07_roads_are_shown_and_contradictions_refused() {
    if !two_there("type_07_roads_are_shown_and_contradictions_refused") {
        return;
    }
    let runtime = Runtime::new();
    let [a, b, _] = placed(&runtime, Where::Processes);
    let graph = runtime
        .compile(|x: Edge<i64>| b.copy(&a.make(&x).static_shape()))
        .unwrap();
    let text = graph.describe();
    assert!(
        text.contains("copy to the reader's: two processes, two devices; shapes are those of the first"),
        "{text}"
    );
    assert!(
        text.contains(
            "-> driver: through slots on the device: two processes; the reader takes them where they are"
        ),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_str(&graph.plan().to_json()).unwrap();
    assert_eq!(json["roads"][0]["road"], "SlotsAndCopy");
    assert_eq!(json["roads"][0]["why"], "two processes, two devices");
    drop(graph);
    for (graph, why) in [
        (
            runtime
                .compile(|x: Edge<i64>| b.copy(&a.make(&x).on_device(1)))
                .map(drop),
            "which makes it, is on device 0",
        ),
        (
            runtime
                .compile(|x: Edge<i64>| a.rows(&a.host(&x.on_device(0))))
                .map(drop),
            "carries no tensors of a device",
        ),
        (
            runtime
                .compile(|x: Edge<i64>| a.total(&a.make(&x).after(&constant(3).on_device(0))))
                .map(drop),
            "a constant carries no",
        ),
    ] {
        let refused = graph.unwrap_err().to_string();
        assert!(refused.contains("D0119") && refused.contains(why), "{refused}");
    }
    // A device that the process does not have.
    let far = runtime
        .spawn::<Placed>("far", (0,))
        .on_device(7)
        .in_process()
        .unwrap();
    let refused = runtime
        .compile(|x: Edge<i64>| far.total(&a.make(&x)))
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("there is no device 7"), "{refused}");
}

/// The simulated driver's own functions, by name.
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
    /// Keeps what is enqueued from now on waiting for `release`.
    fn hold(&self, number: u64) {
        type Hold = unsafe extern "C" fn(u64, u64) -> u32;
        // SAFETY: the simulator declares it so.
        let hold = unsafe { self.sim.function::<Hold>("selvedge_sim_hold") }.unwrap();
        // SAFETY: a stream that lives.
        assert_eq!(unsafe { hold(self.stream.as_raw() as u64, number) }, 0);
    }

    fn release(&self, number: u64) {
        // SAFETY: the simulator declares it so.
        let release = unsafe {
            self.sim
                .function::<unsafe extern "C" fn(u64)>("selvedge_sim_release")
        };
        // SAFETY: takes a number.
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

    /// The gradient of the last layer. That of rank 1 is not ready before rank 1 has been at its first layer.
    pub fn backward_last(&mut self, x: i64) -> Result<DeviceTensor> {
        if self.rank == 1 {
            self.hold(x as u64 + 1);
        }
        self.gradient(x)
    }

    /// The gradient of the layer between, when both ranks are there: so both have posted the last layer's.
    pub fn backward_middle(&mut self, x: i64) -> i64 {
        BOTH.wait();
        x
    }

    /// The gradient of the first layer, of which the device has made something when this returns.
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

    /// A tensor that is not ready before the driver says so.
    pub fn held(&mut self, x: i64) -> Result<DeviceTensor> {
        self.hold(x as u64);
        self.gradient(x)
    }

    /// What needs the tensor, but not its bytes.
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

/// D6 on the device: the sum of the last layer's gradients cannot be done before rank 1 has computed its first layer's. Once in
/// a process.
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

/// The child's part of the next test.
#[test]
#[ignore = "run by the test below, with a time line"]
fn train_for_a_time_line() {
    if std::env::var_os("SELVEDGE_SIM_TIMELINE").is_some() {
        train(3);
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
    // Sums of the last layer's 1000 numbers, read and written, and uploads of the first layer's 77 while they are in flight.
    let overlaps = named("ncclAllReduce")
        .filter(|sum| ns(sum, "bytes") == 2 * 8000)
        .filter(|sum| {
            let mut uploads = named("cuMemcpyHtoDAsync").filter(|copy| ns(copy, "bytes") == 2 * 77 * 8);
            uploads.any(|copy| {
                ns(copy, "begin_ns") > ns(sum, "enqueued_ns") && ns(copy, "end_ns") < ns(sum, "end_ns")
            })
        });
    // Of two ranks in three executions, in the first of which they may still connect.
    assert!(overlaps.count() >= 4);
}

/// What only needs to know of a tensor does not wait for it, here and in another process; who needs its bytes does.
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
            // The writer's lane is free, though its stream is not.
            a.call().let_go(x).wait().unwrap();
            assert_eq!(sum.wait().unwrap(), 1000 * x);
        }
    }
}

/// Collectives on edges of tensors, by NCCL on the device and by way of the host over shared memory.
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
            // One device for all ranks, which NCCL takes for a mistake.
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
