//! Damage to objects that a store has spilled.

use std::fs::{OpenOptions, read_dir, read_link};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Writes other bytes over all that was spilled to a folder. The file has no name, but this process, which has the store, has it open.
pub fn damage(folder: &Path) {
    let unnamed = folder.join("#").into_os_string().into_string().unwrap();
    for entry in read_dir("/proc/self/fd").unwrap() {
        let path = entry.unwrap().path();
        let Ok(to) = read_link(&path) else { continue };
        if to.to_str().unwrap().starts_with(&unnamed) {
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            let length = file.metadata().unwrap().len();
            (0..length.div_ceil(1 << 12)).for_each(|page| {
                file.write_all_at(b"damaged", page << 12).unwrap();
            });
        }
    }
}
