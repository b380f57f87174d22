//! Random bytes of the system.

use std::io;

/// Fresh random bytes.
///
/// # Errors
/// The system has none.
pub(super) fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

/// A fresh name of 16 letters, which nobody can guess.
///
/// # Errors
/// Those of [`bytes`].
pub(super) fn name() -> io::Result<String> {
    Ok(format!("{:016x}", u64::from_le_bytes(bytes()?)))
}
