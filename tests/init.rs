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
    #[cfg(all(feature = "hosts", not(feature = "premain")))]
    own_transport::refused_if_asked();
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
        #[cfg(all(feature = "hosts", not(feature = "premain")))]
        own_transport::a_worker_over_tcp_is_none_of_another_transport();
    }
}

/// With the feature `premain`, a worker over TCP never gets to `main`.
#[cfg(all(feature = "hosts", not(feature = "premain")))]
mod own_transport {
    use std::process::Command;

    use selvedge::hosts::{Cookie, InitWorkerError, Uds, init_worker};

    const ENV_ASKED: &str = "INIT_WORKER_IS_CALLED";

    /// Calls `init_worker`, says the error, and ends, if this program was started for that.
    pub(super) fn refused_if_asked() {
        if std::env::var_os(ENV_ASKED).is_none() {
            return;
        }
        let error = init_worker(Cookie::new([1; 32]), Uds::new().unwrap()).unwrap_err();
        assert_eq!(error, InitWorkerError::HasFlag);
        println!("refused: {error}");
        std::process::exit(0);
    }

    pub(super) fn a_worker_over_tcp_is_none_of_another_transport() {
        let mut program = Command::new(std::env::current_exe().unwrap());
        let output = program
            .arg("--selvedge-worker")
            .env(ENV_ASKED, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("leave out one of the two"), "{said}");
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
