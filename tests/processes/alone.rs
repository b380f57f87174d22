//! A test in a process of its own, so that what it counts, limits or forks is a process that runs nothing else.

use std::any::type_name;
use std::process::Command;

use selvedge::prelude::*;

/// Set in the process that runs one test alone.
const ENV_ALONE: &str = "SELVEDGE_TEST_ALONE";

/// Runs `body` in a process of its own: this program, told to run one test. `body` is a closure that stands in the
/// function of that test, because the name of its type tells the name of the test.
pub fn alone<T: FnOnce() -> Result<()>>(body: T) -> Result<()> {
    if std::env::var_os(ENV_ALONE).is_some() {
        // In a build with tokio's signals, the first runtime makes two descriptors that stay as long as the process.
        drop(
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?,
        );
        return body();
    }
    let (_, path) = type_name::<T>().split_once("::").expect("a path in this crate");
    let name = path.trim_end_matches("::{{closure}}");
    let process = Command::new(std::env::current_exe()?)
        .args(["--exact", name, "--nocapture"])
        .env(ENV_ALONE, "1")
        .output()?;
    let said = String::from_utf8_lossy(&process.stdout);
    print!("{said}");
    eprint!("{}", String::from_utf8_lossy(&process.stderr));
    assert!(process.status.success(), "{name}: {}", process.status);
    assert!(said.contains(" 1 passed"), "`{name}` is no test");
    Ok(())
}
