//! Files without names: refused. There is no store whose objects they could hold.

use std::fs::File;
use std::io;
use std::path::Path;

fn refused() -> io::Error {
    io::ErrorKind::Unsupported.into()
}

/// Refuses to make a file without a name.
pub(crate) fn create(_: &Path) -> io::Result<File> {
    Err(refused())
}

/// Refuses to write bytes.
pub(crate) fn write(_: &File, _: &[u8], _: u64) -> io::Result<()> {
    Err(refused())
}

/// Refuses to read bytes.
pub(crate) fn read(_: &File, _: &mut [u8], _: u64) -> io::Result<()> {
    Err(refused())
}

/// Gives nothing back: there is no such file.
pub(crate) fn punch(_: &File, _: u64, _: u64) {}
