//! A copy whose stores bypass the caches: the fastest kind for memory that is larger than the caches.
#![allow(unsafe_code)] // streaming stores are compiler intrinsics

/// Copies as many elements as both slices have.
pub fn copy(from: &[f32], to: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_loadu_ps, _mm_sfence, _mm_stream_ps};

        let len = from.len().min(to.len());
        // Streaming stores need addresses that are multiples of 16.
        let ahead = (to.as_ptr().align_offset(16)).min(len);
        let whole = (len - ahead) / 4 * 4;
        let (Some(source), Some(target)) = (from.get(..len), to.get_mut(..len)) else {
            return;
        };
        let (first, source) = source.split_at(ahead);
        let (begin, target) = target.split_at_mut(ahead);
        begin.copy_from_slice(first);
        let (source, last) = source.split_at(whole);
        let (target, end) = target.split_at_mut(whole);
        for (from, to) in source.chunks_exact(4).zip(target.chunks_exact_mut(4)) {
            // SAFETY: the chunk has four numbers to read; SSE is part of x86-64.
            let four = unsafe { _mm_loadu_ps(from.as_ptr()) };
            // SAFETY: the chunk has room for four numbers, and its address is a multiple of 16.
            unsafe { _mm_stream_ps(to.as_mut_ptr(), four) };
        }
        // SAFETY: SSE is part of x86-64. The fence orders the streaming stores above before any later store that
        // publishes them.
        unsafe { _mm_sfence() };
        end.copy_from_slice(last);
    }
    #[cfg(not(target_arch = "x86_64"))]
    to.copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_copy_is_a_copy_from_any_address() {
        let from: Vec<f32> = (0..103).map(|at| at as f32).collect();
        for start in 0..5 {
            let mut to = vec![-1.0; 103];
            super::copy(&from[start..], &mut to[start..]);
            assert_eq!(to[start..], from[start..]);
            assert!(to[..start].iter().all(|it| *it == -1.0));
        }
    }
}
