//! Lineage: how a value that is lost is made again, without clocks, locks or letters.
//!
//! A call that was declared `pure` may run again: its function gives the same value for the same arguments. The owner of its value
//! keeps the call's description, its *spec*, as long as somebody may need the value: whoever holds a reference to it, or to the value
//! of a call that reads it. When a value is lost, its call runs again under the same name, after the calls whose values it reads and
//! that are gone as well. The idea is that of Ray and, before it, of Spark's resilient datasets.
//!
//! - `call_digest`: names of calls, by what they do and in which place;
//! - `lost`: why a value cannot be made again;
//! - `table`: the specs and the steps;
//! - `nested`: calls that a pure call has submitted, and that it finds again when it runs again.
//!
//! Its invariants:
//! - `LINEAGE-1`: a call that is not pure runs once at most, and a pure one `retries + 1` times: deaths of its workers and losses of
//!   its value count alike. An attempt that its worker never got, or has given back before its function had begun, does not count, nor does a
//!   value that was dropped, for want of room or because nobody needed it.
//! - `LINEAGE-2`: a result of an attempt that was given up is refused.
//! - `LINEAGE-3`: a value that is there is not made again, and one loss has one run, however many ask.
//! - `LINEAGE-4`: a value is kept while it is referenced or a call that has not ended reads it; a spec while its value may be needed.
//! - `LINEAGE-5`: specs take at most the limit of bytes, but for those of calls that have not ended.
//! - `LINEAGE-6`: whoever waits for a value gets it, or the reason why there is none.
//! - `LINEAGE-7`: a call that a pure call submits again while it is known is not another call: it is adopted. So long as the outer call may run
//!   again, the values of the calls that it has submitted and that may not are held on its behalf: these run once at most, however often the outer
//!   one runs.

mod call_digest;
mod lost;
mod mutant;
mod nested;
mod table;

#[cfg(test)]
mod model;

pub use call_digest::CallDigest;
pub(crate) use call_digest::{NestedPlace, PutContent, ReferenceName};
pub(crate) use lost::LOSSES;
pub use lost::{Loss, Lost};
pub(crate) use nested::NestedSpec;
pub(crate) use table::{Lineage, LineageStep, Spec};

/// The times that a pure call is run again by default.
pub(crate) const RETRIES: u32 = 4;
