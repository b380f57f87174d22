//! The driver that a test finds: a real one, or the simulated one if the library path leads to it:
//!
//! `LD_LIBRARY_PATH=$(scripts/simulated-driver) cargo test -p selvedge-channels --features cuda`
//!
//! A test that finds no driver reports that and passes; with `REQUIRE_GPU=1` it fails.
#![allow(dead_code, unsafe_code)] // each test binary uses only a part; the simulator is called by name

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::fs;
use std::process::{Command, Output};
use std::ptr::null_mut;
use std::time::Duration;

use selvedge_channels::device::{Gpu, Library, Stream, reclaim};
use selvedge_channels::{DType, Tensor};

/// A time limit beyond that of any operation that works.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// The environment variable of a process that runs one test by itself.
pub(crate) const ALONE: &str = "SELVEDGE_DEVICE_ALONE";

/// The first device. Returns `None` without one, and panics if one is required.
pub(crate) fn gpu() -> Option<Gpu> {
    match Gpu::open(0) {
        Ok(gpu) => Some(gpu),
        Err(error) if std::env::var("REQUIRE_GPU").is_ok_and(|required| required == "1") => {
            panic!("REQUIRE_GPU=1, and {error}");
        }
        Err(error) => {
            eprintln!("not tested, for want of a device: {error}");
            None
        }
    }
}

/// The library of the simulated driver, with functions that only it has.
pub(crate) struct Simulator(Library);

/// Opens the simulated driver. Returns `None` for a real driver, and without a driver.
pub(crate) fn simulator() -> Option<Simulator> {
    let library = Library::open("the driver", "SELVEDGE_CUDA_LIB", &["libcuda.so.1", "libcuda.so"]).ok()?;
    library.has(&["selvedge_sim_violations"]).ok()?;
    Some(Simulator(library))
}

impl Simulator {
    fn function<F: Copy>(&self, name: &'static str) -> F {
        // SAFETY: the callers below name the types that the simulator declares.
        unsafe { self.0.function::<F>(name) }.unwrap()
    }

    /// The number of accesses without an order between them.
    pub(crate) fn violations(&self) -> u64 {
        self.function::<extern "C" fn() -> u64>("selvedge_sim_violations")()
    }

    /// The number of events that have not been destroyed.
    pub(crate) fn events(&self) -> u64 {
        self.function::<extern "C" fn() -> u64>("selvedge_sim_events")()
    }

    /// Ends all calls of [`spin`](Self::spin) up to this number.
    pub(crate) fn release(&self, upto: u64) {
        self.function::<extern "C" fn(u64)>("selvedge_sim_release")(upto);
    }

    /// Waits until no operation can advance any more. Returns true if all operations are done.
    pub(crate) fn settle(&self) -> bool {
        self.function::<extern "C" fn() -> c_int>("selvedge_sim_settle")() == 1
    }

    /// Keeps a stream busy until the release of this number.
    pub(crate) fn spin(&self, stream: &Stream, number: u64) {
        type Launch = unsafe extern "C" fn(
            *mut c_void,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            c_uint,
            *mut c_void,
            *mut *mut c_void,
            *mut *mut c_void,
        ) -> c_int;
        type Load = unsafe extern "C" fn(*mut *mut c_void, *const c_void) -> c_int;
        type Get = unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const i8) -> c_int;
        let load: Load = self.function("cuModuleLoadData");
        let get: Get = self.function("cuModuleGetFunction");
        let launch: Launch = self.function("cuLaunchKernel");
        stream.gpu().bind().unwrap();
        let (mut module, mut kernel) = (null_mut(), null_mut());
        let name: &CStr = c"selvedge_spin";
        // SAFETY: the types are those of `cuda.h`; the simulator does not read the image.
        let code = unsafe { load(&raw mut module, c".version 8.0".as_ptr().cast()) };
        assert_eq!(code, 0);
        // SAFETY: as above.
        let code = unsafe { get(&raw mut kernel, module, name.as_ptr()) };
        assert_eq!(code, 0);
        let mut until = number;
        let mut arguments = [(&raw mut until).cast::<c_void>()];
        let to = arguments.as_mut_ptr();
        // SAFETY: as above, with one argument.
        let code = unsafe { launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream.as_raw(), to, null_mut()) };
        assert_eq!(code, 0);
    }
}

/// Asserts that the simulator has found no violation.
pub(crate) fn no_violations() {
    if let Some(simulator) = simulator() {
        assert_eq!(simulator.violations(), 0, "see SELVEDGE_SIM_REPORT");
    }
}

/// Whether this process runs one test by itself.
pub(crate) fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

/// Runs a test in a process of its own, with these settings.
pub(crate) fn alone(test: &str, settings: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            test,
            "--nocapture",
            "--test-threads=1",
            "--include-ignored",
        ])
        .env(ALONE, "1")
        .envs(settings.iter().copied());
    command.output().unwrap()
}

/// Runs a test like [`alone`], and asserts that it passes.
pub(crate) fn passes_alone(test: &str, settings: &[(&str, &str)]) {
    let output = alone(test, settings);
    let (out, said) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    let passed = output.status.success() && out.contains("1 passed");
    assert!(
        passed,
        "{test} with {settings:?}: {}\n{out}\n{said}",
        output.status
    );
}

/// A tensor that differs from the tensors of every other message.
pub(crate) fn tensor(message: u64, index: u64, len: usize) -> Tensor {
    let values: Vec<u32> = (0..len as u64)
        .map(|at| (message.wrapping_mul(0x9E37_79B9) ^ (index << 24) ^ at) as u32)
        .collect();
    Tensor::from_slice(&values, &[len]).unwrap()
}

/// The length of a message's tensor: varying, and within 4 KiB.
pub(crate) fn len(message: u64, index: u64) -> usize {
    (message * 37 + index * 11) as usize % 1000
}

pub(crate) const DTYPE: DType = DType::U32;

/// Descriptors, threads, mappings and events of this process.
#[derive(Clone, Debug)]
pub(crate) struct Census {
    pub(crate) descriptors: usize,
    /// The names of the threads. A driver that is not the simulated one makes threads of its own, at any time, under any name,
    /// so beside it only those of selvedge are listed.
    pub(crate) threads: Vec<String>,
    pub(crate) mappings: usize,
    /// Zero if the driver is not the simulated one.
    pub(crate) events: u64,
}

impl Census {
    fn is_within(&self, other: &Census) -> bool {
        self.descriptors <= other.descriptors
            && self.threads.len() <= other.threads.len()
            && self.mappings <= other.mappings
            && self.events <= other.events
    }
}

pub(crate) fn census() -> Census {
    let count = |path: &str| fs::read_dir(path).unwrap().count();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let ours = |line: &&str| line.contains("memfd:") || line.contains("/dev/shm/");
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    let mut threads: Vec<_> = fs::read_dir("/proc/self/task")
        .unwrap()
        .flatten()
        .map(name)
        .collect();
    if simulator().is_none() {
        threads.retain(|name| name.starts_with("selvedge"));
    }
    threads.sort_unstable();
    Census {
        descriptors: count("/proc/self/fd"),
        threads,
        mappings: maps.lines().filter(ours).count(),
        events: simulator().map_or(0, |simulator| simulator.events()),
    }
}

/// Checks that all counts return to `before` once devices are done. The system takes a moment to remove an ended
/// thread, too.
pub(crate) fn census_returns_to(before: &Census) {
    for _ in 0..5000 {
        reclaim();
        if census().is_within(before) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let now = census();
    assert!(now.is_within(before), "{now:?} is more than {before:?}");
}
