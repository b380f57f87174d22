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

use std::time::Duration;

use selvedge::device::{DeviceTensor, Gpu, Stream};
use selvedge::prelude::*;
use selvedge::{Transport, gather};

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

    pub fn die(&mut self, x: &DeviceTensor, #[constant] at: i64) -> Result<DeviceTensor> {
        if x.layout().shape() == [at as usize] {
            std::process::abort();
        }
        self.copy(x)
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
