//! The texts of errors: each names the process, the side, the function and the argument that it is about.

use std::process;

use selvedge::prelude::*;

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
