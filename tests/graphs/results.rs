//! Results of graphs as objects: what a reference gives, where a large result lies, and what becomes of failures.

use std::time::Duration;

use crate::actors::{Gate, Negative, PLACEMENTS, REMOTE, counter};
use selvedge::prelude::*;
use selvedge::{FetchError, Lost};

#[remote]
fn double(x: i64) -> i64 {
    2 * x
}

#[remote]
fn fetched(x: Ref<i64>) -> Result<i64> {
    Ok(*x.fetch()?)
}

/// The sum of a tensor, and whether it lies in memory that this process cannot write.
#[remote]
fn looked_at(value: Ref<Tensor>) -> Result<(u64, bool)> {
    let value = value.fetch()?;
    let sum = value.as_slice::<u8>()?.iter().map(|byte| u64::from(*byte)).sum();
    Ok((sum, is_in_the_store(&value)))
}

fn is_in_the_store(tensor: &Tensor) -> bool {
    let address = tensor.bytes().as_ptr().addr();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().any(|line| {
        let (range, rest) = line.split_once(' ').unwrap();
        let (begin, end) = range.split_once('-').unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        (number(begin)..number(end)).contains(&address) && rest.starts_with("r--s")
    })
}

struct Filler;

#[actor]
impl Filler {
    pub fn new() -> Self {
        Filler
    }

    pub fn fill(&mut self, bytes: usize) -> Result<Tensor> {
        Ok(Tensor::from_slice(&vec![1_u8; bytes], &[bytes])?)
    }
}

fn lost(error: &FetchError) -> &Lost {
    error.downcast_ref().unwrap_or_else(|| panic!("{error}"))
}

#[test]
fn a_result_of_a_graph_is_an_object_that_functions_take_and_other_processes_fetch() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let worker = runtime.worker("reader")?;
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| a.add(&x, &a.echo(&x)))?;
        let result: Ref<i64> = graph.submit(20);
        let doubled = runtime.submit(double::remote(&result));
        assert_eq!(
            runtime.call(fetched::remote(&result).on(&worker)).wait()?,
            40,
            "{placement}"
        );
        assert_eq!((*doubled.fetch()?, *result.fetch()?), (80, 40));
        assert_eq!(result.local().as_deref(), Some(&40), "its owner is this process");
    }
    Ok(())
}

#[test]
fn results_of_many_executions_come_each_to_its_reference() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let options = Options::new().max_inflight(4).max_buffered(4);
        let graph = runtime.compile_with(options, |x: Edge<i64>| a.echo(&x))?;
        // Nobody fetches meanwhile: the results wait in their objects.
        let results: Vec<_> = (0..500).map(|x| graph.submit(x)).collect();
        for (x, result) in results.iter().enumerate() {
            assert_eq!(*result.fetch()?, x as i64, "{placement}");
        }
    }
    Ok(())
}

#[test]
fn rstore_03_a_large_result_of_a_graph_lies_in_the_store_and_is_read_there() -> Result<()> {
    let runtime = Runtime::new();
    let worker = runtime.worker("reader")?;
    let filler = runtime.spawn::<Filler>("filler", ()).in_process()?;
    let graph = runtime.compile(|bytes: Edge<usize>| filler.fill(&bytes))?;
    let large = graph.submit(1 << 20);
    assert_eq!(
        runtime.call(looked_at::remote(&large).on(&worker)).wait()?,
        (1 << 20, true)
    );
    assert!(is_in_the_store(&*large.fetch()?));
    assert_eq!(runtime.objects().objects.len(), 1);
    let small = graph.submit(100);
    assert!(!is_in_the_store(&*small.fetch()?));
    drop(large);
    let limit = std::time::Instant::now() + Duration::from_secs(60);
    while !runtime.objects().objects.is_empty() {
        assert!(
            std::time::Instant::now() < limit,
            "it is freed with its last reference"
        );
        std::thread::yield_now();
    }
    Ok(())
}

#[test]
fn a_failure_of_an_execution_is_the_failure_of_its_object_and_the_graph_goes_on() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| a.fail_if_negative(&x))?;
        let (bad, good) = (graph.submit(-3), graph.submit(3));
        for _ in 0..2 {
            let error = bad.fetch().unwrap_err();
            // A worker process sends the error as text, since serde does not know its type.
            let own = (placement != Placement::Process).then_some(&Negative(-3));
            assert_eq!(error.downcast_ref::<Negative>(), own, "{placement}: {error}");
            assert!(matches!(error.downcast_ref(), Some(ExecError::Task(_))));
            assert!(error.to_string().contains("`a.fail_if_negative"), "{error}");
        }
        let error = runtime.submit(double::remote(&bad)).fetch().unwrap_err();
        assert!(error.to_string().contains("-3 is negative"), "{error}");
        assert_eq!(*good.fetch()?, 3);
    }
    Ok(())
}

#[test]
fn a_result_whose_graph_ends_before_it_is_lost_and_says_with_which_graph() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Process);
    let graph = runtime.compile_with(Options::new().named("counts"), |x: Edge<i64>| {
        a.exit_if_negative(&x)
    })?;
    let made = graph.submit(1);
    assert_eq!(*made.fetch()?, 1);
    let error = graph.submit(-1).fetch().unwrap_err();
    assert!(
        matches!(lost(&error), Lost::GraphEnded { graph, reason } if graph == "counts" && reason.contains("last words")),
        "{error}"
    );
    let error = graph.submit(2).fetch().unwrap_err();
    assert!(
        matches!(lost(&error), Lost::GraphEnded { .. }),
        "a graph that has ended already: {error}"
    );
    assert_eq!(*made.fetch()?, 1, "what was made stays");

    let (b, gate) = (counter(&runtime, "b", Placement::Thread), Gate::closed());
    let graph = runtime.compile(|x: Edge<i64>| b.pass(&x, gate.path()))?;
    let waits = graph.submit(1);
    gate.open();
    let _ = graph.teardown();
    match waits.fetch() {
        Ok(value) => assert_eq!(*value, 1, "it was just made"),
        Err(error) => assert!(matches!(lost(&error), Lost::GraphEnded { .. }), "{error}"),
    }
    Ok(())
}

#[test]
fn a_full_graph_refuses_or_waits_as_with_execute_and_the_reference_says_so() -> Result<()> {
    for placement in REMOTE {
        let runtime = Runtime::new();
        let (a, gate) = (counter(&runtime, "a", placement), Gate::closed());
        let options = Options::new().max_inflight(1).on_full(OnFull::Fail);
        let graph = runtime.compile_with(options, |x: Edge<i64>| a.pass(&x, gate.path()))?;
        let first = graph.submit(1);
        let error = graph.submit(2).fetch().unwrap_err();
        assert!(
            matches!(
                error.downcast_ref(),
                Some(ExecError::CapacityExceeded { max_inflight: 1, .. })
            ),
            "{error}"
        );
        gate.open();
        assert_eq!(*first.fetch()?, 1, "{placement}");
    }
    Ok(())
}

#[test]
fn a_dropped_reference_cancels_nothing() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let a = counter(&runtime, "a", placement);
        let graph = runtime.compile(|x: Edge<i64>| a.inc(&x))?;
        for _ in 0..10 {
            drop(graph.submit(1));
        }
        assert_eq!(*graph.submit(1).fetch()?, 11, "{placement}");
        // A handle that is dropped cancels, unless it was made an object.
        drop(graph.execute(1).into_ref());
        assert_eq!(graph.run(1)?, 13, "{placement}");
    }
    Ok(())
}

#[test]
fn each_output_of_a_graph_is_an_object_of_its_own_after_split() -> Result<()> {
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Thread);
    let b = counter(&runtime, "b", Placement::Process);
    let graph = runtime.compile(|x: Edge<i64>| (a.fail_if_negative(&x), b.echo(&x)))?;
    let (left, right) = graph.execute(-1).split();
    let (left, right) = (left.into_ref(), right.into_ref());
    assert_eq!(
        *right.fetch()?,
        -1,
        "the failure of one output is not that of the other"
    );
    assert!(left.fetch().unwrap_err().downcast_ref::<Negative>().is_some());
    let both: Ref<(i64, i64)> = graph.submit(4);
    assert_eq!(*both.fetch()?, (4, 4), "one object with both");
    Ok(())
}

#[test]
fn a_result_that_does_not_come_within_the_graphs_time_limit_is_a_failure() -> Result<()> {
    let runtime = Runtime::new();
    let (a, gate) = (counter(&runtime, "a", Placement::Thread), Gate::closed());
    let options = Options::new().timeout(Duration::from_millis(50));
    let graph = runtime.compile_with(options, |x: Edge<i64>| a.pass(&x, gate.path()))?;
    let late = graph.submit(1);
    let error = late.fetch().unwrap_err();
    assert!(
        matches!(error.downcast_ref(), Some(ExecError::Timeout(_))),
        "{error}"
    );
    gate.open();
    Ok(())
}
