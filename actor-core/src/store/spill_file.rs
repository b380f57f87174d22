//! The file of spilled objects. It has no name, so nothing is left of it whatever becomes of the process.

use std::fs::File;
use std::io;
use std::path::Path;

use selvedge_cluster::id_map::IdMap;
use selvedge_objects::store::Extent;

use crate::platform::unnamed_file;

/// The file of spilled objects, with a checksum of each.
pub(super) struct SpillFile {
    file: File,
    /// The CRC-32 of the object at each place.
    checksums: IdMap<u64, u32>,
}

impl SpillFile {
    /// Makes a file without a name in a folder.
    ///
    /// # Errors
    /// The folder does not exist, cannot be written, or its file system has no files without names.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        Ok(SpillFile {
            file: unnamed_file::create(folder)?,
            checksums: IdMap::new(),
        })
    }

    /// Writes an object.
    ///
    /// # Errors
    /// Those of the file system: it may be full.
    pub(super) fn write(&mut self, bytes: &[u8], to: Extent) -> io::Result<()> {
        unnamed_file::write(&self.file, bytes, to.offset)?;
        self.checksums.insert(to.offset, crc32fast::hash(bytes));
        Ok(())
    }

    /// Reads an object back.
    ///
    /// # Errors
    /// Those of the file system; [`io::ErrorKind::InvalidData`] if the bytes are not those that were written.
    pub(super) fn read(&self, from: Extent, bytes: &mut [u8]) -> io::Result<()> {
        unnamed_file::read(&self.file, bytes, from.offset)?;
        match self.checksums.get(&from.offset) {
            Some(checksum) if *checksum == crc32fast::hash(bytes) => Ok(()),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the file has other bytes than were written",
            )),
        }
    }

    /// Gives the place of an object back to the file system, as far as that can take it.
    pub(super) fn discard(&mut self, extent: Extent) {
        // Of an object that was written in part there is no checksum, and its bytes are given back too.
        self.checksums.remove(&extent.offset);
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
    fn a_folder_that_is_not_there_is_an_error() {
        assert!(SpillFile::create(Path::new("/nowhere/at/all")).is_err());
    }
}
