//! The driver that a test finds: a real one, or the simulated one if the library path leads to it:
//!
//! `LD_LIBRARY_PATH=$(scripts/simulated-driver) cargo test -p selvedge-channels --features cuda`
//!
//! A test that finds no driver reports that and passes; with `REQUIRE_GPU=1` it fails.
#![allow(dead_code, unsafe_code, clippy::multiple_unsafe_ops_per_block)] // each test binary uses only a part; the driver is called by name

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
    let library = driver()?;
    library.has(&["selvedge_sim_violations"]).ok()?;
    Some(Simulator(library))
}

fn driver() -> Option<Library> {
    Library::open("the driver", "SELVEDGE_CUDA_LIB", &["libcuda.so.1", "libcuda.so"]).ok()
}

/// The free memory of a device after what was dropped is freed; zero for a real driver, which keeps some of it.
pub(crate) fn free_bytes(gpu: &Gpu) -> usize {
    reclaim();
    simulator().map_or(0, |_| gpu.memory_bytes().unwrap().0)
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

    /// Waits until no operation can advance any more. Returns true if all operations are done.
    pub(crate) fn settle(&self) -> bool {
        self.function::<extern "C" fn() -> c_int>("selvedge_sim_settle")() == 1
    }
}

/// A kernel that keeps streams busy: one of the simulator, or on a real device the one below.
pub(crate) struct SpinKernel {
    library: Library,
    gpu: Gpu,
    kernel: *mut c_void,
    /// The number up to which the kernels of a real device are released, in memory of the host that the device reads.
    released: *mut u64,
}

/// Spins until the number at `released` is `number` or more, and for a minute at most.
const SPIN: &CStr = c"
.version 7.0
.target sm_70
.address_size 64
.visible .entry selvedge_spin(.param .u64 number, .param .u64 released)
{
    .reg .u64 %number, %at, %found, %begun, %now;
    .reg .pred %goes_on, %in_time;
    ld.param.u64 %number, [number];
    ld.param.u64 %at, [released];
    mov.u64 %begun, %globaltimer;
again:
    ld.volatile.global.u64 %found, [%at];
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %begun;
    setp.lt.u64 %goes_on, %found, %number;
    setp.lt.u64 %in_time, %now, 60000000000;
    and.pred %goes_on, %goes_on, %in_time;
    @%goes_on bra again;
    ret;
}
";

impl SpinKernel {
    pub(crate) fn load(gpu: &Gpu) -> Self {
        type Load = unsafe extern "C" fn(*mut *mut c_void, *const c_void) -> c_int;
        type Get = unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const i8) -> c_int;
        type Allocate = unsafe extern "C" fn(*mut *mut c_void, usize, c_uint) -> c_int;
        let library = driver().unwrap();
        let (mut module, mut kernel, mut released) = (null_mut(), null_mut(), null_mut());
        gpu.bind().unwrap();
        // SAFETY: the types are those of `cuda.h`, and the image is PTX with an end.
        let code = unsafe {
            let load = library.function::<Load>("cuModuleLoadData").unwrap();
            load(&raw mut module, SPIN.as_ptr().cast())
        };
        assert_eq!(code, 0);
        // SAFETY: as above; the module has the kernel.
        let code = unsafe {
            let get = library.function::<Get>("cuModuleGetFunction").unwrap();
            get(&raw mut kernel, module, c"selvedge_spin".as_ptr())
        };
        assert_eq!(code, 0);
        if simulator().is_none() {
            const PORTABLE_AND_MAPPED: c_uint = 3;
            // SAFETY: as above.
            let code = unsafe {
                let allocate = library.function::<Allocate>("cuMemHostAlloc").unwrap();
                allocate(&raw mut released, size_of::<u64>(), PORTABLE_AND_MAPPED)
            };
            assert_eq!(code, 0);
            // SAFETY: the memory is fresh, and no kernel reads it yet.
            unsafe { released.cast::<u64>().write(0) };
        }
        SpinKernel {
            library,
            gpu: gpu.clone(),
            kernel,
            released: released.cast(),
        }
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
        self.gpu.bind().unwrap();
        let (mut number, mut released) = (number, self.released);
        // The simulator's has one parameter.
        let mut arguments = [(&raw mut number).cast::<c_void>(), (&raw mut released).cast()];
        // SAFETY: the type is that of `cuda.h`, and the arguments are those of the kernel.
        let code = unsafe {
            let launch = self.library.function::<Launch>("cuLaunchKernel").unwrap();
            let to = arguments.as_mut_ptr();
            launch(self.kernel, 1, 1, 1, 1, 1, 1, 0, stream.as_raw(), to, null_mut())
        };
        assert_eq!(code, 0);
    }

    /// Ends all calls of [`spin`](Self::spin) up to this number.
    pub(crate) fn release(&self, upto: u64) {
        match simulator() {
            Some(simulator) => simulator.function::<extern "C" fn(u64)>("selvedge_sim_release")(upto),
            // SAFETY: the memory is never freed. The kernels read it meanwhile, as a volatile value.
            None => unsafe { self.released.write_volatile(upto) },
        }
    }

    /// Waits until no operation can advance any more. Returns true if all operations are done.
    pub(crate) fn settle(&self) -> bool {
        if let Some(simulator) = simulator() {
            return simulator.settle();
        }
        self.gpu.bind().unwrap();
        // SAFETY: the type is that of `cuda.h`.
        unsafe {
            let synchronize = self
                .library
                .function::<unsafe extern "C" fn() -> c_int>("cuCtxSynchronize");
            synchronize.unwrap()() == 0
        }
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
