//! Kernels that combine the elements of several ranks. Each call is dispatched once, by the type of the elements and
//! the instruction set of the processor.
//!
//! Registers of every width combine the elements one rank after the other, so the result is always the same.
#![allow(unsafe_code)] // reads and writes memory that ranks access in turn

mod number;
mod short;

use selvedge_channels::DType;

use crate::operation::ReduceOp;
use number::{Arithmetic, Number};

/// The number of elements in a block: a few wide registers of each type.
const BLOCK: usize = 64;
/// The number of elements in a block when fewer are left.
const FEW: usize = 8;

/// The work of one call: `count` elements of every rank, by rank, and the target of the result.
#[derive(Clone, Copy)]
struct Work<'a> {
    to: *mut u8,
    from: &'a [*const u8],
    count: usize,
    #[cfg_attr(any(miri, not(target_arch = "x86_64")), allow(dead_code))]
    stores: Stores,
}

/// The way in which memory is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stores {
    /// Stores go through the caches.
    Cached,
    /// Stores go past the caches. This is two to five times as fast if another core has read the lines last, since the
    /// writer does not request them one by one; reading the lines afterwards is half as fast.
    Streaming,
}

impl Stores {
    /// Returns the stores for `len` bytes that other ranks have read and will read again.
    pub(crate) fn for_shared(len: usize) -> Self {
        if len >= STREAMING_BYTES {
            Stores::Streaming
        } else {
            Stores::Cached
        }
    }
}

/// The number of bytes from which on a copy stores past the caches.
const STREAMING_BYTES: usize = 32 << 10;

/// Combines `count` elements of each of `from`, in their order, into `to`, which may be equal to one of `from`.
/// Booleans come out as 0 or 1. Returns `false` if the operation is not defined.
///
/// # Safety
/// Every pointer points to `count` elements of `dtype`. The elements of `from` are initialised, and no other thread or
/// process writes them during the call; the elements of `to` are neither read nor written by others. `to` equals one of
/// `from` or overlaps none.
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
    // SAFETY: the caller's promise, for elements of the type that `dtype` names.
    unsafe { kernel(work) };
    true
}

/// A function that combines elements of one type with one operation.
///
/// # Safety
/// The contract of [`reduce`], for elements of that type.
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
        ReduceOp::Sum => wide::<Folded<E, 0>, false>,
        ReduceOp::Product => wide::<Folded<E, 1>, false>,
        ReduceOp::Min => wide::<Folded<E, 2>, false>,
        ReduceOp::Max => wide::<Folded<E, 3>, false>,
        ReduceOp::Average => wide::<Mean<E>, false>,
    }
}

/// Copies bytes from or to memory that ranks share.
///
/// # Safety
/// Both pointers point to `len` bytes, which do not overlap. During the call no one else writes the source or accesses
/// the target.
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
    // A copy is the sum of one source.
    // SAFETY: the caller's promise, for the whole words.
    unsafe { wide::<Folded<u64, 0>, true>(work) };
    let (from, to) = (from.wrapping_add(done), to.wrapping_add(done));
    // SAFETY: the caller's promise, for the remaining bytes.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len - done) };
}

/// The steps of a reduction on a block of elements: widen, combine, narrow.
trait Fold {
    type Element: Number;
    type Wide: Copy;
    fn open<const N: usize>(block: [Self::Element; N]) -> [Self::Wide; N];
    fn combine(one: Self::Wide, next: Self::Wide) -> Self::Wide;
    fn close<const N: usize>(block: [Self::Wide; N], ranks: usize) -> [Self::Element; N];
}

/// Sum, product, minimum and maximum, selected by a number.
struct Folded<E, const OP: u8>(E);

impl<E: Number, const OP: u8> Fold for Folded<E, OP> {
    type Element = E;
    type Wide = E::Wide;

    #[inline(always)]
    fn open<const N: usize>(block: [E; N]) -> [E::Wide; N] {
        E::widen(block)
    }

    #[inline(always)]
    fn combine(one: E::Wide, next: E::Wide) -> E::Wide {
        match OP {
            0 => one.add(next),
            1 => one.multiply(next),
            2 => one.least(next),
            _ => one.most(next),
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
    fn combine(one: E::Total, next: E::Total) -> E::Total {
        one.add(next)
    }

    #[inline(always)]
    fn close<const N: usize>(block: [E::Total; N], ranks: usize) -> [E; N] {
        E::means(block, ranks)
    }
}

/// Runs [`fold`] with the widest registers that this processor has. `STREAMS` says whether stores may go past the
/// caches; only a copy needs that.
///
/// Without optimisation no compiler uses wide registers, so a debug build contains one variant of each kernel instead
/// of three. The tests of this crate contain all of them.
///
/// # Safety
/// The contract of [`reduce`], for elements of type `F::Element`.
unsafe fn wide<F: Fold, const STREAMS: bool>(work: Work<'_>) {
    #[cfg(all(target_arch = "x86_64", not(miri), any(test, not(debug_assertions))))]
    {
        /// # Safety
        /// The contract of [`fold`].
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        unsafe fn avx512<F: Fold, const STREAMS: bool>(work: Work<'_>) {
            // SAFETY: the caller's promise.
            unsafe { fold::<F, STREAMS>(work) }
        }
        /// # Safety
        /// The contract of [`fold`].
        #[target_feature(enable = "avx2")]
        unsafe fn avx2<F: Fold, const STREAMS: bool>(work: Work<'_>) {
            // SAFETY: the caller's promise.
            unsafe { fold::<F, STREAMS>(work) }
        }
        let has = |it: bool| it && work.count >= FEW;
        if has(is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl"))
        {
            // SAFETY: the processor has these instructions; the rest is the caller's promise.
            return unsafe { avx512::<F, STREAMS>(work) };
        }
        if has(is_x86_feature_detected!("avx2")) {
            // SAFETY: the processor has these instructions; the rest is the caller's promise.
            return unsafe { avx2::<F, STREAMS>(work) };
        }
    }
    // SAFETY: the caller's promise.
    unsafe { fold::<F, STREAMS>(work) }
}

/// # Safety
/// The contract of [`reduce`], for elements of type `F::Element`.
#[inline(always)]
unsafe fn fold<F: Fold, const STREAMS: bool>(work: Work<'_>) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if STREAMS && work.stores == Stores::Streaming && work.to.addr().is_multiple_of(16) {
        // SAFETY: the caller's promise.
        unsafe { fold_with::<F, true>(work) };
        // These stores bypass the usual order of stores. The fence orders them before the later stores that tell other
        // ranks about them.
        // SAFETY: SSE is part of x86-64.
        return unsafe { std::arch::x86_64::_mm_sfence() };
    }
    // SAFETY: the caller's promise.
    unsafe { fold_with::<F, false>(work) }
}

/// # Safety
/// The contract of [`fold`].
#[inline(always)]
unsafe fn fold_with<F: Fold, const STREAMING: bool>(work: Work<'_>) {
    // SAFETY: the caller's promise, for all `work.count` elements.
    let at = unsafe { blocks::<F, STREAMING, BLOCK>(work, 0) };
    // SAFETY: as above.
    let at = unsafe { blocks::<F, false, FEW>(work, at) };
    // SAFETY: as above.
    unsafe { blocks::<F, false, 1>(work, at) };
}

/// Combines whole blocks of `N` elements from element `at` on. Returns the index of the first element that is left.
///
/// # Safety
/// The contract of [`fold`].
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
            // SAFETY: `N` more elements lie behind every source; every bit pattern of them is a number, and no one
            // writes them.
            F::open::<N>(unsafe { block.read_unaligned() })
        };
        let mut combined = load(first);
        for from in rest {
            let next = load(from);
            combined
                .iter_mut()
                .zip(next)
                .for_each(|(all, next)| *all = F::combine(*all, next));
        }
        let block = F::close(combined, work.from.len());
        let to = work.to.cast::<F::Element>().wrapping_add(at);
        // SAFETY: the target has room for `N` more elements, and no one else uses it; the sources of this block have
        // been read.
        unsafe { store::<F::Element, STREAMING, N>(to, &block) };
        at += N;
    }
    at
}

/// # Safety
/// There is room for the block behind `to`. If `STREAMING`, `to` is a multiple of 16.
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
