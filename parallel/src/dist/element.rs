//! The numbers of which a distributed array is made.

use selvedge_channels::Element;
use selvedge_core::RemoteCall;
use selvedge_macros::remote_below_graphs as remote;

/// A number of which a [`DistArray`](super::DistArray) may be distributed: `f32`, `f64`, `i32`, `i64`, `u32`, `u64`.
pub trait DistElement: Element {
    /// Describes the call that has a worker hold a part.
    #[doc(hidden)]
    fn hold(part: Vec<Self>) -> RemoteCall<Vec<Self>>;
}

macro_rules! dist_elements {
    ($($element:ident $hold:ident),*) => { $(
        #[remote]
        fn $hold(part: Vec<$element>) -> Vec<$element> {
            part
        }

        impl DistElement for $element {
            fn hold(part: Vec<Self>) -> RemoteCall<Vec<Self>> {
                $hold::remote(part)
            }
        }
    )* };
}

dist_elements!(f32 hold_f32, f64 hold_f64, i32 hold_i32, i64 hold_i64, u32 hold_u32, u64 hold_u64);
