//! Parameters with `#[here]`: a function runs where a value lives, and borrows it there.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::gate::{Gate, wait_at};
use selvedge::prelude::*;
use selvedge::{CallError, FetchError, RemoteError, RemoteFunction};

/// A value that serde does not know.
struct Session {
    log: Mutex<Vec<String>>,
}

#[remote]
fn open(name: &str) -> Result<Session> {
    if name.is_empty() {
        return Err("a session has a name".into());
    }
    Ok(Session {
        log: Mutex::new(vec![name.to_owned()]),
    })
}

/// The value is in the making until the gate opens. Functions that block have other threads.
#[remote]
async fn open_later(gate: &str, name: &str) -> Result<Session> {
    wait_at(gate);
    open(name)
}

#[remote]
fn write(#[here] session: &Session, line: &str) -> usize {
    let mut log = session.log.lock().unwrap();
    log.push(line.to_owned());
    log.len()
}

#[remote]
async fn last(#[here] session: &Session) -> Option<String> {
    tokio::task::yield_now().await;
    session.log.lock().unwrap().last().cloned()
}

#[remote]
fn pid_of(#[here] session: Arc<Session>) -> u32 {
    drop(session);
    std::process::id()
}

#[remote]
fn copied(#[here] from: &Session, #[here] to: &Session) -> Result<usize, OpenAlready> {
    if std::ptr::eq(from, to) {
        return Err(OpenAlready);
    }
    let lines = from.log.lock().unwrap().clone();
    let mut log = to.log.lock().unwrap();
    log.extend(lines);
    Ok(log.len())
}

#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize, thiserror::Error)]
#[error("one session twice")]
struct OpenAlready;

#[remote]
fn text() -> String {
    "abc".to_owned()
}

#[remote]
fn length(#[here] text: &str) -> usize {
    text.len()
}

#[remote]
fn dies() {
    std::process::abort()
}

#[remote]
fn square(x: u64) -> u64 {
    x * x
}

fn remote(error: &CallError) -> &RemoteError {
    match error {
        CallError::Remote { error, .. } => error,
        other => panic!("{other}"),
    }
}

#[test]
fn a_function_borrows_a_value_where_it_lives_without_serde() {
    let runtime = Runtime::new();
    let [a, b] = ["a", "b"].map(|name| runtime.worker(name).unwrap());
    for worker in [&a, &b] {
        let session: Ref<Session> = worker.keep(open::remote("first"));
        assert_eq!(runtime.call(write::remote(&session, "x")).wait().unwrap(), 2);
        assert_eq!(
            runtime
                .call(write::remote(&session, "y").on(worker))
                .wait()
                .unwrap(),
            3
        );
        let last = runtime.call(last::remote(session.clone())).wait().unwrap();
        assert_eq!(last.as_deref(), Some("y"));
        let pid = runtime.call(pid_of::remote(session)).wait().unwrap();
        assert_eq!(Some(pid), worker.pid());
    }
    let text: Ref<String> = a.keep(text::remote());
    assert_eq!(runtime.call(length::remote(&text)).wait().unwrap(), 3);
    // A function that keeps its value, one whose end nobody awaits, and a closure.
    let kept: Ref<usize> = runtime.keep(length::remote(&text));
    assert_eq!((kept.owner(), *kept.fetch().unwrap()), (text.owner(), 3));
    let scale = 2;
    let scaled = remote_fn!([scale: usize] |#[here] text: &str| -> usize { text.len() * scale });
    assert_eq!(runtime.call(scaled.remote(&text)).wait().unwrap(), 6);
    assert_eq!(runtime.call(scaled.describe((text.clone(),))).wait().unwrap(), 6);
    runtime.scope(|scope| scope.cast(length::remote(&text))).unwrap();
}

#[test]
fn within_a_process_it_is_the_value_itself() {
    let runtime = Runtime::new();
    let session: Ref<Session> = runtime.keep(open::remote("first"));
    for (call, lines) in [
        (write::remote(&session, "x"), 2),
        (write::remote(&session, "y").copied(), 3),
    ] {
        assert_eq!(runtime.call(call).wait().unwrap(), lines);
    }
    let other: Ref<Session> = runtime.keep(open::remote("second"));
    assert_eq!(runtime.call(copied::remote(&session, &other)).wait().unwrap(), 4);
    let error = runtime.call(copied::remote(&other, &other)).wait().unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&OpenAlready));
}

#[test]
fn a_call_for_another_process_names_both_and_the_way_out() {
    let runtime = Runtime::new();
    let [a, b] = ["a", "b"].map(|name| runtime.worker(name).unwrap());
    let [at_a, at_b]: [Ref<Session>; 2] = [&a, &b].map(|worker| worker.keep(open::remote("first")));
    let names_both = |error: &CallError| {
        let text = error.to_string();
        for part in [
            format!("worker `a` ({})", at_a.owner().process),
            format!("worker `b` ({})", at_b.owner().process),
            "`Ref<Session>`".to_owned(),
            "help".to_owned(),
        ] {
            assert!(text.contains(&part), "{text}");
        }
    };
    let error = runtime.call(write::remote(&at_a, "x").on(&b)).wait().unwrap_err();
    assert!(matches!(remote(&error), RemoteError::Elsewhere { .. }), "{error}");
    names_both(&error);
    let error = runtime.call(copied::remote(&at_a, &at_b)).wait().unwrap_err();
    assert!(matches!(remote(&error), RemoteError::Apart { .. }), "{error}");
    names_both(&error);
    assert!(runtime.cast(write::remote(&at_a, "x").on(&b)).is_err());
    let kept: Ref<usize> = b.keep(write::remote(&at_a, "x"));
    assert!(kept.fetch().unwrap_err().to_string().contains("#[here]"));
    let everywhere = runtime.everywhere(write::remote(&at_a, "x")).unwrap_err();
    assert_eq!(
        (everywhere.calls, everywhere.errors.len()),
        (3, 2),
        "{everywhere}"
    );
    assert_eq!(
        runtime.call(write::remote(&at_a, "y")).wait().unwrap(),
        3,
        "it has run there alone"
    );
}

#[test]
fn a_value_that_was_not_made_fails_the_call_with_its_failure() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let failed: Ref<Session> = worker.keep(open::remote(""));
    let error = runtime.call(write::remote(&failed, "x")).wait().unwrap_err();
    assert!(matches!(remote(&error), RemoteError::Failed(_)), "{error}");
    assert!(error.to_string().contains("a session has a name"), "{error}");
    let kept: Ref<usize> = runtime.keep(write::remote(&failed, "x"));
    let error = kept.fetch().unwrap_err();
    assert!(matches!(error, FetchError::Failed { .. }), "{error}");
    assert!(error.to_string().contains("a session has a name"), "{error}");
}

#[test]
fn calls_that_wait_for_a_value_in_the_making_hold_no_thread() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let gate = Gate::closed("here");
    let session: Ref<Session> = worker.keep(open_later::remote(&gate.path, "first"));
    // More than the places of the process and the functions that may block in it.
    let waiting: Vec<_> = (0..500)
        .map(|i| runtime.call(write::remote(&session, i.to_string())))
        .collect();
    let dropped = runtime.call(write::remote(&session, "dropped"));
    let late = runtime.call(write::remote(&session, "late").deadline(Duration::from_millis(1)));
    assert!(matches!(
        remote(&late.wait().unwrap_err()),
        RemoteError::Deadline(_)
    ));
    drop(dropped);
    assert_eq!(
        runtime.call(square::remote(3).on(&worker)).wait().unwrap(),
        9,
        "a thread is free"
    );
    drop(gate);
    let mut lines: Vec<_> = waiting.into_iter().map(|call| call.wait().unwrap()).collect();
    lines.sort_unstable();
    assert!(
        lines.into_iter().eq(2..=501),
        "each has run once, and the others have not"
    );
}

#[test]
fn the_death_of_the_owner_ends_a_call_that_waits_for_its_value() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let gate = Gate::closed("never");
    let session: Ref<Session> = worker.keep(open_later::remote(&gate.path, "first"));
    let waiting = runtime.call(write::remote(&session, "x"));
    runtime.cast(dies::remote().on(&worker)).unwrap();
    let error = waiting.wait().unwrap_err();
    assert!(matches!(remote(&error), RemoteError::Died { .. }), "{error}");
    let error = runtime.call(write::remote(&session, "x")).wait().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("died") || text.contains("lost"), "{text}");
}

#[test]
fn a_shutdown_ends_calls_that_wait_for_a_value() {
    let runtime = Runtime::new();
    let gate = Gate::closed("shutdown");
    let session: Ref<Session> = runtime.keep(open_later::remote(&gate.path, "first"));
    let waiting = runtime.call(write::remote(&session, "x"));
    let opener = std::thread::spawn(|| drop(gate));
    assert!(runtime.shutdown(Duration::from_secs(60)).stuck_lanes.is_empty());
    opener.join().unwrap();
    // The value may have been made just before.
    let ended = waiting.wait();
    assert!(matches!(&ended, Ok(2) | Err(_)), "{ended:?}");
}
