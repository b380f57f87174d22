//! Reports on NVIDIA's libraries: if they are absent, if they lack functions, and if they fail. The tests build such
//! libraries.
#![cfg(all(feature = "cuda", not(miri)))]
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)] // a test may panic

use std::path::{Path, PathBuf};
use std::process::Command;

use selvedge_channels::device::DRIVER_FUNCTIONS;
use selvedge_collectives::gpu::{Probe, Unavailable, probe};

const PARTS: &str = "SELVEDGE_PROBE_CHILD";

/// Source code of a driver with this many devices.
fn driver(devices: u32) -> String {
    let functions = r#"
        #[no_mangle] pub extern "C" fn cuInit(_: u32) -> i32 { INIT }
        #[no_mangle] pub unsafe extern "C" fn cuDriverGetVersion(to: *mut i32) -> i32 { *to = 13000; 0 }
        #[no_mangle] pub unsafe extern "C" fn cuDeviceGetCount(to: *mut i32) -> i32 { *to = DEVICES; 0 }
        #[no_mangle] pub unsafe extern "C" fn cuDeviceGet(to: *mut i32, index: i32) -> i32 { *to = index; 0 }
        #[no_mangle] pub unsafe extern "C" fn cuDeviceGetName(to: *mut u8, _: i32, device: i32) -> i32 {
            for (at, byte) in b"Simulated ".iter().chain(&[b'0' + device as u8, 0]).enumerate() { *to.add(at) = *byte; }
            0
        }
        #[no_mangle] pub unsafe extern "C" fn cuDeviceTotalMem_v2(to: *mut usize, _: i32) -> i32 { *to = 3 << 30; 0 }
        #[no_mangle] pub unsafe extern "C" fn cuDeviceGetAttribute(to: *mut i32, which: i32, _: i32) -> i32 {
            *to = match which { 75 => 9, 103 => 1, _ => 0 };
            0
        }
        #[no_mangle] pub unsafe extern "C" fn cuGetErrorName(code: i32, to: *mut *const u8) -> i32 {
            if code != 100 { return 1; }
            *to = b"CUDA_ERROR_NO_DEVICE\0".as_ptr();
            0
        }"#;
    // Functions that the probe does not call only have to exist.
    let others = DRIVER_FUNCTIONS
        .iter()
        .filter(|name| !functions.contains(&format!("{name}(")));
    let others: String = others
        .map(|name| format!("#[no_mangle] pub extern \"C\" fn {name}() -> i32 {{ 999 }}\n"))
        .collect();
    functions.replace("DEVICES", &devices.to_string()) + &others
}

/// Builds a library from source code.
fn library(folder: &Path, name: &str, source: &str) -> PathBuf {
    let (file, made) = (
        folder.join(format!("{name}.rs")),
        folder.join(format!("lib{name}.so")),
    );
    std::fs::write(&file, source).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let built = Command::new(rustc)
        .args(["--crate-type", "cdylib", "-o"])
        .arg(&made)
        .arg(&file)
        .output()
        .unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    made
}

/// The report of a child process that loads these libraries. It is a new process, because a loaded library stays
/// loaded.
fn found(cuda: &Path, nccl: &Path) -> String {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture", "--quiet"])
        .env(PARTS, "1")
        .env("SELVEDGE_CUDA_LIB", cuda)
        .env("SELVEDGE_NCCL_LIB", nccl)
        .output()
        .unwrap();
    assert!(child.status.success(), "{child:?}");
    String::from_utf8(child.stdout).unwrap()
}

#[test]
#[ignore = "the children's part of the other tests"]
fn child() {
    if std::env::var_os(PARTS).is_some() {
        println!("{}", probe());
    }
}

#[test]
fn libraries_that_are_not_there_lack_something_or_fail_are_told_of() {
    let folder = std::env::temp_dir().join(format!("selvedge-probe-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let nowhere = folder.join("nowhere.so");

    let text = found(&nowhere, &nowhere);
    assert!(
        text.contains("CUDA       none: the CUDA driver cannot be loaded") && text.contains("nowhere.so"),
        "{text}"
    );
    assert!(text.contains("NCCL       none: NCCL cannot be loaded"), "{text}");

    let two = library(&folder, "two", &driver(2).replace("INIT", "0"));
    let text = found(&two, &two);
    assert!(text.contains("CUDA       13.0, "), "{text}");
    assert!(
        text.contains("device 1   Simulated 1, 3.0 GiB, compute capability 9.0, shares memory"),
        "{text}"
    );
    assert!(
        text.contains("has no function `ncclGetVersion`: it is too old, or not NCCL"),
        "{text}"
    );

    let none = library(&folder, "none", &driver(0).replace("INIT", "0"));
    assert!(found(&none, &nowhere).contains("devices    none"));

    let broken = library(&folder, "broken", &driver(0).replace("INIT", "100"));
    let text = found(&broken, &nowhere);
    assert!(
        text.contains("`cuInit` of") && text.contains("says 100, CUDA_ERROR_NO_DEVICE"),
        "{text}"
    );

    let unknown = library(&folder, "unknown", &driver(0).replace("INIT", "7777"));
    assert!(found(&unknown, &nowhere).contains("says 7777\n"));

    let old = library(
        &folder,
        "old",
        &driver(1)
            .replace("INIT", "0")
            .replace("cuDeviceTotalMem_v2", "cuDeviceTotalMem"),
    );
    assert!(
        found(&old, &nowhere)
            .contains("has no function `cuDeviceTotalMem_v2`: it is too old, or not the CUDA driver")
    );
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn this_machine_can_be_asked() {
    let Probe { driver, nccl, .. } = probe();
    for missing in [driver.err(), nccl.err()].into_iter().flatten() {
        assert!(matches!(
            missing,
            Unavailable::NotFound { .. } | Unavailable::NoSymbol { .. } | Unavailable::Failed { .. }
        ));
        assert!(!missing.to_string().is_empty());
    }
}
