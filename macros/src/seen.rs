//! The actors that this run of the compiler has expanded, by name. Only the text of an error depends on them: a block
//! without a constructor is told to be a further block if there was one before it.

use std::collections::BTreeSet;
use std::sync::Mutex;

static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Notes an actor; returns `false` if one of this name was noted before.
pub(crate) fn note(name: &str) -> bool {
    match SEEN.lock() {
        Ok(mut seen) => seen.insert(name.to_owned()),
        Err(_) => true,
    }
}
