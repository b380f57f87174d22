//! A checksum that reads every byte, shared by the hand-off floor and the actor that is compared with it.

/// Adds up the bytes, eight at a time, with wrapping addition.
pub fn checksum(bytes: &[u8]) -> u64 {
    let (words, tail) = bytes.as_chunks::<8>();
    let sum = words
        .iter()
        .fold(0_u64, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)));
    tail.iter()
        .fold(sum, |sum, byte| sum.wrapping_add(u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts() {
        let bytes = [1_u8; 19];
        let whole = checksum(&bytes);
        for at in 0..bytes.len() {
            let mut changed = bytes;
            changed[at] = 2;
            assert_ne!(checksum(&changed), whole, "byte {at} is not read");
        }
        assert_eq!(checksum(&[]), 0);
    }
}
