//! The file of spilled objects. It has no name, so nothing is left of it whatever becomes of the process.

use std::fs::File;
use std::io;
use std::path::Path;

use bytes::Bytes;
use selvedge_cluster::id_map::IdMap;
use selvedge_objects::store::Extent;

use super::asker::PartRange;
use crate::platform::unnamed_file;

/// The length of the pieces of an object that have a checksum each: that of the chunks for which other hosts ask.
const PIECE_BYTES: usize = 1 << 20;

/// The file of spilled objects, with the checksums of each.
pub(super) struct SpillFile {
    file: File,
    /// The object at each place.
    spilled: IdMap<u64, Spilled>,
}

struct Spilled {
    bytes: usize,
    /// The CRC-32 of each piece.
    checksums: Vec<u32>,
}

impl Spilled {
    fn of(bytes: &[u8]) -> Self {
        Spilled {
            bytes: bytes.len(),
            checksums: bytes.chunks(PIECE_BYTES).map(crc32fast::hash).collect(),
        }
    }

    /// Whether these bytes are those that were written, from the beginning of this piece on.
    fn has(&self, first: usize, bytes: &[u8]) -> bool {
        let count = bytes.len().div_ceil(PIECE_BYTES);
        let written = self.checksums.iter().copied().skip(first).take(count);
        bytes.chunks(PIECE_BYTES).map(crc32fast::hash).eq(written)
    }
}

fn damaged() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the file has other bytes than were written",
    )
}

impl SpillFile {
    /// Makes a file without a name in a folder.
    ///
    /// # Errors
    /// The folder does not exist, cannot be written, or its file system has no files without names.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        Ok(SpillFile {
            file: unnamed_file::create(folder)?,
            spilled: IdMap::new(),
        })
    }

    /// Writes an object.
    ///
    /// # Errors
    /// Those of the file system: it may be full.
    pub(super) fn write(&mut self, bytes: &[u8], to: Extent) -> io::Result<()> {
        unnamed_file::write(&self.file, bytes, to.offset)?;
        self.spilled.insert(to.offset, Spilled::of(bytes));
        Ok(())
    }

    /// Reads an object back.
    ///
    /// # Errors
    /// Those of the file system; [`io::ErrorKind::InvalidData`] if the bytes are not those that were written.
    pub(super) fn read(&self, from: Extent, bytes: &mut [u8]) -> io::Result<()> {
        unnamed_file::read(&self.file, bytes, from.offset)?;
        let spilled = self.spilled.get(&from.offset);
        let is_it = spilled.is_some_and(|spilled| spilled.bytes == bytes.len() && spilled.has(0, bytes));
        is_it.then_some(()).ok_or_else(damaged)
    }

    /// Reads a part of an object back, with the pieces in which it lies. The part does not change when the object's place gets another
    /// one.
    ///
    /// # Errors
    /// Those of the file system; [`io::ErrorKind::InvalidData`] if the bytes are not those that were written, or the object has none
    /// there.
    pub(super) fn read_part(&self, from: Extent, part: PartRange) -> io::Result<Bytes> {
        let spilled = self.spilled.get(&from.offset).ok_or_else(damaged)?;
        if part.start > part.end || part.end > spilled.bytes {
            return Err(damaged());
        }
        let first = part.start / PIECE_BYTES;
        let start = first * PIECE_BYTES;
        let end = part.end.next_multiple_of(PIECE_BYTES).min(spilled.bytes);
        let mut pieces = vec![0; end - start];
        unnamed_file::read(&self.file, &mut pieces, from.offset + start as u64)?;
        match spilled.has(first, &pieces) {
            true => Ok(Bytes::from(pieces).slice(part.start - start..part.end - start)),
            false => Err(damaged()),
        }
    }

    /// Gives the place of an object back to the file system, as far as that can take it.
    pub(super) fn discard(&mut self, extent: Extent) {
        // Of an object that was written in part there is no checksum, and its bytes are given back too.
        self.spilled.remove(&extent.offset);
        unnamed_file::punch(&self.file, extent.offset, extent.len_bytes);
    }
}

#[cfg(test)]
#[cfg(all(target_os = "linux", not(selvedge_portable)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back_and_a_damaged_object_is_refused() {
        let mut file = SpillFile::create(&std::env::temp_dir()).unwrap();
        let place = |offset| Extent {
            offset,
            len_bytes: 1 << 14,
        };
        file.write(&[7; 1000], place(1 << 14)).unwrap();
        let mut back = [0; 1000];
        file.read(place(1 << 14), &mut back).unwrap();
        assert_eq!(back, [7; 1000]);
        unnamed_file::write(&file.file, &[8], (1 << 14) + 500).unwrap();
        let damaged = file.read(place(1 << 14), &mut back).unwrap_err();
        assert_eq!(damaged.kind(), io::ErrorKind::InvalidData);
        file.discard(place(1 << 14));
        assert!(file.read(place(1 << 14), &mut back).is_err());
    }

    #[test]
    fn parts_of_an_object_are_read_back_and_only_the_damaged_piece_is_refused() {
        let mut file = SpillFile::create(&std::env::temp_dir()).unwrap();
        let bytes: Vec<u8> = (0..2 * PIECE_BYTES + 1000).map(|at| (at / 100) as u8).collect();
        let place = Extent {
            offset: 1 << 14,
            len_bytes: 3 << 20,
        };
        file.write(&bytes, place).unwrap();
        let parts = [
            0..PIECE_BYTES,
            PIECE_BYTES..2 * PIECE_BYTES,
            2 * PIECE_BYTES..bytes.len(),
            PIECE_BYTES - 1..2 * PIECE_BYTES + 1,
            0..bytes.len(),
            7..7,
        ];
        for part in parts.clone() {
            assert_eq!(file.read_part(place, part.clone()).unwrap(), bytes[part]);
        }
        for beyond in [bytes.len()..bytes.len() + 1, usize::MAX - 1..usize::MAX] {
            assert!(file.read_part(place, beyond).is_err());
        }
        unnamed_file::write(
            &file.file,
            &[!bytes[PIECE_BYTES]],
            place.offset + PIECE_BYTES as u64,
        )
        .unwrap();
        let is_read = parts.map(|part| file.read_part(place, part).is_ok());
        assert_eq!(is_read, [true, false, true, false, false, true]);
        file.discard(place);
        assert!(file.read_part(place, 0..1).is_err());
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        assert!(SpillFile::create(Path::new("/nowhere/at/all")).is_err());
    }
}
