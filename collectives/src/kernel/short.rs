//! 16-bit floats as bits, converted to and from `f32` without branches, so that whole blocks are converted at once.
//! (The crate `half` does the same, but brings a second parser of Rust into every build. The tests compare these
//! conversions with it, bit for bit.)

/// IEEE 754 binary16.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub(super) struct Half(pub(super) u16);

/// bfloat16: the upper half of an `f32`.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub(super) struct Brain(pub(super) u16);

/// 2 to the power of 112: the difference between the exponent biases of the two formats.
const REBIAS: f32 = f32::from_bits((112 + 127) << 23);
/// The bits of an infinite `f32`.
const F32_INFINITY: u32 = 0x7f80_0000;
/// The smallest number that is rounded to infinity, as bits: half a step beyond the largest number of binary16.
const TOO_LARGE: u32 = 0x477f_f000;
/// The smallest normal number of binary16, 2 to the power of -14, as bits.
const NORMAL: u32 = 0x3880_0000;

impl Half {
    #[inline(always)]
    pub(super) fn to_f32(self) -> f32 {
        let sign = (u32::from(self.0) & 0x8000) << 16;
        let rest = (u32::from(self.0) & 0x7fff) << 13;
        // Exact, for subnormal numbers too: they are subnormal numbers of `f32` before the multiplication.
        let finite = (f32::from_bits(rest) * REBIAS).to_bits();
        let is_finite = self.0 & 0x7c00 != 0x7c00;
        f32::from_bits(sign | if is_finite { finite } else { rest | F32_INFINITY })
    }

    /// Rounds to the nearest number; of two equally near ones, to the even one.
    #[inline(always)]
    pub(super) fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let sign = (bits >> 16) & 0x8000;
        let size = bits & 0x7fff_ffff;
        let odd = (size >> 13) & 1;
        let normal = (size.wrapping_add(0xfff + odd).wrapping_sub(112 << 23)) >> 13;
        // The last place of 0.5 in `f32` is the step of subnormal numbers in binary16, so the addition rounds as
        // required.
        let small = (f32::from_bits(size) + 0.5)
            .to_bits()
            .wrapping_sub(0.5_f32.to_bits());
        let finite = if size < NORMAL { small } else { normal };
        let bounded = if size < TOO_LARGE { finite } else { 0x7c00 };
        let nan = 0x7e00 | ((size >> 13) & 0x3ff);
        let rest = if size > F32_INFINITY { nan } else { bounded };
        Half((sign | rest) as u16)
    }
}

impl Brain {
    #[inline(always)]
    pub(super) fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    /// Rounds to the nearest number; of two equally near ones, to the even one.
    #[inline(always)]
    pub(super) fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        let nan = (bits >> 16) | 0x40;
        Brain(if bits & 0x7fff_ffff > F32_INFINITY {
            nan
        } else {
            rounded
        } as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    #[test]
    fn every_short_float_is_widened_and_narrowed_as_by_the_crate_half() {
        for bits in 0..=u16::MAX {
            let (half, brain) = (f16::from_bits(bits), bf16::from_bits(bits));
            let wide = Half(bits).to_f32();
            assert!(
                wide.to_bits() == half.to_f32().to_bits() || half.is_nan() && wide.is_nan(),
                "{bits:x}"
            );
            assert_eq!(Half::from_f32(wide).0, f16::from_f32(wide).to_bits(), "{bits:x}");
            let wide = Brain(bits).to_f32();
            assert!(
                wide.to_bits() == brain.to_f32().to_bits() || brain.is_nan() && wide.is_nan(),
                "{bits:x}"
            );
            assert_eq!(
                Brain::from_f32(wide).0,
                bf16::from_f32(wide).to_bits(),
                "{bits:x}"
            );
        }
    }

    #[test]
    fn numbers_between_are_rounded_as_by_the_crate_half() {
        let few = if cfg!(miri) { 1_000 } else { 1 };
        // Every exponent, with all mantissas that lie near a point where rounding changes.
        for top in (0..=u16::MAX).step_by(few) {
            for low in [
                0, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0x2fff, 0x3000, 0x7fff, 0x8000, 0x8001, 0xefff, 0xf000,
                0xffff,
            ] {
                let value = f32::from_bits(u32::from(top) << 16 | low);
                assert_eq!(
                    Half::from_f32(value).0,
                    f16::from_f32(value).to_bits(),
                    "{value:e}"
                );
                assert_eq!(
                    Brain::from_f32(value).0,
                    bf16::from_f32(value).to_bits(),
                    "{value:e}"
                );
            }
        }
    }
}
