//! The texts of errors: each names the process, the side, the function and the argument that it is about.

use std::panic::AssertUnwindSafe;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use selvedge::Call;
use selvedge::prelude::*;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::census::wait_until;

#[remote]
fn refuses(x: u64) -> Result<u64> {
    Err(format!("no {x}").into())
}

#[remote]
fn exits() {
    process::exit(3)
}

/// The text of the error of a fetch.
fn failed<T: Wire + std::fmt::Debug>(value: &Ref<T>) -> String {
    value.fetch().unwrap_err().to_string()
}

#[test]
fn a_submitted_call_names_its_process_as_a_direct_call_does() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let name = format!("refuses` on worker `w` ({})", worker.process());
    let direct = runtime.call(refuses::remote(7)).wait().unwrap_err().to_string();
    assert!(direct.contains(&name), "{direct}");
    for submitted in [
        runtime.submit(refuses::remote(7)),
        runtime.submit(refuses::remote(7).on(&worker)),
        worker.keep(refuses::remote(7)),
    ] {
        let text = failed(&submitted);
        assert!(text.contains(&name) && text.contains("no 7"), "{text}");
        assert!(
            text.starts_with("the value of `Ref<u64>` was not made: "),
            "{text}"
        );
        assert!(
            !text.contains("incarnation") && !text.contains("on process 1 "),
            "{text}"
        );
    }
}

#[test]
fn a_submitted_call_whose_worker_dies_names_the_worker_and_one_that_no_worker_could_run_names_none() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let text = failed(&runtime.submit(refuses::remote(7).cpus(4000)));
    assert!(text.contains("refuses` failed: not run: "), "{text}");
    let name = format!("exits` on worker `w` ({}) failed: ", worker.process());
    let text = failed(&runtime.submit(exits::remote()));
    assert!(text.contains(&name) && text.contains("died"), "{text}");
    assert!(!text.contains("on process 1 "), "{text}");
}

#[remote]
fn kept(x: u64) -> u64 {
    x
}

#[test]
fn an_argument_that_is_lost_tells_how_its_owner_has_died() {
    let runtime = Runtime::new();
    let [owner, other] = ["owner", "other"].map(|name| runtime.worker(name).unwrap());
    let lost = owner.keep(kept::remote(7));
    lost.ready_timeout(Duration::from_secs(60)).unwrap();
    runtime.call(exits::remote().on(&owner)).wait().unwrap_err();
    let text = failed(&lost);
    assert!(
        text.contains("worker `owner`") && text.contains("exit code 3"),
        "{text}"
    );
    let call = runtime.call(kept::remote(&lost).on(&other));
    let text = call.wait().unwrap_err().to_string();
    assert!(
        text.contains("worker `owner`") && text.contains("exit code 3"),
        "{text}"
    );
}

/// A value that serde does not encode, or whose encoding panics.
#[derive(Clone, Debug, Deserialize)]
struct Stubborn {
    panics: bool,
}

impl Serialize for Stubborn {
    fn serialize<S: Serializer>(&self, _: S) -> std::result::Result<S::Ok, S::Error> {
        assert!(!self.panics, "a stubborn panic");
        Err(serde::ser::Error::custom("it is stubborn"))
    }
}

#[remote]
fn takes(first: u64, stubborn: Stubborn) -> u64 {
    first + u64::from(stubborn.panics)
}

#[test]
fn an_argument_that_is_not_encoded_is_named_with_its_type_and_the_side() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    for (panics, why) in [(false, "it is stubborn"), (true, "panicked: a stubborn panic")] {
        let call = || takes::remote(1, Stubborn { panics });
        let texts = [
            runtime.call(call()).wait().unwrap_err().to_string(),
            runtime.cast(call()).unwrap_err().to_string(),
            failed(&runtime.submit(call())),
            failed(&worker.keep(call())),
        ];
        for text in texts {
            assert!(text.contains("takes`") && text.contains(why), "{text}");
            assert!(
                text.contains("argument 2, of type `Stubborn`, cannot be encoded by the caller: "),
                "{text}"
            );
            assert!(!text.contains("Argument<"), "{text}");
        }
    }
}

/// Whether this process decodes `Unreadable`: a worker has a static of its own.
static READS: AtomicBool = AtomicBool::new(false);

/// A value that a worker does not decode.
#[derive(Clone, Debug, Serialize)]
struct Unreadable;

impl<'de> Deserialize<'de> for Unreadable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        <()>::deserialize(deserializer)?;
        match READS.load(Ordering::Relaxed) {
            true => Ok(Unreadable),
            false => Err(serde::de::Error::custom("nobody reads it")),
        }
    }
}

#[remote]
fn reads(first: u64, unreadable: Unreadable) -> u64 {
    let Unreadable = unreadable;
    first
}

#[test]
fn an_argument_that_is_not_decoded_is_told_with_the_side() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let call = || runtime.call(reads::remote(1, Unreadable).on(&worker)).wait();
    // The caller reads back what it encodes.
    let text = call().unwrap_err().to_string();
    assert!(
        text.contains("argument 2, of type `Unreadable`, cannot be encoded by the caller: "),
        "{text}"
    );
    READS.store(true, Ordering::Relaxed);
    let text = call().unwrap_err().to_string();
    assert!(
        text.contains("reads` on worker `w`") && text.contains("nobody reads it"),
        "{text}"
    );
    assert!(
        text.contains("the process of the function cannot decode them: "),
        "{text}"
    );
}

/// Whether this process decodes `Unwelcome`: a worker reads back what it encodes.
static IS_WELCOME: AtomicBool = AtomicBool::new(false);

/// A value that the caller does not decode.
#[derive(Clone, Debug, Serialize)]
struct Unwelcome(bool);

impl<'de> Deserialize<'de> for Unwelcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        match bool::deserialize(deserializer)? {
            panics if IS_WELCOME.load(Ordering::Relaxed) => Ok(Unwelcome(panics)),
            true => panic!("nobody wants it"),
            false => Err(serde::de::Error::custom("nobody reads it")),
        }
    }
}

#[remote]
fn unwelcome(panics: bool) -> Unwelcome {
    IS_WELCOME.store(true, Ordering::Relaxed);
    Unwelcome(panics)
}

#[test]
fn a_result_that_is_not_decoded_is_told_with_the_side() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    for (panics, why) in [(true, "nobody wants it"), (false, "nobody reads it")] {
        let call = runtime.call(unwelcome::remote(panics).on(&worker));
        let text = call.wait().unwrap_err().to_string();
        assert!(
            text.contains("the calling process cannot decode its result: ") && text.contains(why),
            "{text}"
        );
    }
}

/// A value whose drop panics.
#[derive(Clone, Serialize, Deserialize)]
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a bomb")
    }
}

#[remote]
fn bomb() -> Bomb {
    Bomb
}

#[test]
fn a_panic_in_the_drop_of_a_value_does_not_leave_the_drop_of_its_call() {
    let runtime = Runtime::new();
    let mut calls = vec![runtime.call(bomb::remote())];
    assert_eq!(
        Call::wait_any(&mut calls, Duration::from_secs(20)).unwrap(),
        Some(0)
    );
    assert!(std::panic::catch_unwind(AssertUnwindSafe(|| drop(calls))).is_ok());
}

/// A large value whose drop panics in the process that has made it.
#[derive(Clone, Serialize, Deserialize)]
struct LargeBomb {
    made_in: u32,
    bytes: Vec<u8>,
}

impl Drop for LargeBomb {
    fn drop(&mut self) {
        // Two panics at once would be the end.
        let is_made_here = self.made_in == process::id();
        assert!(
            !is_made_here || std::thread::panicking(),
            "a test's panic in a drop"
        );
    }
}

#[remote]
fn length_of(bomb: &LargeBomb) -> usize {
    bomb.bytes.len()
}

#[test]
fn a_panic_in_the_drop_of_what_is_passed_does_not_leave_the_verb_that_passes_it() {
    let runtime = Runtime::new();
    let worker = runtime.worker("w").unwrap();
    let bomb = || LargeBomb {
        made_in: process::id(),
        bytes: vec![0; 300_000],
    };
    let put = runtime.put(bomb()).unwrap();
    assert_eq!(runtime.objects().objects.len(), 1);
    drop(put);
    wait_until(&0, || runtime.objects().objects.len());
    assert_eq!(
        runtime
            .call(length_of::remote(bomb()).on(&worker))
            .wait()
            .unwrap(),
        300_000
    );
    assert_eq!(
        *runtime.submit(length_of::remote(bomb())).fetch().unwrap(),
        300_000
    );
    wait_until(&0, || runtime.objects().objects.len());
}

#[test]
fn an_argument_of_a_method_that_is_not_encoded_is_not_a_panic_of_the_method() {
    let runtime = Runtime::new();
    let adder = runtime.spawn::<Adder>("adder", ()).in_process().unwrap();
    let error = adder
        .call()
        .stubborn(Stubborn { panics: true })
        .wait()
        .unwrap_err();
    let text = error.to_string();
    assert!(text.contains("`adder.stubborn`") && !error.is_panic(), "{text}");
    assert!(
        text.contains("the caller cannot encode its arguments, of type `(Stubborn,)`: "),
        "{text}"
    );
    assert!(text.contains("a stubborn panic"), "{text}");
}

struct Adder;

#[actor]
impl Adder {
    pub fn new() -> Self {
        Adder
    }

    pub fn stubborn(&mut self, stubborn: Stubborn) -> bool {
        stubborn.panics
    }

    pub fn add(&mut self, x: u64) -> u64 {
        x + 1
    }
}

#[test]
fn a_worker_of_another_runtime_is_refused_by_its_name() {
    let (one, two) = (Runtime::new(), Runtime::new());
    let (_own, foreign) = (one.worker("own").unwrap(), two.worker("foreign").unwrap());
    let name = format!(
        "worker `foreign` ({}) belongs to another runtime",
        foreign.process()
    );
    let texts = [
        one.call(refuses::remote(1).on(&foreign))
            .wait()
            .unwrap_err()
            .to_string(),
        one.cast(refuses::remote(1).on(&foreign)).unwrap_err().to_string(),
        failed(&one.submit(refuses::remote(1).on(&foreign))),
        failed(&one.keep(refuses::remote(1).on(&foreign))),
        one.spawn::<Adder>("a", ())
            .in_worker(&foreign)
            .unwrap_err()
            .to_string(),
    ];
    for text in texts {
        assert!(text.contains(&name) && text.contains("help"), "{text}");
    }
}
