//! Driver, devices and NCCL of this machine.
#![allow(unsafe_code)] // calls the driver

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::fmt;

use super::library::{Library, Unavailable};

/// Names under which the driver's library may be found, and the variable that names another.
const DRIVER: (&str, &str, [&str; 2]) = (
    "the CUDA driver",
    "SELVEDGE_CUDA_LIB",
    ["libcuda.so.1", "libcuda.so"],
);
/// The same of NCCL.
const NCCL: (&str, &str, [&str; 2]) = ("NCCL", "SELVEDGE_NCCL_LIB", ["libnccl.so.2", "libnccl.so"]);

/// What a communicator over NCCL calls.
const NCCL_FUNCTIONS: [&str; 17] = [
    "ncclGetVersion",
    "ncclGetUniqueId",
    "ncclCommInitRankConfig",
    "ncclCommGetAsyncError",
    "ncclCommAbort",
    "ncclCommFinalize",
    "ncclCommDestroy",
    "ncclGroupStart",
    "ncclGroupEnd",
    "ncclSend",
    "ncclRecv",
    "ncclAllReduce",
    "ncclReduceScatter",
    "ncclAllGather",
    "ncclBroadcast",
    "ncclReduce",
    "ncclGetErrorString",
];

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Bytes of its memory.
    pub memory_bytes: u64,
    /// Its compute capability.
    pub compute_capability: (i32, i32),
    /// Whether memory can be made that other processes can map, by a file descriptor: what channels between processes use.
    pub shares_memory: bool,
}

/// The driver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Driver {
    /// Where it was found.
    pub path: String,
    /// The version of CUDA that it supports: 13000 for 13.0.
    pub version: i32,
    /// Its devices.
    pub devices: Vec<Device>,
}

/// NCCL.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Nccl {
    /// Where it was found.
    pub path: String,
    /// Its version: 22809 for 2.28.9.
    pub version: i32,
}

/// What a machine has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Probe {
    /// The driver, or why there is none.
    pub driver: Result<Driver, Unavailable>,
    /// NCCL, or why there is none.
    pub nccl: Result<Nccl, Unavailable>,
}

/// Looks for the driver and for NCCL. Never panics, and needs no device.
pub fn probe() -> Probe {
    Probe {
        driver: driver(),
        nccl: nccl(),
    }
}

const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
const COMPUTE_CAPABILITY_MINOR: c_int = 76;
const HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: c_int = 103;

/// What is asked of the driver: functions that CUDA has had since 6.0, and never changed.
struct Functions {
    init: unsafe extern "C" fn(c_uint) -> c_int,
    version: unsafe extern "C" fn(*mut c_int) -> c_int,
    count: unsafe extern "C" fn(*mut c_int) -> c_int,
    get: unsafe extern "C" fn(*mut c_int, c_int) -> c_int,
    name: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
    memory: unsafe extern "C" fn(*mut usize, c_int) -> c_int,
    attribute: unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int,
    error_name: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int,
}

impl Functions {
    fn of(library: &Library) -> Result<Self, Unavailable> {
        // SAFETY: `cuda.h` declares these types, and the driver's interface is stable; the pointers do not outlive `library`,
        // which `Calls` keeps beside them.
        macro_rules! function {
            ($symbol:literal) => {
                // SAFETY: as above.
                unsafe { library.function($symbol) }?
            };
        }
        Ok(Functions {
            init: function!("cuInit"),
            version: function!("cuDriverGetVersion"),
            count: function!("cuDeviceGetCount"),
            get: function!("cuDeviceGet"),
            name: function!("cuDeviceGetName"),
            memory: function!("cuDeviceTotalMem_v2"),
            attribute: function!("cuDeviceGetAttribute"),
            error_name: function!("cuGetErrorName"),
        })
    }
}

/// The driver as it is called.
struct Calls {
    functions: Functions,
    library: Library,
}

impl Calls {
    fn check(&self, call: &'static str, code: c_int) -> Result<(), Unavailable> {
        self.library.check(call, code, || {
            let mut name = std::ptr::null();
            // SAFETY: writes the address of a static text, or nothing.
            let told = unsafe { (self.functions.error_name)(code, &raw mut name) };
            if told != 0 || name.is_null() {
                return String::new();
            }
            // SAFETY: a text of the library's own, with an end, that lives as long as the library.
            unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
        })
    }

    /// The number that a call writes.
    fn number(
        &self,
        call: &'static str,
        ask: impl FnOnce(&Functions, *mut c_int) -> c_int,
    ) -> Result<c_int, Unavailable> {
        let mut number = 0;
        let code = ask(&self.functions, &raw mut number);
        self.check(call, code).map(|()| number)
    }

    fn device(&self, index: c_int) -> Result<Device, Unavailable> {
        // SAFETY: writes one number where there is room for one; so do the calls below.
        let device = self.number("cuDeviceGet", |cu, to| unsafe { (cu.get)(to, index) })?;
        let attribute = |which: c_int| {
            // SAFETY: as above.
            self.number("cuDeviceGetAttribute", |cu, to| unsafe {
                (cu.attribute)(to, which, device)
            })
        };
        let mut name = [0_u8; 256];
        // SAFETY: writes at most 255 bytes and an end.
        let code = unsafe { (self.functions.name)(name.as_mut_ptr().cast(), 255, device) };
        self.check("cuDeviceGetName", code)?;
        let mut memory = 0_usize;
        // SAFETY: writes one number where there is room for one.
        let code = unsafe { (self.functions.memory)(&raw mut memory, device) };
        self.check("cuDeviceTotalMem_v2", code)?;
        let name = CStr::from_bytes_until_nul(&name).map(|name| name.to_string_lossy().into_owned());
        Ok(Device {
            name: name.unwrap_or_default(),
            memory_bytes: memory as u64,
            compute_capability: (
                attribute(COMPUTE_CAPABILITY_MAJOR)?,
                attribute(COMPUTE_CAPABILITY_MINOR)?,
            ),
            // An older driver does not know the question.
            shares_memory: attribute(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)
                .is_ok_and(|shares| shares != 0),
        })
    }
}

fn driver() -> Result<Driver, Unavailable> {
    let (kind, variable, names) = DRIVER;
    let library = Library::open(kind, variable, &names)?;
    let functions = Functions::of(&library)?;
    let calls = Calls { functions, library };
    // SAFETY: takes no pointer; the flags must be 0.
    calls.check("cuInit", unsafe { (calls.functions.init)(0) })?;
    // SAFETY: writes one number where there is room for one.
    let version = calls.number("cuDriverGetVersion", |cu, to| unsafe { (cu.version)(to) })?;
    // SAFETY: as above.
    let count = calls.number("cuDeviceGetCount", |cu, to| unsafe { (cu.count)(to) })?;
    let devices = (0..count)
        .map(|index| calls.device(index))
        .collect::<Result<_, _>>()?;
    let path = calls.library.path.clone();
    Ok(Driver {
        path,
        version,
        devices,
    })
}

fn nccl() -> Result<Nccl, Unavailable> {
    let (kind, variable, names) = NCCL;
    let library = Library::open(kind, variable, &names)?;
    library.has(&NCCL_FUNCTIONS)?;
    // SAFETY: `nccl.h` declares this type.
    let ask: unsafe extern "C" fn(*mut c_int) -> c_int = unsafe { library.function("ncclGetVersion") }?;
    let mut version = 0;
    // SAFETY: writes one number where there is room for one.
    let code = unsafe { ask(&raw mut version) };
    library.check("ncclGetVersion", code, String::new)?;
    let path = library.path.clone();
    Ok(Nccl { path, version })
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.driver {
            Err(error) => writeln!(f, "CUDA       none: {error}")?,
            Ok(driver) => {
                let (major, minor) = (driver.version / 1000, driver.version % 1000 / 10);
                writeln!(f, "CUDA       {major}.{minor}, {}", driver.path)?;
                if driver.devices.is_empty() {
                    writeln!(f, "devices    none")?;
                }
                for (index, device) in driver.devices.iter().enumerate() {
                    let (major, minor) = device.compute_capability;
                    let gib = device.memory_bytes as f64 / f64::from(1 << 30);
                    let shares = if device.shares_memory {
                        "shares memory"
                    } else {
                        "shares no memory"
                    };
                    let name = &device.name;
                    writeln!(
                        f,
                        "device {index}   {name}, {gib:.1} GiB, compute capability {major}.{minor}, {shares}"
                    )?;
                }
            }
        }
        match &self.nccl {
            Err(error) => write!(f, "NCCL       none: {error}"),
            Ok(nccl) => {
                let (major, minor, patch) = (
                    nccl.version / 10_000,
                    nccl.version / 100 % 100,
                    nccl.version % 100,
                );
                write!(f, "NCCL       {major}.{minor}.{patch}, {}", nccl.path)
            }
        }
    }
}
