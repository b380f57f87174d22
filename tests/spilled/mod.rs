//! Damage to objects that a store has spilled.
#![allow(dead_code, unreachable_pub)] // every binary uses a part of the module

use std::fs::{OpenOptions, read_dir, read_link};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Writes other bytes over all that the store of this process has spilled to a folder.
pub fn damage(folder: &Path) {
    damage_of(std::process::id(), folder);
}

/// Writes other bytes over all that the store of a process has spilled to a folder. The file has no name, but that process has it open. One
/// that has ended has none.
pub fn damage_of(pid: u32, folder: &Path) {
    let unnamed = folder.join("#").into_os_string().into_string().unwrap();
    let Ok(open) = read_dir(format!("/proc/{pid}/fd")) else {
        return;
    };
    for entry in open {
        let Ok(path) = entry.map(|entry| entry.path()) else {
            continue;
        };
        let Ok(to) = read_link(&path) else { continue };
        if to.to_str().unwrap().starts_with(&unnamed) {
            let Ok(file) = OpenOptions::new().write(true).open(&path) else {
                continue;
            };
            let length = file.metadata().unwrap().len();
            (0..length.div_ceil(1 << 12)).for_each(|page| {
                file.write_all_at(b"damaged", page << 12).unwrap();
            });
        }
    }
}
