//! A store that a program writes itself: any value whose functions take it where it lives.

use std::collections::BTreeMap;
use std::sync::Mutex;

use selvedge::prelude::*;
use tokio::sync::Notify;

/// A dictionary in one process. A take waits for its key.
struct Dictionary {
    entries: Mutex<BTreeMap<String, u64>>,
    changed: Notify,
}

/// Runs in the process that is to have the store.
#[remote]
fn dictionary() -> Dictionary {
    Dictionary {
        entries: Mutex::default(),
        changed: Notify::new(),
    }
}

#[remote]
fn put(#[here] dictionary: &Dictionary, key: &str, value: u64) -> Option<u64> {
    let before = dictionary.entries.lock().unwrap().insert(key.to_owned(), value);
    dictionary.changed.notify_waiters();
    before
}

#[remote]
async fn take(#[here] dictionary: &Dictionary, key: &str) -> u64 {
    loop {
        // Registered before the look, so that no change is missed.
        let mut changed = std::pin::pin!(dictionary.changed.notified());
        changed.as_mut().enable();
        if let Some(value) = dictionary.entries.lock().unwrap().remove(key) {
            return value;
        }
        changed.await;
    }
}

#[remote]
fn keys(#[here] dictionary: &Dictionary) -> Vec<String> {
    dictionary.entries.lock().unwrap().keys().cloned().collect()
}

/// Puts from another process than the store's.
#[remote]
fn put_from_here(dictionary: Ref<Dictionary>, key: &str, value: u64) -> Result<()> {
    Runtime::current()?
        .call(put::remote(&dictionary, key, value))
        .wait()?;
    Ok(())
}

#[test]
fn jchan_03_jchan_06_a_dictionary_is_a_store_that_every_process_uses() {
    let runtime = Runtime::new();
    let [home, other] = ["home", "other"].map(|name| runtime.worker(name).unwrap());
    let store: Ref<Dictionary> = home.keep(dictionary::remote());
    let waits: Vec<_> = (0..100)
        .map(|at| runtime.call(take::remote(&store, format!("key {at}"))))
        .collect();
    for at in (0..100).rev() {
        runtime
            .call(put_from_here::remote(&store, format!("key {at}"), at).on(&other))
            .wait()
            .unwrap();
    }
    for (at, wait) in waits.into_iter().enumerate() {
        assert_eq!(wait.wait().unwrap(), at as u64, "by its key, not by its turn");
    }
    assert_eq!(
        runtime.call(put::remote(&store, "left", 1_u64)).wait().unwrap(),
        None
    );
    assert_eq!(
        runtime.call(put::remote(&store, "left", 2_u64)).wait().unwrap(),
        Some(1)
    );
    assert_eq!(runtime.call(keys::remote(&store)).wait().unwrap(), ["left"]);
    assert_eq!(store.id().owner.process.number(), home_of(&runtime, &store));
}

/// The number of the process in which the functions of the store run.
fn home_of(runtime: &Runtime, store: &Ref<Dictionary>) -> u32 {
    runtime.call(here::remote(store)).wait().unwrap()
}

#[remote]
fn here(#[here] _dictionary: &Dictionary) -> Result<u32> {
    let made: Ref<u64> = Runtime::current()?.keep(one::remote());
    Ok(made.id().creator.process.number())
}

#[remote]
fn one() -> u64 {
    1
}
