//! Remote functions and references between real processes.

use std::sync::Mutex;
use std::time::Duration;

use selvedge::prelude::*;
use selvedge::{
    Call, CallError, Exit, FetchError, ProcessEnd, ProcessId, Ran, RefStats, RemoteChannelError, RemoteError,
    Worker,
};

use super::census::wait_until;

#[remote]
fn square(x: f64) -> f64 {
    x * x
}

#[remote]
fn pid() -> u32 {
    std::process::id()
}

#[remote]
fn load(rows: usize) -> Vec<u64> {
    (0..rows as u64).collect()
}

#[remote]
fn sum(rows: Ref<Vec<u64>>) -> Result<u64> {
    Ok(rows.fetch()?.iter().sum())
}

#[remote]
fn lent(rows: Ref<Vec<u64>>) -> Ref<Vec<u64>> {
    rows
}

#[remote]
fn fails(text: &str) -> Result<u64> {
    Err(text.to_owned().into())
}

/// A value that serde does not know.
struct Session {
    log: Mutex<Vec<String>>,
}

#[remote]
fn open(name: &str) -> Session {
    Session {
        log: Mutex::new(vec![name.to_owned()]),
    }
}

#[remote]
fn entries(#[here] session: &Session) -> usize {
    session.log.lock().unwrap().len()
}

#[remote]
fn dies() -> u64 {
    std::process::abort()
}

#[test]
fn jspawn_01_a_call_runs_in_the_worker_that_it_names() {
    let runtime = Runtime::new();
    let [a, b] = ["a", "b"].map(|name| runtime.worker(name).unwrap());
    assert_eq!(runtime.call(square::remote(3.0).on(&a)).wait().unwrap(), 9.0);
    let pids = [&a, &b].map(|worker| runtime.call(pid::remote().on(worker)).wait().unwrap());
    assert_eq!(pids.map(Some), [a.pid(), b.pid()]);
    assert_ne!(pids[0], std::process::id());
}

#[test]
fn rref_03_a_kept_value_lives_in_its_worker_and_passes_by_reference() {
    let runtime = Runtime::new();
    let [a, b] = ["a", "b"].map(|name| runtime.worker(name).unwrap());
    let rows: Ref<Vec<u64>> = a.keep(load::remote(100));
    assert_eq!(rows.local(), None);
    // To its owner, to another worker, and back again.
    for worker in [&a, &b] {
        assert_eq!(runtime.call(sum::remote(&rows).on(worker)).wait().unwrap(), 4950);
        let back = runtime.call(lent::remote(&rows).on(worker)).wait().unwrap();
        assert_eq!((back.id(), back.fetch().unwrap().len()), (rows.id(), 100));
    }
    assert!(rows.confirmed(Duration::from_secs(60)).unwrap());
    let here: Ref<Vec<u64>> = runtime.keep(load::remote(10).on_process(rows.id().creator.process));
    assert_eq!(here.fetch().unwrap().len(), 10);
    assert_eq!(runtime.call(sum::remote(&here).on(&b)).wait().unwrap(), 45);
}

#[test]
fn rref_29_a_function_that_fails_is_the_error_of_every_fetch() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let failed: Ref<u64> = worker.keep(fails::remote("no model there"));
    for _ in 0..2 {
        let error = failed.fetch().unwrap_err();
        assert!(matches!(error, FetchError::Failed { .. }), "{error}");
        assert!(error.to_string().contains("no model there"), "{error}");
    }
}

/// Two workers, and rows that the first one keeps and the second one has read.
fn rows_between_workers(runtime: &Runtime) -> ([Worker; 2], Ref<Vec<u64>>) {
    let [a, b] = ["a", "b"].map(|name| runtime.worker(name).unwrap());
    let rows = a.keep(load::remote(100));
    assert_eq!(runtime.call(sum::remote(&rows).on(&b)).wait().unwrap(), 4950);
    ([a, b], rows)
}

#[test]
fn rref_42_the_death_of_a_worker_ends_calls_and_fetches() {
    let runtime = Runtime::new();
    let ([a, b], rows) = rows_between_workers(&runtime);
    let error = runtime.call(dies::remote().on(&a)).wait().unwrap_err();
    let CallError::Remote { error, .. } = &error else {
        panic!("{error}")
    };
    assert!(matches!(**error, RemoteError::Died { .. }), "{error}");
    assert!(matches!(rows.fetch(), Err(FetchError::OwnerLost { .. })));
    let error = runtime.call(sum::remote(&rows).on(&b)).wait().unwrap_err();
    assert!(error.to_string().contains("lost"), "{error}");
    assert_eq!(runtime.call(square::remote(2.0).on(&b)).wait().unwrap(), 4.0);
}

/// Ends its process with these last words.
#[remote]
fn exits(code: i32, words: &str) -> u64 {
    eprintln!("{words}");
    std::process::exit(code)
}

/// The error of a call to another worker whose process has died, as this process has it.
#[remote]
fn reported(of: u32) -> Result<String> {
    let process = ProcessId::new(of).ok_or("no process has the number 0")?;
    let call = Runtime::current()?.call(dies::remote().on_process(process));
    Ok(call.wait().unwrap_err().to_string())
}

/// The end of the process that a call has named in its error.
fn end_of(error: &CallError) -> (&ProcessEnd, Ran) {
    match error.remote() {
        Some(RemoteError::Died { ran, end }) => (end, *ran),
        _ => panic!("{error}"),
    }
}

#[test]
fn rref_42_the_error_of_a_call_says_how_its_process_died() {
    let runtime = Runtime::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| runtime.worker(name).unwrap());
    let pids = [&a, &b, &c].map(|worker| worker.pid());
    let kept: Ref<Vec<u64>> = a.keep(load::remote(3));
    assert!(kept.confirmed(Duration::from_secs(60)).unwrap());

    let error = runtime
        .call(exits::remote(3, "out of rows").on(&a))
        .wait()
        .unwrap_err();
    let (end, ran) = end_of(&error);
    assert_eq!((end.pid, &end.exit, ran), (pids[0], &Exit::Code(3), Ran::Unknown));
    assert_eq!(end.stderr_tail.last().map(String::as_str), Some("out of rows"));
    let text = error.to_string();
    assert!(
        text.contains("worker `a`") && text.ends_with("exit code 3; last line on stderr: out of rows"),
        "{text}"
    );

    // A call after the death, and a fetch, say the same.
    let error = runtime.call(dies::remote().on(&a)).wait().unwrap_err();
    let (end, ran) = end_of(&error);
    assert_eq!((&end.exit, ran), (&Exit::Code(3), Ran::Never), "{error}");
    let text = kept.fetch().unwrap_err().to_string();
    assert!(
        text.contains("worker `a`") && text.contains("exit code 3"),
        "{text}"
    );

    // A worker hears it from the driver, though its own link has ended before.
    let text = runtime
        .call(reported::remote(b.process().number()).on(&c))
        .wait()
        .unwrap();
    let expected = format!("pid {}, signal 6 (SIGABRT)", pids[1].unwrap());
    assert!(text.contains("worker `b`") && text.contains(&expected), "{text}");
}

#[test]
fn rref_37_a_worker_that_is_ended_holds_nothing_and_ends_every_wait() {
    let runtime = Runtime::new();
    let ([a, b], rows) = rows_between_workers(&runtime);
    let unset = runtime.unset::<Vec<u64>>();
    let waiting = runtime.call(sum::remote(&unset).on(&a));
    assert_eq!((runtime.references().owned, runtime.references().forks), (1, 1));
    let _ = a.end(Duration::from_secs(20));
    assert!(waiting.wait().is_err());
    assert!(matches!(rows.fetch(), Err(FetchError::OwnerLost { .. })));
    let error = runtime.call(sum::remote(&rows).on(&b)).wait().unwrap_err();
    assert!(error.to_string().contains("lost"), "{error}");
    assert_eq!((runtime.references().owned, runtime.references().forks), (1, 0));
    drop((rows, unset));
    wait_until(&RefStats::default(), || runtime.references());
}

#[test]
fn jrem_21_many_threads_in_two_processes_fetch_one_reference() {
    let runtime = Runtime::new();
    let [a, b] = ["a", "b"].map(|name| runtime.worker(name).unwrap());
    let rows: Ref<Vec<u64>> = a.keep(load::remote(1000));
    std::thread::scope(|scope| {
        let here: Vec<_> = (0..10)
            .map(|_| scope.spawn(|| rows.fetch().unwrap().len()))
            .collect();
        let there: Vec<_> = (0..10).map(|_| runtime.call(sum::remote(&rows).on(&b))).collect();
        for fetched in here {
            assert_eq!(fetched.join().unwrap(), 1000);
        }
        for call in there {
            assert_eq!(call.wait().unwrap(), 499_500);
        }
    });
}

/// The frames of a service between this process and the worker, in both directions.
fn frames(runtime: &Runtime, service: &str) -> u64 {
    let traffic = runtime.traffic().into_iter();
    let of_service = traffic.filter(|entry| entry.service == service);
    of_service
        .map(|entry| entry.counts.frames_sent + entry.counts.frames_received)
        .sum()
}

/// The sum, and the frames of fetches that this process has exchanged with others.
#[remote]
fn sum_and_frames(rows: Ref<Vec<u64>>) -> Result<(u64, u64)> {
    let sum = rows.fetch()?.iter().sum();
    Ok((sum, frames(&Runtime::current()?, "fetches")))
}

#[test]
fn jrem_22_a_value_that_was_fetched_travels_along() {
    let runtime = Runtime::new();
    let [a, b] = ["a", "b"].map(|name| runtime.worker(name).unwrap());
    let rows: Ref<Vec<u64>> = a.keep(load::remote(100));
    rows.fetch().unwrap();
    let along = runtime.call(sum_and_frames::remote(&rows).on(&b)).wait().unwrap();
    assert_eq!(along, (4950, 0), "nobody is asked");
    let home = runtime.call(sum_and_frames::remote(&rows).on(&a)).wait().unwrap();
    assert_eq!(home, (4950, 2), "the fetch of this process");
    let long: Ref<Vec<u64>> = a.keep(load::remote(20_000));
    long.fetch().unwrap();
    let asked = runtime.call(sum_and_frames::remote(&long).on(&b)).wait().unwrap();
    assert_eq!(asked, (199_990_000, 2), "a long value is fetched from its owner");
}

#[test]
fn the_tap_counts_the_frames_of_calls_fetches_and_references() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    assert_eq!(runtime.traffic(), []);
    runtime.call(square::remote(3.0).on(&worker)).wait().unwrap();
    assert_eq!(frames(&runtime, "calls"), 2, "a call is two frames");
    let rows: Ref<Vec<u64>> = worker.keep(load::remote(100));
    assert!(rows.confirmed(Duration::from_secs(60)).unwrap());
    assert_eq!(
        (frames(&runtime, "calls"), frames(&runtime, "references")),
        (3, 1)
    );
    for _ in 0..2 {
        rows.fetch().unwrap();
        assert_eq!(frames(&runtime, "fetches"), 2, "the second fetch asks nobody");
    }
    drop(rows);
    let limit = std::time::Instant::now() + Duration::from_secs(60);
    while frames(&runtime, "references") < 3 {
        assert!(std::time::Instant::now() < limit, "the release is answered");
        // Each call is a point at which the other frames have passed.
        runtime.call(square::remote(1.0).on(&worker)).wait().unwrap();
    }
    assert_eq!(
        frames(&runtime, "references"),
        3,
        "from `keep` to the last drop: four frames with the call"
    );
}

/// The bytes of all frames between this process and the others.
fn bytes(runtime: &Runtime) -> u64 {
    let traffic = runtime.traffic().into_iter();
    traffic
        .map(|entry| entry.counts.bytes_sent + entry.counts.bytes_received)
        .sum()
}

#[remote]
fn ones(rows: u64) -> Vec<f64> {
    vec![1.0; rows as usize]
}

#[remote]
fn squares(rows: &[f64]) -> Vec<f64> {
    rows.iter().map(|x| x * x).collect()
}

#[test]
fn jdata_01_a_matrix_that_is_made_here_moves_twice_and_one_that_is_made_there_once() {
    const ROWS: u64 = 1 << 17;
    const MATRIX: u64 = 8 * ROWS;
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let (here, there) = (ones(ROWS), worker.keep(ones::remote(ROWS)));
    let moved = |square: &dyn Fn() -> Ref<Vec<f64>>| {
        let before = bytes(&runtime);
        assert_eq!(square().fetch().unwrap().len() as u64, ROWS);
        // The heads of the frames are less than a hundredth.
        (bytes(&runtime) - before) * 100 / MATRIX
    };
    assert_eq!(moved(&|| worker.keep(squares::remote(&here))), 200);
    assert_eq!(moved(&|| worker.keep(squares::remote(&there))), 100);
}

/// Whether the bytes count up, and the tensor itself with its first byte changed.
#[remote]
fn counted_up(tensor: Tensor, first: u8) -> (bool, Tensor) {
    let mut tensor = tensor;
    let is_counted = tensor
        .bytes()
        .iter()
        .zip(0_u64..)
        .all(|(byte, at)| *byte == at as u8);
    if let Some(byte) = tensor
        .as_mut_slice::<u8>()
        .ok()
        .and_then(|bytes| bytes.first_mut())
    {
        *byte = first;
    }
    (is_counted, tensor)
}

#[test]
fn tensors_of_any_length_go_there_and_back_beside_small_calls_and_are_written_to_as_copies() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    for length in [0_u64, 1000, 1 << 14, (1 << 20) - 1, 1 << 20, 9 << 20, 5] {
        let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let tensor = Tensor::from_vec(bytes, &[length as usize]).unwrap();
        let calls = [7, 8].map(|first| runtime.call(counted_up::remote(&tensor, first).on(&worker)));
        let small = (0..20).map(|x| runtime.call(square::remote(f64::from(x)).on(&worker)));
        let small: Vec<_> = small.collect();
        for (x, call) in (0..20).zip(small) {
            assert_eq!(call.wait().unwrap(), f64::from(x) * f64::from(x));
        }
        for (first, call) in [7, 8].into_iter().zip(calls) {
            let (is_counted, back) = call.wait().unwrap();
            assert!(is_counted && back.shape() == tensor.shape(), "{length}");
            assert_eq!(back.bytes().first(), tensor.bytes().first().map(|_| &first));
            assert!(back.bytes().get(1..) == tensor.bytes().get(1..), "{length}");
        }
        // The caller's own tensor is not written to, although its memory was sent.
        assert!(tensor.bytes().first().is_none_or(|first| *first == 0));
    }
}

#[remote]
async fn cubed(x: f64) -> f64 {
    x * x * x
}

#[remote]
fn joined(text: &str, numbers: &[u64]) -> String {
    format!("{text}{}", numbers.len())
}

#[remote]
fn text() -> String {
    "rows: ".to_owned()
}

#[test]
fn rref_08_a_reference_stands_for_its_value_where_a_function_takes_the_value() {
    let runtime = Runtime::new();
    let [a, b] = ["a", "b"].map(|name| runtime.worker(name).unwrap());
    let nine: Ref<f64> = a.keep(square::remote(3.0));
    let eighty_one: Ref<f64> = b.keep(square::remote(&nine));
    assert_eq!(*eighty_one.fetch().unwrap(), 81.0);
    assert_eq!(
        runtime.call(cubed::remote(nine.clone()).on(&b)).wait().unwrap(),
        729.0
    );
    let (text, rows) = (a.keep(text::remote()), b.keep(load::remote(5)));
    assert_eq!(
        runtime.call(joined::remote(&text, &rows).on(&a)).wait().unwrap(),
        "rows: 5"
    );
    let scaled = remote_fn!([nine: f64] |x: f64| -> f64 { nine * x });
    assert_eq!(runtime.call(scaled.remote(2.0).on(&b)).wait().unwrap(), 18.0);
    // Within this process.
    let here = eighty_one.id().creator.process;
    let four: Ref<f64> = runtime.keep(square::remote(2.0).on_process(here));
    assert_eq!(
        runtime
            .call(square::remote(&four).on_process(here))
            .wait()
            .unwrap(),
        16.0
    );
    // The failure of the function that was to make the value is that of the call.
    let failed: Ref<u64> = a.keep(fails::remote("no rows"));
    let rows: Ref<Vec<u64>> = b.keep(load_as::remote(&failed));
    let error = rows.fetch().unwrap_err();
    assert!(error.to_string().contains("no rows"), "{error}");
}

#[remote]
fn load_as(rows: u64) -> Vec<u64> {
    (0..rows).collect()
}

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct OutOfStock {
    left: u32,
}

impl std::fmt::Display for OutOfStock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "only {} left", self.left)
    }
}

impl std::error::Error for OutOfStock {}

#[remote]
fn order(count: u32) -> std::result::Result<u32, OutOfStock> {
    if count > 3 {
        Err(OutOfStock { left: 3 })
    } else {
        Ok(count)
    }
}

#[test]
fn rref_29_the_error_of_a_fetch_keeps_its_type_across_processes() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let failed: Ref<u32> = worker.keep(order::remote(9));
    let error = failed.fetch().unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&OutOfStock { left: 3 }), "{error}");
}

#[remote]
fn waits_for(channel: RemoteChannel<u8>) -> Result<u8> {
    Ok(channel.take()?)
}

#[test]
fn the_first_of_several_answers_is_waited_for() {
    let runtime = Runtime::new();
    let worker = runtime.worker("waits").unwrap();
    let channels: Vec<_> = (0..2).map(|_| runtime.channel::<u8>(1).unwrap()).collect();
    let call = |channel| runtime.call(waits_for::remote(channel).on(&worker));
    let mut calls: Vec<_> = channels.iter().map(call).collect();
    let soon = Duration::from_millis(10);
    assert_eq!(Call::wait_any(&mut calls, soon).unwrap(), None);
    channels[1].put(7).unwrap();
    assert_eq!(
        Call::wait_any(&mut calls, Duration::from_secs(20)).unwrap(),
        Some(1)
    );
    assert_eq!(
        Call::wait_any(&mut calls, Duration::ZERO).unwrap(),
        Some(1),
        "it is still there"
    );
    assert_eq!(calls.remove(1).wait().unwrap(), 7);
    assert_eq!(Call::wait_any(&mut calls, soon).unwrap(), None);
    channels[0].put(8).unwrap();
    assert_eq!(
        Call::wait_any(&mut calls, Duration::from_secs(20)).unwrap(),
        Some(0)
    );
    assert_eq!(calls.remove(0).wait().unwrap(), 8);
    assert_eq!(
        Call::wait_any(&mut calls, Duration::from_secs(20)).unwrap(),
        None,
        "there is none"
    );
}

#[test]
fn a_step_of_a_loop_may_have_a_limit_after_which_the_loop_goes_on() {
    let runtime = Runtime::new();
    let channel = runtime.channel::<u8>(1).unwrap();
    let mut values = channel.iter();
    let late = values
        .next_timeout(Duration::from_millis(5))
        .unwrap()
        .unwrap_err();
    assert!(matches!(late, RemoteChannelError::Timeout { .. }), "{late}");
    channel.put(3).unwrap();
    assert_eq!(values.next_timeout(Duration::from_secs(20)).unwrap().unwrap(), 3);
    channel.close().unwrap();
    assert!(values.next_timeout(Duration::from_secs(20)).is_none());
}
