//! Runs a test again, in a process that finds the simulator in place of the driver and NCCL.
#![allow(dead_code, unsafe_code, clippy::unwrap_used)]
#![allow(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)] // as a C program would

pub(crate) mod calls;
pub(crate) mod nccl;
pub(crate) mod peer;

use std::env;
use std::ffi::c_int;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc;
use std::time::Duration;

const INSIDE: &str = "SELVEDGE_SIM_INSIDE";

/// Creates a folder in which the simulator has the file names of the libraries that it replaces.
fn folder(test: &str) -> PathBuf {
    let binary = env::current_exe().unwrap();
    let beside = binary.parent().unwrap();
    let candidates = [beside.to_owned(), beside.parent().unwrap().to_owned()];
    let library = candidates
        .iter()
        .map(|folder| folder.join("libselvedge_simulator.so"))
        .find(|path| path.exists())
        .unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for name in ["libcuda.so", "libcuda.so.1", "libnccl.so", "libnccl.so.2"] {
        symlink(&library, folder.join(name)).unwrap();
    }
    folder
}

/// A test as a process of its own.
pub(crate) struct Run {
    test: &'static str,
    settings: Vec<(&'static str, String)>,
}

/// The outcome of such a process.
pub(crate) struct Ran {
    pub(crate) report: String,
    pub(crate) timeline: String,
}

impl Run {
    pub(crate) fn new(test: &'static str) -> Self {
        Run {
            test,
            settings: Vec::new(),
        }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.settings.push((name, value.to_string()));
        self
    }

    /// Runs the test in a process with the simulator and returns its reports; `None` if this is that process.
    pub(crate) fn outside(self) -> Option<Ran> {
        if env::var_os(INSIDE).is_some() {
            watchdog();
            return None;
        }
        let folder = folder(self.test);
        let (report, timeline) = (folder.join("report"), folder.join("timeline"));
        let done = Command::new(env::current_exe().unwrap())
            .args(["--exact", self.test, "--nocapture", "--test-threads=1"])
            .env(INSIDE, self.test)
            .env("LD_LIBRARY_PATH", &folder)
            .env("SELVEDGE_SIM_REPORT", &report)
            .env("SELVEDGE_SIM_TIMELINE", &timeline)
            .envs(self.settings)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let ran = Ran {
            report: read(report),
            timeline: read(timeline),
        };
        fs::remove_dir_all(folder).unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        let out = String::from_utf8_lossy(&done.stdout);
        assert!(
            done.status.success() && out.contains("1 passed"),
            "{out}{said}{}",
            ran.report
        );
        Some(ran)
    }
}

/// Aborts a process that hangs, after a time that no test needs.
fn watchdog() {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(60));
        eprintln!("the test hangs");
        std::process::abort();
    });
}

/// The functions of the simulator for tests.
pub(crate) struct Simulator(libloading::Library);

pub(crate) static SIMULATOR: LazyLock<Simulator> = LazyLock::new(|| {
    // SAFETY: the simulator's initialisers do nothing.
    Simulator(unsafe { libloading::Library::new("libcuda.so.1") }.unwrap())
});

impl Simulator {
    fn function<F: Copy>(&self, name: &str) -> F {
        // SAFETY: the callers below use the types that the simulator declares.
        *unsafe { self.0.get::<F>(name.as_bytes()) }.unwrap()
    }

    pub(crate) fn violations(&self) -> u64 {
        self.function::<extern "C" fn() -> u64>("selvedge_sim_violations")()
    }

    pub(crate) fn stuck(&self) -> bool {
        self.function::<extern "C" fn() -> c_int>("selvedge_sim_stuck")() == 1
    }

    pub(crate) fn settle(&self) -> c_int {
        self.function::<extern "C" fn() -> c_int>("selvedge_sim_settle")()
    }

    pub(crate) fn release(&self, upto: u64) {
        self.function::<extern "C" fn(u64)>("selvedge_sim_release")(upto);
    }
}

/// Returns the number of threads of this process.
pub(crate) fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// Returns the number of open descriptors of this process.
pub(crate) fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Waits until a count is as low as before: the kernel takes a moment to remove a joined thread.
pub(crate) fn returns_to(count: impl Fn() -> usize, before: usize) {
    let (_keep, never) = mpsc::channel::<()>();
    for _ in 0..1000 {
        if count() <= before {
            return;
        }
        let _ = never.recv_timeout(Duration::from_millis(1));
    }
    assert!(count() <= before, "{} and {before}", count());
}
