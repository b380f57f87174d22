//! Functions as tasks of graphs.

use std::sync::LazyLock;

use selvedge::prelude::*;
use tokio::sync::Barrier;

#[derive(Debug, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[error("{0} is odd")]
struct Odd(u64);

#[remote(pure)]
fn square(x: u64) -> u64 {
    x * x
}

#[remote(pure)]
fn dot(a: &[f64], b: &[f64], unit: &str) -> String {
    let sum: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
    format!("{sum} {unit}")
}

#[remote]
async fn later(x: u64) -> u64 {
    tokio::task::yield_now().await;
    x + 1
}

#[remote]
fn half(x: u64) -> Result<u64, Odd> {
    if x.is_multiple_of(2) {
        Ok(x / 2)
    } else {
        Err(Odd(x))
    }
}

#[remote]
async fn half_later(x: u64) -> Result<u64, Odd> {
    tokio::task::yield_now().await;
    half(x)
}

#[remote]
fn parts(x: u64) -> (u64, String) {
    (x + 1, x.to_string())
}

#[remote]
fn sum(numbers: Vec<u64>) -> u64 {
    numbers.iter().sum()
}

#[remote]
fn process() -> u32 {
    std::process::id()
}

#[remote]
fn value_of(reference: &Ref<u64>) -> Result<u64> {
    Ok(*reference.fetch()?)
}

#[remote]
fn breaks(_: u64) -> u64 {
    panic!("broken")
}

#[remote]
fn new(x: u64) -> u64 {
    x
}

#[remote]
fn call(x: u64) -> u64 {
    x
}

#[remote]
fn actor(x: u64) -> u64 {
    x
}

#[test]
fn dag_04_a_function_is_a_task_of_a_graph() {
    let runtime = Runtime::new();
    let graph = runtime
        .compile(|x: Edge<u64>| {
            let (next, text) = parts::bind(&square::bind(&x)).split();
            let all = list([
                square::bind(&next),
                later::bind(&x),
                half_later::bind(&half::bind(&x)),
            ]);
            (sum::bind(&all), text, process::bind().after(&x))
        })
        .unwrap();
    for x in [4, 8] {
        let (sum, text, pid) = graph.run(x).unwrap();
        assert_eq!(sum, (x * x + 1).pow(2) + x + 1 + x / 4);
        assert_eq!((text, pid), ((x * x).to_string(), std::process::id()));
    }
}

#[test]
fn dag_04_a_function_borrows_what_its_edges_carry() {
    let runtime = Runtime::new();
    let graph = runtime
        .compile(|(a, b): (Edge<Vec<f64>>, Edge<Vec<f64>>)| dot::bind(&a, &b, &constant("J".to_owned())))
        .unwrap();
    assert_eq!(graph.run((vec![1.0, 2.0], vec![3.0, 4.0])).unwrap(), "11 J");
}

#[test]
fn dag_04_a_function_is_an_actor_wherever_one_may_live() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let lane = runtime.lane("lane");
    let places = [
        runtime.spawn::<square>("inline", ()).inline().unwrap(),
        runtime.spawn::<square>("thread", ()).in_thread().unwrap(),
        runtime.spawn::<square>("lane", ()).in_lane(&lane).unwrap(),
        runtime.spawn::<square>("worker", ()).in_worker(&worker).unwrap(),
        runtime.spawn::<square>("process", ()).in_process().unwrap(),
    ];
    let pid = runtime.spawn::<process>("pid", ()).in_worker(&worker).unwrap();
    let graph = runtime
        .compile(|x: Edge<u64>| {
            let last = places.iter().fold(x.clone(), |x, place| place.square(&x));
            (last, pid.process().after(&x), process::bind().after(&x))
        })
        .unwrap();
    let (last, there, here) = graph.run(2).unwrap();
    assert_eq!(last, 1 << 32);
    assert_eq!((Some(there), here), (pid.actor().pid(), std::process::id()));
    drop(graph);
    for place in &places {
        assert_eq!(place.call().square(9).wait().unwrap(), 81);
    }
}

/// Lets two go on together.
static PAIR: LazyLock<Barrier> = LazyLock::new(|| Barrier::new(2));

#[remote]
async fn paired(x: u64) -> u64 {
    PAIR.wait().await;
    x
}

#[test]
fn dag_04_async_functions_overlap_as_the_actor_lets_them() {
    let runtime = Runtime::new();
    let pair = runtime
        .spawn::<paired>("pair", ())
        .concurrency(2)
        .in_thread()
        .unwrap();
    let graph = runtime.compile(|x: Edge<u64>| pair.paired(&x)).unwrap();
    // Each waits for the other.
    let both = [graph.execute(1), graph.execute(2)];
    assert_eq!(both.map(|execution| execution.wait().unwrap()), [1, 2]);
}

#[test]
fn dag_04_the_error_of_a_function_names_it_and_its_place_and_keeps_its_type() {
    let runtime = Runtime::new();
    let there = runtime.spawn::<half>("there", ()).in_process().unwrap();
    let here = runtime.compile(|x: Edge<u64>| half::bind(&x)).unwrap();
    let far = runtime.compile(|x: Edge<u64>| there.half(&x)).unwrap();
    let broken = runtime.compile(|x: Edge<u64>| breaks::bind(&x)).unwrap();
    assert_eq!((here.run(2).unwrap(), far.run(4).unwrap()), (1, 2));

    let task = |error: ExecError| match error {
        ExecError::Task(error) => error,
        other => panic!("{other:?}"),
    };
    let error = task(here.run(3).unwrap_err());
    assert_eq!(error.downcast_ref::<Odd>().map(|odd| odd.0), Some(3));
    assert_eq!(
        (
            &*error.info().task,
            &*error.info().actor,
            &*error.info().placement
        ),
        ("half", "half", "inline")
    );
    assert!(error.to_string().contains("bind.rs"), "{error}");

    let error = task(far.run(5).unwrap_err());
    assert_eq!(error.downcast_ref::<Odd>().map(|odd| odd.0), Some(5));
    assert_eq!(
        (&*error.info().task, &*error.info().actor),
        ("there.half", "there")
    );
    assert!(error.info().placement.starts_with("process"), "{error}");

    let error = task(broken.run(1).unwrap_err());
    assert_eq!(&*error.info().task, "breaks");
    assert!(error.to_string().contains("broken"), "{error}");
    assert_eq!(here.run(8).unwrap(), 4);
}

#[test]
fn dag_04_several_graphs_may_have_one_function_and_recompiling_keeps_it() {
    let runtime = Runtime::new();
    let make = || {
        runtime.compile_with(Options::new().trace(64), |x: Edge<u64>| {
            square::bind(&square::bind(&x))
        })
    };
    let (first, second) = (make().unwrap(), make().unwrap());
    assert_eq!((first.run(2).unwrap(), second.run(3).unwrap()), (16, 81));
    let plan = first.plan();
    let labels: Vec<&str> = plan.ir.tasks.iter().map(|task| &*task.label).collect();
    assert_eq!((labels, plan.ir.actors.len()), (vec!["square", "square#2"], 1));
    assert!(
        plan.ir.actors[0].commutes,
        "a function has no state that an order could show"
    );
    let profile = first.profile(4, |i| i as u64).unwrap();
    let again = first.recompile(&profile).unwrap();
    drop(second);
    assert_eq!(again.run(3).unwrap(), 81);
}

#[test]
fn dag_04_a_function_takes_references_as_any_actor_does() {
    let runtime = Runtime::new();
    let reference = runtime.put(7_u64).unwrap();
    let there = runtime.spawn::<value_of>("there", ()).in_process().unwrap();
    let graph = runtime
        .compile(|reference: Edge<Ref<u64>>| (value_of::bind(&reference), there.value_of(&reference)))
        .unwrap();
    assert_eq!(graph.run(reference).unwrap(), (7, 7));
}

#[test]
fn dag_04_a_function_may_have_the_name_of_a_handles_method() {
    let runtime = Runtime::new();
    let handles = (
        runtime.spawn::<new>("new", ()).inline().unwrap(),
        runtime.spawn::<call>("call", ()).inline().unwrap(),
        runtime.spawn::<actor>("actor", ()).inline().unwrap(),
    );
    let graph = runtime
        .compile(|x: Edge<u64>| {
            let bound = actor::bind(&call::bind(&new::bind(&x)));
            handles.2.actor_(&handles.1.call_(&handles.0.new_(&bound)))
        })
        .unwrap();
    assert_eq!(graph.run(5).unwrap(), 5);
}

#[test]
fn dag_04_a_function_bound_where_no_graph_is_compiled_is_reported_with_its_line() {
    let runtime = Runtime::new();
    let mut kept = None;
    let graph = runtime.compile(|x: Edge<u64>| {
        kept = Some(x.clone());
        square::bind(&x)
    });
    let outside = square::bind(kept.as_ref().unwrap());
    let error = runtime.compile(|_: Edge<u64>| outside).unwrap_err().to_string();
    assert!(
        error.contains("`square` is bound outside") && error.contains("bind.rs"),
        "{error}"
    );
    drop(graph);
    let _ = runtime.shutdown(std::time::Duration::from_secs(5));
    let error = runtime
        .compile(|x: Edge<u64>| square::bind(&x))
        .unwrap_err()
        .to_string();
    assert!(error.contains("shut down"), "{error}");
}
