//! Worker processes of a program that has the feature `premain`, or that calls `selvedge::init()`.
//!
//! The test has a `main` of its own, because libtest's `main` would not call `init`. It runs three times: as the test,
//! as the worker of the test, and as a program without the call.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::print_stdout)]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use selvedge::{Compile, Edge, Runtime, SpawnError, actor};

/// Set for the program that does not call `init`, and so for its workers too.
const ENV_LEFT_OUT: &str = "INIT_IS_LEFT_OUT";

struct Doubler;

#[actor]
impl Doubler {
    pub fn new() -> Self {
        Doubler
    }

    pub fn double(&mut self, x: i64) -> i64 {
        x * 2
    }
}

/// Doubles 21 in a worker process.
fn doubled() -> Result<i64, SpawnError> {
    let runtime = Runtime::new();
    let doubler = runtime.spawn::<Doubler>("doubler", ()).in_process()?;
    let graph = runtime.compile(|x: Edge<i64>| doubler.double(&x)).unwrap();
    Ok(graph.run(21).unwrap())
}

fn main() {
    if std::env::var_os(ENV_LEFT_OUT).is_some() {
        match doubled() {
            Ok(result) => println!("result {result}"),
            Err(error) => println!("refused: {error}"),
        }
        return;
    }
    selvedge::init();
    assert_eq!(doubled().unwrap(), 42);

    let program = std::env::current_exe().unwrap();
    let without = Command::new(program).env(ENV_LEFT_OUT, "1").output().unwrap();
    let said = String::from_utf8_lossy(&without.stdout);
    if cfg!(feature = "premain") {
        assert_eq!(said, "result 42\n");
        a_program_whose_name_is_not_utf_8_has_workers();
    } else {
        assert!(
            said.starts_with("refused: ") && said.contains("call it first in `main`"),
            "{said}"
        );
        assert!(said.contains("`selvedge::init()`"), "{said}");
    }
}

fn a_program_whose_name_is_not_utf_8_has_workers() {
    let program = std::env::current_exe().unwrap();
    let strange = Command::new(program)
        .arg0(OsStr::from_bytes(b"strange \xff"))
        .env(ENV_LEFT_OUT, "1")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&strange.stdout), "result 42\n");
}
