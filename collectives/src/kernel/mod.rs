//! Joining the elements of several ranks: dispatched once a call over the type of the elements and what the processor can
//! do.
//!
//! Whatever the width of the registers, elements are joined one rank after the other, so the result is the same.
#![allow(unsafe_code)] // reads and writes memory that ranks share by turns

mod number;
mod short;

use selvedge_channels::DType;

use crate::operation::ReduceOp;
use number::Number;

/// Elements that are taken up at once: a few wide registers of each type.
const BLOCK: usize = 64;
/// The same where less is left.
const FEW: usize = 8;

/// `count` elements of every rank, by rank, and where the result goes.
#[derive(Clone, Copy)]
struct Work<'a> {
    to: *mut u8,
    from: &'a [*const u8],
    count: usize,
    #[cfg_attr(any(miri, not(target_arch = "x86_64")), allow(dead_code))]
    stores: Stores,
}

/// How memory is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stores {
    /// Through the caches.
    Cached,
    /// Past the caches: two to five times as fast where another core has read the lines last, since it need not be asked for
    /// them one by one; half as fast to be read afterwards.
    Streaming,
}

impl Stores {
    /// For so many bytes that others have read and will read again.
    pub(crate) fn for_shared(len: usize) -> Self {
        if len >= STREAMING_BYTES {
            Stores::Streaming
        } else {
            Stores::Cached
        }
    }
}

/// From so many bytes on the stores of a copy go past the caches.
const STREAMING_BYTES: usize = 32 << 10;

/// Joins `count` elements of each of `from`, in their order, into `to`, which may be the same as one of `from`. Truth
/// values come out as 0 or 1. `false` where there is no such operation.
///
/// # Safety
/// Every pointer is to `count` elements of `dtype`; those of `from` are initialised and written by nobody meanwhile, those of
/// `to` are neither read nor written by others. `to` equals one of `from` or overlaps none.
pub(crate) unsafe fn reduce(
    op: ReduceOp,
    dtype: DType,
    to: *mut u8,
    from: &[*const u8],
    count: usize,
) -> bool {
    if !op.is_defined_for(dtype) || from.is_empty() {
        return false;
    }
    let work = Work {
        to,
        from,
        count,
        stores: Stores::Cached,
    };
    let Some(kernel) = kernel(op, dtype) else {
        return false;
    };
    // SAFETY: the caller's promise, for elements of the type that is named.
    unsafe { kernel(work) };
    true
}

/// What joins elements of one type in one way.
///
/// # Safety
/// As [`reduce`], for elements of that type.
type Kernel = unsafe fn(Work<'_>);

fn kernel(op: ReduceOp, dtype: DType) -> Option<Kernel> {
    Some(match dtype {
        DType::U8 => typed::<u8>(op),
        DType::U16 => typed::<u16>(op),
        DType::U32 => typed::<u32>(op),
        DType::U64 => typed::<u64>(op),
        DType::I8 => typed::<i8>(op),
        DType::I16 => typed::<i16>(op),
        DType::I32 => typed::<i32>(op),
        DType::I64 => typed::<i64>(op),
        DType::F32 => typed::<f32>(op),
        DType::F64 => typed::<f64>(op),
        DType::F16 => typed::<short::Half>(op),
        DType::BF16 => typed::<short::Brain>(op),
        DType::Bool => typed::<number::Truth>(op),
        _ => return None,
    })
}

fn typed<E: Number>(op: ReduceOp) -> Kernel {
    match op {
        ReduceOp::Sum => wide::<Joined<E, 0>>,
        ReduceOp::Product => wide::<Joined<E, 1>>,
        ReduceOp::Min => wide::<Joined<E, 2>>,
        ReduceOp::Max => wide::<Joined<E, 3>>,
        ReduceOp::Average => wide::<Mean<E>>,
    }
}

/// Copies bytes to where others will read them.
///
/// # Safety
/// Both pointers are to `len` bytes, which do not overlap; nobody writes the one or looks at the other.
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize, stores: Stores) {
    let words = len / size_of::<u64>();
    let done = words * size_of::<u64>();
    let from_all = [from];
    let work = Work {
        to,
        from: &from_all,
        count: words,
        stores,
    };
    // The sum of one.
    // SAFETY: the caller's promise, for the whole words.
    unsafe { wide::<Joined<u64, 0>>(work) };
    let (from, to) = (from.wrapping_add(done), to.wrapping_add(done));
    // SAFETY: the caller's promise, for what is left.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len - done) };
}

/// How blocks of elements are taken up, joined and put down.
trait Fold {
    type Element: Number;
    type Wide: Copy;
    fn open<const N: usize>(block: [Self::Element; N]) -> [Self::Wide; N];
    fn join(one: Self::Wide, next: Self::Wide) -> Self::Wide;
    fn close<const N: usize>(block: [Self::Wide; N], ranks: usize) -> [Self::Element; N];
}

/// Sum, product, minimum and maximum, by number.
struct Joined<E, const OP: u8>(E);

impl<E: Number, const OP: u8> Fold for Joined<E, OP> {
    type Element = E;
    type Wide = E::Wide;

    #[inline(always)]
    fn open<const N: usize>(block: [E; N]) -> [E::Wide; N] {
        E::widen(block)
    }

    #[inline(always)]
    fn join(one: E::Wide, next: E::Wide) -> E::Wide {
        match OP {
            0 => E::add(one, next),
            1 => E::multiply(one, next),
            2 => E::least(one, next),
            _ => E::most(one, next),
        }
    }

    #[inline(always)]
    fn close<const N: usize>(block: [E::Wide; N], _ranks: usize) -> [E; N] {
        E::narrow(block)
    }
}

/// The average.
struct Mean<E>(E);

impl<E: Number> Fold for Mean<E> {
    type Element = E;
    type Wide = E::Total;

    #[inline(always)]
    fn open<const N: usize>(block: [E; N]) -> [E::Total; N] {
        E::totals(block)
    }

    #[inline(always)]
    fn join(one: E::Total, next: E::Total) -> E::Total {
        E::add_total(one, next)
    }

    #[inline(always)]
    fn close<const N: usize>(block: [E::Total; N], ranks: usize) -> [E; N] {
        E::means(block, ranks)
    }
}

/// With the widest registers that this processor has.
///
/// # Safety
/// As [`reduce`], for elements of type `F::Element`.
unsafe fn wide<F: Fold>(work: Work<'_>) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        /// # Safety
        /// As [`fold`].
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        unsafe fn avx512<F: Fold>(work: Work<'_>) {
            // SAFETY: the caller's promise.
            unsafe { fold::<F>(work) }
        }
        /// # Safety
        /// As [`fold`].
        #[target_feature(enable = "avx2")]
        unsafe fn avx2<F: Fold>(work: Work<'_>) {
            // SAFETY: the caller's promise.
            unsafe { fold::<F>(work) }
        }
        let has = |it: bool| it && work.count >= FEW;
        if has(is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl"))
        {
            // SAFETY: the processor has these instructions; the rest is the caller's promise.
            return unsafe { avx512::<F>(work) };
        }
        if has(is_x86_feature_detected!("avx2")) {
            // SAFETY: the processor has these instructions; the rest is the caller's promise.
            return unsafe { avx2::<F>(work) };
        }
    }
    // SAFETY: the caller's promise.
    unsafe { fold::<F>(work) }
}

/// # Safety
/// As [`reduce`], for elements of type `F::Element`.
#[inline(always)]
unsafe fn fold<F: Fold>(work: Work<'_>) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if work.stores == Stores::Streaming && work.to.addr().is_multiple_of(16) {
        // SAFETY: the caller's promise.
        unsafe { fold_with::<F, true>(work) };
        // Orders these stores, which go their own way, before those of who is told about them.
        // SAFETY: SSE is part of x86-64.
        return unsafe { std::arch::x86_64::_mm_sfence() };
    }
    // SAFETY: the caller's promise.
    unsafe { fold_with::<F, false>(work) }
}

/// # Safety
/// As [`fold`].
#[inline(always)]
unsafe fn fold_with<F: Fold, const STREAMING: bool>(work: Work<'_>) {
    // SAFETY: the caller's promise, for as many elements as there are.
    let at = unsafe { blocks::<F, STREAMING, BLOCK>(work, 0) };
    // SAFETY: as above.
    let at = unsafe { blocks::<F, false, FEW>(work, at) };
    // SAFETY: as above.
    unsafe { blocks::<F, false, 1>(work, at) };
}

/// Joins whole blocks from element `at` on; says how far it came.
///
/// # Safety
/// As [`fold`].
#[inline(always)]
unsafe fn blocks<F: Fold, const STREAMING: bool, const N: usize>(work: Work<'_>, mut at: usize) -> usize {
    let Some((first, rest)) = work.from.split_first() else {
        return at;
    };
    while work.count - at >= N {
        let load = |from: &*const u8| {
            let block = from
                .cast::<F::Element>()
                .wrapping_add(at)
                .cast::<[F::Element; N]>();
            // SAFETY: so many elements lie behind every source, of which every bit pattern is a number and which nobody writes.
            F::open::<N>(unsafe { block.read_unaligned() })
        };
        let mut joined = load(first);
        for from in rest {
            let next = load(from);
            joined
                .iter_mut()
                .zip(next)
                .for_each(|(all, next)| *all = F::join(*all, next));
        }
        let block = F::close(joined, work.from.len());
        let to = work.to.cast::<F::Element>().wrapping_add(at);
        // SAFETY: there is room for so many elements behind the target, which is nobody else's; its sources have been read.
        unsafe { store::<F::Element, STREAMING, N>(to, &block) };
        at += N;
    }
    at
}

/// # Safety
/// There is room for the block behind `to`, which is a multiple of 16 where it is streamed to.
#[inline(always)]
unsafe fn store<E: Number, const STREAMING: bool, const N: usize>(to: *mut E, block: &[E; N]) {
    #[cfg(target_arch = "x86_64")]
    if STREAMING {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        let (from, to) = (block.as_ptr().cast::<__m128i>(), to.cast::<__m128i>());
        for at in 0..size_of::<[E; N]>() / size_of::<__m128i>() {
            // SAFETY: inside the block, whose size is a multiple of 16.
            let part = unsafe { _mm_loadu_si128(from.wrapping_add(at)) };
            // SAFETY: inside the room for the block, which begins at a multiple of 16.
            unsafe { _mm_stream_si128(to.wrapping_add(at), part) };
        }
        return;
    }
    // SAFETY: there is room for the block.
    unsafe { to.cast::<[E; N]>().write_unaligned(*block) };
}

#[cfg(test)]
mod tests;
