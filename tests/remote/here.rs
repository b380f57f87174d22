//! Remote functions in a runtime without workers, which run in the process itself.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use selvedge::prelude::*;
use selvedge::{CallError, RemoteError, RemoteFunction, cancellation};
use serde::{Deserialize, Serialize};

#[remote]
fn square(x: f64) -> f64 {
    x * x
}

#[remote]
fn seven() -> u32 {
    7
}

#[remote]
fn total(text: &str, numbers: &[u32], last: &u32) -> usize {
    text.len() + numbers.iter().sum::<u32>() as usize + *last as usize
}

#[derive(Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{0} is odd")]
struct Odd(u32);

#[remote]
fn halved(x: u32) -> Result<u32, Odd> {
    if x.is_multiple_of(2) {
        Ok(x / 2)
    } else {
        Err(Odd(x))
    }
}

#[remote]
async fn borrowed(
    text: &str,
    numbers: &[u32],
    cow: std::borrow::Cow<'_, str>,
    owned: String,
) -> Result<usize, Odd> {
    tokio::task::yield_now().await;
    Ok(text.len() + numbers.len() + cow.len() + owned.len())
}

#[remote]
async fn halved_later(x: &u32) -> Result<u32, Odd> {
    tokio::time::sleep(Duration::from_millis(1)).await;
    halved(*x)
}

#[remote]
fn panics(text: String) -> u8 {
    panic!("{text}")
}

#[remote]
fn fibonacci(n: u64) -> Result<u64> {
    if n < 2 {
        return Ok(n);
    }
    let runtime = Runtime::current()?;
    let one = runtime.call(fibonacci::remote(n - 1));
    let two = runtime.call(fibonacci::remote(n - 2));
    Ok(one.wait()? + two.wait()?)
}

#[remote]
fn address(value: Arc<String>) -> usize {
    Arc::as_ptr(&value).addr()
}

#[remote]
async fn until_dropped(counter: usize) {
    struct Ended(usize);
    impl Drop for Ended {
        fn drop(&mut self) {
            ENDED[self.0].fetch_add(1, Ordering::SeqCst);
        }
    }
    let _ended = Ended(counter);
    BEGUN[counter].fetch_add(1, Ordering::SeqCst);
    std::future::pending::<()>().await
}
static BEGUN: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];
static ENDED: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

#[remote]
fn until_cancelled() -> bool {
    let late = Instant::now() + Duration::from_secs(60);
    UNCANCELLED.fetch_add(1, Ordering::SeqCst);
    while !cancellation().is_cancelled() && Instant::now() < late {
        std::thread::yield_now();
    }
    CANCELLED.fetch_add(1, Ordering::SeqCst);
    true
}
static UNCANCELLED: AtomicUsize = AtomicUsize::new(0);
static CANCELLED: AtomicUsize = AtomicUsize::new(0);

static PREPARED: AtomicUsize = AtomicUsize::new(0);

#[worker_init]
fn prepare() -> Result<()> {
    PREPARED.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

#[remote]
fn prepared() -> usize {
    PREPARED.load(Ordering::SeqCst)
}

fn wait_for(counter: &AtomicUsize, count: usize) {
    let late = Instant::now() + Duration::from_secs(60);
    while counter.load(Ordering::SeqCst) < count {
        assert!(Instant::now() < late, "not cancelled");
        std::thread::yield_now();
    }
}

#[test]
fn jrem_06_without_workers_this_process_is_the_worker() {
    let runtime = Runtime::new();
    assert_eq!(square(3.0), 9.0, "the function stays a function");
    assert_eq!(runtime.call(square::remote(3.0)).wait().unwrap(), 9.0);
    assert_eq!(
        runtime.call(square::remote(&3.0).round_robin()).wait().unwrap(),
        9.0
    );
    assert_eq!(runtime.call(seven::remote()).wait().unwrap(), 7);
    assert_eq!(runtime.everywhere(seven::remote()).unwrap(), [7]);
}

#[test]
fn parameters_by_reference_take_what_they_borrow_from() {
    let runtime = Runtime::new();
    let numbers = vec![1, 2];
    for call in [
        total::remote("abc", [1, 2], 4),
        total::remote("abc", &numbers, &4),
        total::remote(String::from("abc"), &numbers[..], 4),
        total::remote("abc", numbers, 4).copied(),
    ] {
        assert_eq!(runtime.call(call).wait().unwrap(), 10);
    }
    let borrowed = borrowed::remote("a", [1, 2], "abc", "abcd");
    assert_eq!(runtime.call(borrowed).wait().unwrap(), 10);
}

#[test]
fn jrem_17_the_error_of_a_submitted_call_keeps_its_type_also_in_one_that_reads_its_value() {
    let runtime = Runtime::new();
    let _worker = runtime.worker("w").unwrap();
    let odd = runtime.submit(halved::remote(7));
    for value in [&odd, &runtime.submit(halved::remote(&odd))] {
        let error = value.fetch().unwrap_err();
        assert_eq!(error.downcast_ref::<Odd>(), Some(&Odd(7)), "{error}");
    }
}

#[test]
fn jrem_17_an_error_keeps_its_type_and_a_panic_its_text() {
    let runtime = Runtime::new();
    assert_eq!(runtime.call(halved::remote(8)).wait().unwrap(), 4);
    for call in [
        halved::remote(7),
        halved_later::remote(7),
        halved::remote(7).copied(),
    ] {
        let error = runtime.call(call).wait().unwrap_err();
        assert_eq!(error.downcast_ref::<Odd>(), Some(&Odd(7)), "{error}");
    }
    let error = runtime
        .call(panics::remote(String::from("boom")))
        .wait()
        .unwrap_err();
    assert!(error.is_panic(), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("panics` on process 1") && text.contains("boom"),
        "{text}"
    );
}

#[test]
fn p11_functions_that_wait_for_each_other_never_use_up_all_threads() {
    let runtime = Runtime::new();
    assert_eq!(runtime.call(fibonacci::remote(7)).wait().unwrap(), 13);
}

#[test]
fn too_many_waiting_functions_are_an_error() {
    #[remote]
    fn down(n: u32) -> Result<u32> {
        let below = if n == 0 {
            0
        } else {
            Runtime::current()?.call(down::remote(n - 1)).wait()?
        };
        Ok(below + 1)
    }
    let runtime = Runtime::new();
    assert_eq!(runtime.call(down::remote(20)).wait().unwrap(), 21);
    let error = runtime.call(down::remote(100)).wait().unwrap_err().to_string();
    assert!(
        error.contains("64 functions of this process wait already"),
        "{error}"
    );
}

#[test]
fn an_async_function_awaits_and_is_refused_a_wait_that_blocks() {
    #[remote]
    async fn nested(blocks: bool) -> Result<u32> {
        let call = Runtime::current()?.call(halved_later::remote(8));
        Ok(if blocks { call.wait()? } else { call.await? })
    }
    let runtime = Runtime::new();
    assert_eq!(runtime.call(nested::remote(false)).wait().unwrap(), 4);
    let error = runtime.call(nested::remote(true)).wait().unwrap_err();
    let inner = error.downcast_ref::<CallError>().and_then(CallError::remote);
    assert!(matches!(inner, Some(RemoteError::WouldBlock)), "{error}");
}

#[test]
fn p10_a_function_finds_the_runtime_that_runs_it_and_not_one_that_it_has_made() {
    #[remote]
    fn nested() -> Result<Vec<bool>> {
        let outer = Runtime::current()?;
        let own = Runtime::new();
        let inner = own.call(seven::remote()).wait()?;
        let same = format!("{outer:?}") == format!("{:?}", Runtime::current()?);
        Ok(vec![inner == 7, same, outer.call(seven::remote()).wait()? == 7])
    }
    assert!(Runtime::current().is_err());
    let runtime = Runtime::new();
    assert_eq!(runtime.call(nested::remote()).wait().unwrap(), [true, true, true]);
}

#[test]
fn jloc_01_jloc_03_arguments_move_within_a_process() {
    let runtime = Runtime::new();
    let value = Arc::new(String::from("here"));
    let here = Arc::as_ptr(&value).addr();
    assert_eq!(runtime.call(address::remote(&value)).wait().unwrap(), here);
}

#[test]
fn jloc_04_copied_arguments_are_others() {
    let runtime = Runtime::new();
    let value = Arc::new(String::from("here"));
    let here = Arc::as_ptr(&value).addr();
    assert_ne!(
        runtime.call(address::remote(&value).copied()).wait().unwrap(),
        here
    );
}

#[test]
fn a_dropped_call_is_cancelled_at_its_awaits_and_by_its_token() {
    let runtime = Runtime::new();
    let mut call = runtime.call(until_dropped::remote(0));
    wait_for(&BEGUN[0], 1);
    let waited = call.wait_timeout(Duration::from_millis(5)).unwrap_err();
    assert!(
        matches!(waited.remote(), Some(RemoteError::Timeout(_))),
        "{waited}"
    );
    drop(call);
    wait_for(&ENDED[0], 1);
    // A function that has not begun at its deadline never begins.
    let late = |call: RemoteCall<_>, begun: &AtomicUsize, before: usize| {
        let error = runtime.call(call).wait().unwrap_err();
        assert!(
            matches!(error.remote(), Some(RemoteError::Deadline(_))),
            "{error}"
        );
        begun.load(Ordering::SeqCst) > before
    };
    let deadlines = || (0..13).map(|power| Duration::from_millis(5 << power));
    assert!(deadlines().any(|after| late(until_dropped::remote(0).deadline(after), &BEGUN[0], 1)));
    wait_for(&ENDED[0], 2);
    let late = |after| {
        let error = runtime
            .call(until_cancelled::remote().deadline(after))
            .wait()
            .unwrap_err();
        assert!(
            matches!(error.remote(), Some(RemoteError::Deadline(_))),
            "{error}"
        );
        UNCANCELLED.load(Ordering::SeqCst) > 0
    };
    assert!(deadlines().any(late));
    wait_for(&CANCELLED, 1);
}

#[test]
fn a_call_is_awaited() {
    let runtime = Runtime::new();
    let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let value = tokio.block_on(async { runtime.call(square::remote(3.0)).await });
    assert_eq!(value.unwrap(), 9.0);
    let late = tokio.block_on(async {
        runtime
            .call(until_dropped::remote(1).deadline(Duration::from_millis(5)))
            .await
    });
    assert!(matches!(
        late.unwrap_err().remote(),
        Some(RemoteError::Deadline(_))
    ));
}

#[test]
fn jcode_04_closures_send_what_they_list() {
    let runtime = Runtime::new();
    let (scale, names) = (2.0, vec![String::from("a")]);
    let scaled = remote_fn!([scale: f64, names: Vec<String>] |i: u64| -> f64 { scale * i as f64 + names.len() as f64 });
    assert_eq!(runtime.call(scaled.remote(3)).wait().unwrap(), 7.0);
    assert_eq!(runtime.call(scaled.describe((4,)).copied()).wait().unwrap(), 9.0);
    let sum = remote_fn!(|a: f64, b: f64| -> f64 { a + b });
    assert_eq!(runtime.call(sum.remote(1.0, 2.0)).wait().unwrap(), 3.0);
    let named = remote_fn!(square);
    assert_eq!(runtime.call(named.describe((3.0,))).wait().unwrap(), 9.0);
}

#[test]
fn jspawn_06_a_scope_waits_for_its_calls_and_collects_every_error() {
    let runtime = Runtime::new();
    let values = runtime.scope(|scope| [scope.call(square::remote(2.0)), scope.call(square::remote(3.0))]);
    assert_eq!(values.unwrap().map(|value| value.take()), [Some(4.0), Some(9.0)]);
    let failed = runtime.scope(|scope| {
        scope.cast(halved::remote(2));
        scope.cast(halved::remote(3));
        scope.call(panics::remote(String::from("boom")));
    });
    let failed = failed.unwrap_err();
    assert_eq!((failed.calls, failed.errors.len()), (3, 2), "{failed}");
    assert_eq!(failed.errors[0].downcast_ref::<Odd>(), Some(&Odd(3)));
    assert!(failed.errors[1].is_panic());
}

#[test]
fn jcode_07_a_process_is_prepared_once_before_its_first_function() {
    let (one, two) = (Runtime::new(), Runtime::new());
    for runtime in [&one, &one, &two] {
        assert_eq!(runtime.call(prepared::remote()).wait().unwrap(), 1);
    }
}

#[test]
fn jspawn_07_feeders_take_each_index_once() {
    let runtime = Runtime::new();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::SeqCst);
                    if index >= 100 {
                        return;
                    }
                    let doubled = runtime.call(total::remote("", [], index as u32)).wait().unwrap();
                    assert_eq!(doubled, index);
                    done.fetch_add(index, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(done.load(Ordering::SeqCst), (0..100).sum::<usize>());
}

#[test]
fn a_runtime_that_was_shut_down_refuses_calls() {
    let runtime = Runtime::new();
    let running = runtime.call(until_dropped::remote(2));
    assert!(runtime.shutdown(Duration::from_secs(5)).stuck_lanes.is_empty());
    for ended in [
        running.wait(),
        runtime.call(until_dropped::remote(2)).wait(),
        runtime.cast(seven::remote()),
    ] {
        let error = ended.unwrap_err();
        assert!(matches!(error.remote(), Some(RemoteError::Shutdown)), "{error}");
    }
}

#[test]
fn a_function_that_does_not_return_is_told_by_the_shutdown() {
    #[remote]
    fn stuck() {
        ENTERED.fetch_add(1, Ordering::SeqCst);
        drop(GATE.lock());
    }
    static ENTERED: AtomicUsize = AtomicUsize::new(0);
    static GATE: Mutex<()> = Mutex::new(());

    let runtime = Runtime::new();
    let closed = GATE.lock().unwrap();
    let call = runtime.call(stuck::remote());
    wait_for(&ENTERED, 1);
    let report = runtime.shutdown(Duration::from_millis(10));
    assert_eq!(report.stuck_lanes, ["remote functions"]);
    drop(closed);
    // The function still ends, and its value with it.
    call.wait().unwrap();
}
