//! The build id of this executable: that of the linker, or else a hash of the beginning and the end of the file.
//!
//! The file is `/proc/self/exe`, which stays the running program even if its file was replaced. Only ELF for 64-bit
//! little-endian machines is parsed; any other format gets the hash.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use crate::fnv::{FNV_OFFSET, fnv1a};

/// Returns the build id as text; computed once.
pub(crate) fn of_this_program() -> String {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| read("/proc/self/exe").unwrap_or_else(|error| format!("unreadable ({error})")))
        .clone()
}

fn read(path: &str) -> io::Result<String> {
    let file = File::open(path)?;
    match gnu_build_id(&file) {
        Some(id) => Ok(id),
        None => hash_of_ends(&file),
    }
}

const PT_NOTE: u32 = 4;
const NT_GNU_BUILD_ID: u32 = 3;
/// The maximum number of program headers that are read.
const HEADERS_MAX: u16 = 128;
/// The maximum size of the notes that are read.
const NOTES_BYTES_MAX: u64 = 64 * 1024;

fn gnu_build_id(file: &File) -> Option<String> {
    let header = bytes_at(file, 0, 64)?;
    if header.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let table = u64_at(&header, 32)?;
    let entry_size = u16_at(&header, 54)?;
    let count = u16_at(&header, 56)?.min(HEADERS_MAX);
    (0..u64::from(count)).find_map(|i| {
        let entry = bytes_at(file, table.checked_add(i * u64::from(entry_size))?, 56)?;
        if u32_at(&entry, 0)? != PT_NOTE {
            return None;
        }
        let size = u64_at(&entry, 32)?.min(NOTES_BYTES_MAX);
        let notes = bytes_at(file, u64_at(&entry, 8)?, usize::try_from(size).ok()?)?;
        build_id_note(&notes)
    })
}

/// Finds the build id among the notes of one segment. A note is: name size, description size, type, name, description;
/// the last two are padded to 4 bytes.
fn build_id_note(mut notes: &[u8]) -> Option<String> {
    loop {
        let name_len = usize::try_from(u32_at(notes, 0)?).ok()?;
        let desc_len = usize::try_from(u32_at(notes, 4)?).ok()?;
        let kind = u32_at(notes, 8)?;
        let desc_start = name_len.checked_next_multiple_of(4)?.checked_add(12)?;
        let desc_end = desc_start.checked_add(desc_len)?;
        let name = notes.get(12..12_usize.checked_add(name_len)?)?;
        let desc = notes.get(desc_start..desc_end)?;
        if kind == NT_GNU_BUILD_ID && name == b"GNU\0" {
            return Some(desc.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        notes = notes.get(desc_end.checked_next_multiple_of(4)?..)?;
    }
}

fn hash_of_ends(file: &File) -> io::Result<String> {
    const END_BYTES: u64 = 64 * 1024;
    let len = file.metadata()?.len();
    let mut hash = len.to_le_bytes().into_iter().fold(FNV_OFFSET, fnv1a);
    for start in [0, len.saturating_sub(END_BYTES)] {
        let mut bytes = vec![0; 64 * 1024];
        let read = file.read_at(&mut bytes, start)?;
        bytes.truncate(read);
        hash = bytes.into_iter().fold(hash, fnv1a);
    }
    Ok(format!("hash-{hash:016x}"))
}

fn bytes_at(file: &File, offset: u64, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array_at(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array_at(bytes, at).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_has_a_build_id() {
        assert!(!of_this_program().starts_with("unreadable"));
        assert_eq!(of_this_program(), of_this_program());
    }

    #[test]
    fn a_build_id_note_is_found_behind_others_and_cut_notes_are_survived() {
        let mut notes = Vec::new();
        for (kind, name, desc) in [(1_u32, b"ABC\0", &[9_u8, 9, 9][..]), (3, b"GNU\0", &[0xab, 0xcd])] {
            notes.extend(4_u32.to_le_bytes());
            notes.extend(u32::try_from(desc.len()).unwrap().to_le_bytes());
            notes.extend(kind.to_le_bytes());
            notes.extend(name);
            notes.extend(desc);
            notes.resize(notes.len().next_multiple_of(4), 0);
        }
        assert_eq!(build_id_note(&notes).as_deref(), Some("abcd"));
        for cut in 0..notes.len() - 4 {
            assert_eq!(build_id_note(&notes[..cut]), None);
        }
    }

    #[test]
    fn without_a_note_the_file_is_hashed() {
        let file = File::open("/proc/self/exe").unwrap();
        assert!(hash_of_ends(&file).unwrap().starts_with("hash-"));
    }
}
