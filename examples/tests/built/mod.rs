//! The paths of the examples that `cargo test` builds beside the tests.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

use std::path::PathBuf;

pub(crate) fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(
        path.is_file(),
        "build {} first: cargo build -p selvedge-examples --examples",
        path.display()
    );
    path
}
