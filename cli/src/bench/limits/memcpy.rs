//! Copying a payload on one core, with source and destination already touched: the floor of any copy at all.

use std::hint::black_box;

/// Returns a function that makes one copy.
pub(crate) fn copy(payload_bytes: usize) -> impl FnMut() -> anyhow::Result<()> {
    let source = vec![1_u8; payload_bytes];
    let mut destination = vec![2_u8; payload_bytes];
    move || {
        black_box(destination.as_mut_slice()).copy_from_slice(black_box(&source));
        Ok(())
    }
}
