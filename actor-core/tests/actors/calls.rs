//! Ordinary calls at every placement, and their results when the actor fails.

use std::collections::HashSet;
use std::time::Duration;

use crate::toys::*;
use selvedge_core::{CallError, FailureKind, OnPanic, Placement, Runtime, SpawnError};

const PLACEMENTS: [Placement; 3] = [Placement::Inline, Placement::Thread, Placement::Process];

fn toy(runtime: &Runtime, placement: Placement) -> ToyHandle {
    runtime.spawn::<Toy>("toy", FINE).place(placement).unwrap()
}

#[test]
fn calls_give_the_same_results_at_every_placement() {
    let _dog = Watchdog::new("calls");
    let runtime = Runtime::new();
    for placement in PLACEMENTS {
        let toy = toy(&runtime, placement);
        assert_eq!(toy.add(2).wait().unwrap(), 2, "{placement}");
        assert_eq!(toy.add(3).wait_timeout(TIMEOUT).unwrap(), 5, "{placement}");
        assert_eq!(
            toy.0.call::<_, u64>(NAP, (1_u64,)).wait().unwrap(),
            1,
            "{placement}"
        );
        assert!(toy.0.placement().to_string().starts_with(&placement.to_string()));
    }
}

#[test]
fn an_actor_runs_where_it_was_placed() {
    let runtime = Runtime::new();
    let here = std::process::id();
    let thread_name = |toy: &ToyHandle| toy.0.call::<_, String>(THREAD, ()).wait().unwrap();
    let inline = toy(&runtime, Placement::Inline);
    assert_eq!((inline.real_pid(), inline.0.pid()), (here, None));
    let thread = toy(&runtime, Placement::Thread);
    assert_eq!((thread.real_pid(), thread.0.pid()), (here, None));
    assert_eq!(thread_name(&thread), "lane toy");
    let process = toy(&runtime, Placement::Process);
    assert_ne!(process.real_pid(), here);
    assert_eq!(process.0.pid(), Some(process.real_pid()));
    assert_eq!(thread_name(&process), "lane toy");
}

#[test]
fn calls_work_inside_a_tokio_runtime_by_await_and_by_blocking() {
    let runtime = Runtime::new();
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tokio.block_on(async {
        for placement in PLACEMENTS {
            let toy = toy(&runtime, placement);
            assert_eq!(toy.add(1).await.unwrap(), 1, "{placement}");
            assert_eq!(toy.add(1).wait().unwrap(), 2, "{placement}");
            assert_eq!(
                toy.0.call::<_, u64>(NAP, (1_u64,)).await.unwrap(),
                1,
                "{placement}"
            );
        }
        drop(runtime);
    });
}

#[test]
fn an_error_of_the_method_is_typed_and_keeps_its_text() {
    let runtime = Runtime::new();
    for placement in PLACEMENTS {
        let toy = toy(&runtime, placement);
        let error = toy
            .0
            .call::<_, ()>(FAIL, ("cake".to_owned(),))
            .wait()
            .unwrap_err();
        assert!(
            error.to_string().contains("`toy.fail` failed: no cake today"),
            "{error}"
        );
        let CallError::Failed { failure, .. } = error else {
            panic!("{placement}: {error}")
        };
        let report = failure.report();
        assert_eq!(report.kind, FailureKind::Error, "{placement}");
        assert!(
            report.type_name.ends_with("Refusal"),
            "{placement}: {}",
            report.type_name
        );
    }
}

#[test]
fn a_panic_is_typed_and_the_policy_decides_about_the_state() {
    let runtime = Runtime::new();
    for placement in PLACEMENTS {
        for (policy, sum) in [(OnPanic::Keep, -1), (OnPanic::Rebuild, 40)] {
            let spawn = runtime.spawn::<Toy>("toy", (Birth::Fine, 40)).on_panic(policy);
            let toy = spawn.place(placement).unwrap();
            let error = toy
                .0
                .call::<_, ()>(PANIC, ("on purpose".to_owned(),))
                .wait()
                .unwrap_err();
            assert!(error.is_panic(), "{placement}: {error}");
            assert!(error.to_string().contains("toy.panic"), "{error}");
            assert!(error.to_string().contains("on purpose"), "{error}");
            assert_eq!(toy.add(0).wait().unwrap(), sum, "{placement} {policy:?}");
            assert!(toy.0.is_alive());
        }
    }
}

#[test]
fn a_constructor_that_fails_or_panics_is_a_typed_error() {
    let runtime = Runtime::new();
    for placement in PLACEMENTS {
        for (birth, text) in [(Birth::Refuses, "no toy today"), (Birth::Panics, "born to panic")] {
            let error = runtime
                .spawn::<Toy>("stillborn", (birth, 0))
                .place(placement)
                .unwrap_err();
            let SpawnError::Constructor { actor, failure } = error else {
                panic!("{placement}: {error}")
            };
            assert_eq!(actor, "stillborn");
            assert!(failure.to_string().contains(text), "{placement}: {failure}");
        }
    }
    assert!(runtime.actors().is_empty());
}

#[test]
fn a_worker_that_ends_in_the_constructor_is_named() {
    let _dog = Watchdog::new("a worker that ends in the constructor");
    let runtime = Runtime::new();
    let error = runtime
        .spawn::<Toy>("stillborn", (Birth::Exits, 0))
        .in_process()
        .unwrap_err();
    assert!(error.to_string().contains("stillborn"), "{error}");
    assert!(error.to_string().contains("exit code 9"), "{error}");
}

#[test]
fn a_call_that_takes_too_long_is_a_timeout_that_names_it() {
    let runtime = Runtime::new();
    let toy = toy(&runtime, Placement::Process);
    let mut hanging = toy.0.call::<_, ()>(HANG, ());
    let error = hanging.wait_timeout(Duration::from_millis(30)).unwrap_err();
    assert!(matches!(error, CallError::Timeout { .. }), "{error}");
    assert!(error.to_string().contains("toy.hang"), "{error}");
}

#[test]
fn several_actors_share_a_lane_and_a_worker() {
    let runtime = Runtime::new();
    let lane = runtime.lane("shared");
    let worker = runtime.worker("colony").unwrap();
    let far_lane = worker.lane("far");
    let near: Vec<ToyHandle> = (0..3)
        .map(|i| {
            runtime
                .spawn::<Toy>(format!("near{i}"), FINE)
                .in_lane(&lane)
                .unwrap()
        })
        .collect();
    let mut far: Vec<ToyHandle> = (0..2)
        .map(|i| {
            runtime
                .spawn::<Toy>(format!("far{i}"), FINE)
                .in_lane(&far_lane)
                .unwrap()
        })
        .collect();
    far.push(runtime.spawn::<Toy>("far2", FINE).in_worker(&worker).unwrap());
    assert!(near.iter().all(|toy| toy.0.lane() == lane.id()));
    assert!(far.iter().all(|toy| Some(toy.real_pid()) == worker.pid()));
    assert_eq!(far[0].0.lane(), far[1].0.lane());
    assert_ne!(far[0].0.lane(), far[2].0.lane());
    for (i, toy) in near.iter().chain(&far).enumerate() {
        let i = i64::try_from(i).unwrap();
        assert_eq!(toy.add(i).wait().unwrap(), i, "each has a state of its own");
    }
}

#[test]
fn a_worker_gets_its_environment_and_none_of_ours() {
    let runtime = Runtime::new();
    let toy = runtime
        .spawn::<Toy>("toy", FINE)
        .env("COLOUR", "red")
        .in_process()
        .unwrap();
    let env = |key: &str| {
        toy.0
            .call::<_, Option<String>>(ENV, (key.to_owned(),))
            .wait()
            .unwrap()
    };
    assert_eq!(env("COLOUR").as_deref(), Some("red"));
    assert_eq!(env("SELVEDGE_WORKER_FD"), None);
    assert_eq!(env("SELVEDGE_DEPTH").as_deref(), Some("1"));
    let refused = runtime.spawn::<Toy>("toy", FINE).env("A=B", "x").in_process();
    assert!(matches!(refused, Err(SpawnError::Env { .. })));
}

#[test]
fn an_actor_that_could_run_no_async_method_is_refused_by_its_name() {
    let runtime = Runtime::new();
    let spawn = || runtime.spawn::<Toy>("toy", FINE).concurrency(0);
    for refused in [spawn().inline(), spawn().in_thread()] {
        let error = refused.map(drop).unwrap_err();
        assert!(matches!(error, SpawnError::Concurrency { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("`toy`") && text.contains("concurrency(0)"),
            "{text}"
        );
    }
}

#[test]
fn a_lane_of_another_runtime_is_refused() {
    let (one, other) = (Runtime::new(), Runtime::new());
    let refused = one.spawn::<Toy>("toy", FINE).in_lane(&other.lane("foreign"));
    let refused = refused.map(drop).unwrap_err();
    assert!(matches!(refused, SpawnError::Foreign { .. }), "{refused}");
    let text = refused.to_string();
    assert!(
        text.contains("actor `toy` cannot live on lane `foreign`: it belongs to another runtime"),
        "{text}"
    );
}

#[test]
fn a_constructor_that_takes_too_long_names_the_time_that_can_be_set() {
    let runtime = Runtime::new()
        .hello_timeout(Duration::MAX)
        .build_timeout(Duration::MAX);
    let worker = runtime.worker("w").unwrap();
    assert_eq!(
        runtime
            .spawn::<Toy>("a", FINE)
            .in_worker(&worker)
            .unwrap()
            .add(1)
            .wait()
            .unwrap(),
        1
    );
    let runtime = runtime.build_timeout(Duration::ZERO);
    let refused = runtime.spawn::<Toy>("late", (Birth::Hangs, 0)).in_worker(&worker);
    let Err(refused @ SpawnError::Timeout { .. }) = refused else {
        panic!("{refused:?}")
    };
    assert!(
        refused.to_string().contains("Runtime::build_timeout"),
        "{refused}"
    );
    worker.end(Duration::ZERO).unwrap_err();
}

#[test]
fn what_became_of_a_worker_is_told_to_whoever_spawns_there() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let pid = worker.pid().unwrap();
    kill_9(pid);
    eventually("its death is known", || worker.pid().is_none());
    let refused = runtime
        .spawn::<Toy>("a", FINE)
        .in_worker(&worker)
        .unwrap_err()
        .to_string();
    for part in [
        "worker `w` (process ",
        ") is gone",
        "signal 9 (SIGKILL)",
        &pid.to_string(),
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    let worker = runtime.worker("v").unwrap();
    let refused = runtime
        .spawn::<Toy>("a", (Birth::Exits, 0))
        .in_worker(&worker)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("worker `v`") && refused.contains("exit code 9"),
        "{refused}"
    );
}

#[test]
fn no_number_of_one_runtime_is_a_number_of_another() {
    let (one, other) = (Runtime::new(), Runtime::new());
    for placement in [Placement::Thread, Placement::Process] {
        let (mine, theirs) = (toy(&one, placement).0, toy(&other, placement).0);
        assert_ne!(mine.id(), theirs.id(), "{placement}");
        assert_ne!(mine.lane(), theirs.lane(), "{placement}");
        if placement == Placement::Process {
            assert_ne!(mine.worker(), theirs.worker());
        }
    }
    assert_ne!(one.lane("a").id(), other.lane("a").id());
}

#[test]
#[allow(
    clippy::mutable_key_type,
    reason = "the hash of a handle is that of its number, which never changes"
)]
fn handles_of_one_thing_are_equal_and_calls_and_their_errors_are_printed() {
    let _dog = Watchdog::new("handles");
    let runtime = Runtime::new();
    let (one, other) = (toy(&runtime, Placement::Thread), toy(&runtime, Placement::Thread));
    let actors = HashSet::from([one.0.clone(), one.0.clone(), other.0.clone()]);
    assert_eq!(actors.len(), 2);
    let (lane, second) = (runtime.lane("a"), runtime.lane("a"));
    let lanes = HashSet::from([lane.clone(), lane, second]);
    assert_eq!(lanes.len(), 2);
    let (worker, second) = (runtime.worker("w").unwrap(), runtime.worker("w").unwrap());
    let workers = HashSet::from([worker.clone(), worker, second]);
    assert_eq!(workers.len(), 2);
    let call = one.add(2);
    assert_eq!(format!("{call:?}"), "Call(toy.add)");
    one.0.kill();
    let error = one.add(2).wait().unwrap_err();
    assert_eq!(error.clone().to_string(), error.to_string());
}

#[test]
fn after_a_shutdown_calls_and_spawns_say_so() {
    let runtime = Runtime::new();
    for placement in PLACEMENTS {
        let toy = toy(&runtime, placement);
        let other = Runtime::new();
        let theirs = self::toy(&other, placement);
        assert!(theirs.0.is_alive());
        let pending = (placement == Placement::Process).then(|| theirs.0.call::<_, u64>(NAP, (300_u64,)));
        let report = other.shutdown(TIMEOUT);
        assert_eq!((report.stuck_lanes.len(), report.killed_workers.len()), (0, 0));
        assert!(
            matches!(theirs.add(1).wait(), Err(CallError::Shutdown { .. })),
            "{placement}"
        );
        assert!(!theirs.0.is_alive(), "{placement}");
        assert_eq!(
            theirs.0.last_death(),
            None,
            "an end that was asked for is no death"
        );
        if let Some(mut pending) = pending {
            let answered = pending.wait_timeout(TIMEOUT);
            assert!(
                matches!(answered, Ok(300) | Err(CallError::Shutdown { .. })),
                "{answered:?}"
            );
        }
        assert!(matches!(
            other.spawn::<Toy>("late", FINE).place(placement),
            Err(SpawnError::Shutdown)
        ));
        assert_eq!(toy.add(1).wait().unwrap(), 1, "another runtime does not mind");
    }
}

/// A driver of the test below; it does nothing on its own.
#[test]
fn helper_worker_that_prints() {
    if std::env::var_os("SELVEDGE_TEST_PRINTS").is_some() {
        let runtime = Runtime::new();
        let toy = toy(&runtime, Placement::Process);
        toy.say("on purpose").wait().unwrap();
        drop(toy);
        assert!(runtime.shutdown(TIMEOUT).killed_workers.is_empty());
    }
}

#[test]
fn the_output_of_a_worker_is_captured_with_its_test() {
    for (shown, flags) in [
        (false, ["--exact"].as_slice()),
        (true, &["--exact", "--nocapture"]),
    ] {
        let driver = std::process::Command::new(std::env::current_exe().unwrap())
            .arg("calls::helper_worker_that_prints")
            .args(flags)
            .env("SELVEDGE_TEST_PRINTS", "1")
            .output()
            .unwrap();
        let said = String::from_utf8(driver.stderr).unwrap();
        assert!(driver.status.success(), "{said}");
        assert_eq!(said.contains("on purpose"), shown, "{said}");
    }
}
