//! Random numbers that are the same everywhere: xorshift64* (S. Vigna, "An experimental exploration of Marsaglia's
//! xorshift generators, scrambled", 2016). Not for secrets.

/// The generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator; equal seeds give equal numbers. 0, which the generator would never leave, counts as 1.
    pub fn new(seed: u64) -> Random {
        Random(seed.max(1))
    }

    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number from 0 to below `limit`; 0 for a limit of 0. The numbers are even enough for limits far below
    /// 2³¹.
    pub fn below(&mut self, limit: usize) -> usize {
        ((self.bits() >> 33) as usize).checked_rem(limit).unwrap_or(0)
    }

    /// Returns a uniform number from -1 to below 1.
    pub fn signed(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    /// Puts a list into random order (Fisher and Yates, 1938).
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for end in (1..list.len()).rev() {
            list.swap(end, self.below(end + 1));
        }
    }
}
