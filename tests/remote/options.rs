//! Options that would have no effect: an error says so, before anything is sent or started.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use selvedge::prelude::*;
use selvedge::{CallError, FetchError, RemoteError, SpawnError};

static RUN: AtomicUsize = AtomicUsize::new(0);

#[remote(pure, retries = 2, cpus = 1)]
fn counted() -> usize {
    RUN.fetch_add(1, Ordering::Relaxed)
}

#[derive(Debug)]
struct Told {
    option: &'static str,
    verb: &'static str,
    instead: &'static str,
}

#[track_caller]
fn told(error: &RemoteError) -> Told {
    let RemoteError::OptionWithoutEffect {
        option,
        verb,
        instead,
    } = *error
    else {
        panic!("{error}");
    };
    let text = error.to_string();
    for part in [
        format!("`.{option}(..)`"),
        format!("`{verb}`"),
        format!("`{instead}`"),
    ] {
        assert!(text.contains(&part), "{text}");
    }
    Told {
        option,
        verb,
        instead,
    }
}

#[track_caller]
fn of_call(error: CallError) -> Told {
    told(error.remote().unwrap())
}

#[track_caller]
fn of_fetch(error: FetchError) -> Told {
    let error: &CallError = error.downcast_ref().unwrap();
    told(error.remote().unwrap())
}

const LONG: Duration = Duration::from_secs(60);

fn scheduled() -> [(&'static str, RemoteCall<usize>); 4] {
    [
        ("retries", counted::remote().retries(3)),
        ("cpus", counted::remote().cpus(1)),
        ("gpus", counted::remote().gpus(1)),
        ("needs", counted::remote().needs("licence", 1)),
    ]
}

/// Each verb with a call, and what it says.
fn verbs(runtime: &Runtime, call: impl Fn() -> RemoteCall<usize>) -> Vec<(&'static str, Told)> {
    let scoped = runtime.scope(|scope| drop(scope.call(call()))).unwrap_err();
    let cast = runtime.scope(|scope| scope.cast(call())).unwrap_err();
    let everywhere = runtime.everywhere(call()).unwrap_err();
    let first = |mut errors: Vec<CallError>| of_call(errors.swap_remove(0));
    vec![
        ("Runtime::call", of_call(runtime.call(call()).wait().unwrap_err())),
        ("Runtime::cast", of_call(runtime.cast(call()).unwrap_err())),
        (
            "Runtime::keep",
            of_fetch(runtime.keep(call()).fetch().unwrap_err()),
        ),
        ("Runtime::everywhere", first(everywhere.errors)),
        ("CallScope::call", first(scoped.errors)),
        ("CallScope::cast", first(cast.errors)),
    ]
}

#[test]
fn an_option_that_a_verb_would_drop_is_an_error_and_nothing_runs() {
    let runtime = Runtime::new();
    for (place, (name, _)) in scheduled().into_iter().enumerate() {
        for (verb, told) in verbs(&runtime, || scheduled().into_iter().nth(place).unwrap().1) {
            assert_eq!((told.option, told.verb), (name, verb));
            assert_eq!(told.instead, "Runtime::submit");
        }
    }
    let late = || counted::remote().deadline(LONG);
    for told in [
        of_call(runtime.cast(late()).unwrap_err()),
        of_fetch(runtime.keep(late()).fetch().unwrap_err()),
        of_fetch(runtime.submit(late()).fetch().unwrap_err()),
    ] {
        assert_eq!((told.option, told.instead), ("deadline", "Runtime::call"));
    }
    let placed = counted::remote().on_process(runtime.process());
    let told = of_call(runtime.everywhere(placed).unwrap_err().errors.swap_remove(0));
    assert_eq!((told.option, told.verb), ("on", "Runtime::everywhere"));
    assert_eq!(RUN.load(Ordering::Relaxed), 0);
}

#[remote(pure, retries = 2, cpus = 1)]
fn declared(x: u32) -> u32 {
    x
}

#[test]
fn what_a_function_declares_is_no_option_of_a_call() {
    let runtime = Runtime::new();
    assert_eq!(
        runtime.call(declared::remote(1).deadline(LONG)).wait().unwrap(),
        1
    );
    runtime.cast(declared::remote(2)).unwrap();
    assert_eq!(*runtime.keep(declared::remote(3)).fetch().unwrap(), 3);
    assert_eq!(
        runtime.everywhere(declared::remote(4).deadline(LONG)).unwrap(),
        [4]
    );
    let five = runtime.scope(|scope| scope.call(declared::remote(5).deadline(LONG)));
    assert_eq!(five.unwrap().take(), Some(5));
    let submitted = declared::remote(6).retries(1).cpus(1).needs("licence", 0);
    assert_eq!(*runtime.submit(submitted).fetch().unwrap(), 6);
}

struct Idle;

#[actor]
impl Idle {
    pub fn new() -> Self {
        Idle
    }

    pub fn rest(&self, x: u32) -> u32 {
        x
    }
}

#[test]
fn options_for_a_worker_process_are_refused_by_an_actor_in_this_process() {
    let runtime = Runtime::new();
    let spawn = || runtime.spawn::<Idle>("idle", ());
    let restart = Restart::OnFailure { max: 1 };
    let worker = runtime.worker("w").unwrap();
    let refused = [
        ("env", spawn().env("A", "1").in_thread().map(drop)),
        ("env", spawn().env("A", "1").inline().map(drop)),
        ("env", spawn().env("A", "1").in_worker(&worker).map(drop)),
        ("env", spawn().env("A", "1").place(Placement::Thread).map(drop)),
        ("concurrency", spawn().concurrency(2).inline().map(drop)),
        ("restart", spawn().restart(restart).in_thread().map(drop)),
        ("restart", spawn().restart(restart).inline().map(drop)),
        (
            "restart",
            spawn().restart(restart).in_lane(&runtime.lane("l")).map(drop),
        ),
    ];
    for (name, refused) in refused {
        let error = refused.unwrap_err();
        assert!(
            matches!(error, SpawnError::OptionWithoutEffect { option, .. } if option == name),
            "{error}"
        );
        assert!(error.to_string().contains("process"), "{error}");
    }
    let idle = spawn().restart(Restart::Never).in_thread().unwrap();
    assert_eq!(idle.call().rest(1).wait().unwrap(), 1);
    let idle = spawn().concurrency(1).inline().unwrap();
    assert_eq!(idle.call().rest(1).wait().unwrap(), 1);
    let idle = spawn().restart(restart).env("A", "1").in_process().unwrap();
    assert_eq!(idle.call().rest(2).wait().unwrap(), 2);
}
