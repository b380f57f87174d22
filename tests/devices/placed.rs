//! Locations of tensors: actors and edges that state them, edges between two devices, shapes that are fixed.

use selvedge::{Cause, TaskError};

use super::*;

/// Whether there are two devices. If a simulated driver can show two, runs this test again in a process with two.
fn two_there(test: &str) -> bool {
    if !there() || Gpu::open(1).is_ok() {
        return Gpu::open(1).is_ok();
    }
    if simulator().is_none() {
        eprintln!("not tested, for want of a second device");
        return false;
    }
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("placed::{test}")])
        .env("SELVEDGE_SIM_DEVICES", "2")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&child.stdout), text(&child.stderr));
    assert!(stdout.contains("1 passed"), "{stdout}{stderr}");
    false
}

/// Actors on devices 0, 1 and 0.
fn placed(runtime: &Runtime, place: Where) -> [LayerHandle; 3] {
    let lane = runtime.lane("placed");
    [0, 1, 0].map(|device| {
        let names = ["zero", "one"];
        let name = names[device as usize];
        let spawn = runtime.spawn::<Layer>(name, (device,)).on_device(device);
        place.spawn(spawn, &lane, device as usize)
    })
}

/// An actor reads tensors on the device that it was spawned on: they are copied there from the device that made them.
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
                    b.totals_with(&list([made.clone(), there.clone()]), &made),
                    a.totals_with(&list([there.clone(), passed]), &there),
                    located,
                    b.total_of(&a.batch(&x)),
                    a.total(&made),
                )
            })
            .unwrap();
        let executions: Vec<_> = LENGTHS.map(|x| (x, graph.execute(x))).into();
        for (x, execution) in executions {
            let mask = if x % 2 == 0 { sum(x + 1) } else { 0 };
            let expected = (sum(x), 3 * sum(x), 3 * sum(x), 1, sum(x) + mask + 5 * x, sum(x));
            assert_eq!(execution.wait().unwrap(), expected, "{place:?}");
        }
    }
}

/// A driver's tensors are copied to the device that reads them, and results stay on the device that made them.
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
        // The actors' streams are on the other device.
        let spawn = |name: &str| runtime.spawn::<Layer>(name, (1,));
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
                let expected = Cause::WrongDevice {
                    edge: edge.to_owned(),
                    expected: 0,
                    found: 1,
                };
                assert_eq!(error.cause(), &expected);
            }
        }
    }
}

/// The first value fixes the layouts, of tensors on devices and in host memory; another layout is its execution's
/// error.
#[test]
fn acc_06_type_09_a_static_shape_is_that_of_the_first_value() {
    if !there() {
        return;
    }
    for place in PLACES {
        let runtime = Runtime::new();
        let [a, b]: [LayerHandle; 2] = layers(&runtime, place);
        let host = runtime.spawn::<Layer>("host", (0,)).in_thread().unwrap();
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

/// Stated devices and shapes are checked when the graph is compiled, and shown with their reasons.
#[test]
fn type_07_the_paths_of_tensors_are_shown_and_contradictions_refused() {
    if !two_there("type_07_the_paths_of_tensors_are_shown_and_contradictions_refused") {
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
    assert_eq!(json["tensor_paths"][0]["path"], "SlotsAndCopy");
    assert_eq!(json["tensor_paths"][0]["why"], "two processes, two devices");
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
        .spawn::<Layer>("far", (0,))
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
