//! The identity of the memory at an address of this process: the same for all processes that map the memory.

use std::fs;

use crate::random;

/// Returns the file behind an address, as one number, and the offset of the address in the file; `None` if no file is
/// mapped there.
pub(crate) fn identity(address: u64) -> Option<(u64, u64)> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| file_at(line, address))
}

/// Parses one line: `start-end rights offset device inode path`.
fn file_at(line: &str, address: u64) -> Option<(u64, u64)> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
    let offset = hexadecimal(fields.nth(1)?)?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let inode: u64 = fields.next()?.parse().ok().filter(|inode| *inode != 0)?;
    let device = hexadecimal(major)? << 32 | hexadecimal(minor)?;
    let file = random::mix(random::mix(device) ^ inode);
    (start..end)
        .contains(&address)
        .then(|| (file, address - start + offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_known_by_its_file() {
        let line = "7f00-8f00 rw-s 00002000 00:01 4711 /memfd:x (deleted)";
        let (file, offset) = file_at(line, 0x7f10).unwrap();
        assert_eq!(offset, 0x2010);
        assert_eq!(file_at(line, 0x8f00), None);
        let elsewhere = "1000-2000 rw-s 00002000 00:01 4711 /memfd:x (deleted)";
        assert_eq!(file_at(elsewhere, 0x1010), Some((file, 0x2010)));
        assert_eq!(file_at("1000-2000 rw-p 00000000 00:00 0", 0x1010), None);
    }
}
