//! Programs whose descriptors no other process may open: those with file capabilities, and those that ask for it.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::actors::counter;
use selvedge::prelude::*;

const HELPER: &str = "SELVEDGE_TEST_UNDUMPABLE";
/// The number of a user without privileges.
const NOBODY: u32 = 65534;

#[test]
#[allow(unsafe_code)]
fn a_program_that_keeps_its_descriptors_to_itself_is_told_what_is_missing() {
    if std::env::var_os(HELPER).is_none() {
        return in_a_process_without_rights();
    }
    // SAFETY: sets an attribute of this process.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) }, 0);
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Process);
    let refused = runtime.compile(|x: Edge<i64>| a.echo(&x)).map(drop);
    let text = refused.expect_err("it cannot share memory").to_string();
    assert!(text.contains("capabilities or is undumpable"), "{text}");
    assert!(!text.contains("same build"), "{text}");
    let a = counter(&runtime, "a", Placement::Thread);
    assert_eq!(
        runtime
            .compile(|x: Edge<i64>| a.echo(&x))
            .unwrap()
            .run(1)
            .unwrap(),
        1
    );
}

fn in_a_process_without_rights() {
    let name = "undumpable::a_program_that_keeps_its_descriptors_to_itself_is_told_what_is_missing";
    let mut helper = Command::new("/proc/self/exe");
    helper
        .args(["--exact", name, "--nocapture"])
        .env(HELPER, "1")
        .current_dir("/");
    if rustix::process::geteuid().is_root() {
        helper.uid(NOBODY).gid(NOBODY);
    }
    let output = helper.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{said}");
}
