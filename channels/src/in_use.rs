//! The words that keep the views and the parts of an array apart (`ARR-2`), wherever they lie.
//!
//! Whoever opens a view counts it in its own slot, executes a fence, and looks for claims; whoever claims a part sets its claim,
//! executes a fence, and looks for views (Dekker's pattern). The one whose fence comes second in the single order of SeqCst
//! fences sees the word of the other and gives up. Both may. Model: `tests/loom.rs`.

use crate::sync::{AtomicU64, Ordering, fence};

/// The words of one slot.
#[derive(Debug)]
pub struct UseWords<'a> {
    /// The number of views.
    pub views: &'a AtomicU64,
    /// 1 while the part is claimed, else 0.
    pub claim: &'a AtomicU64,
}

/// The slots of an array.
pub trait Slots {
    /// The error of a slot that is none.
    type Error;

    /// The number of slots.
    fn count(&self) -> usize;

    /// The words of a slot.
    ///
    /// # Errors
    /// There is no such slot.
    fn words(&self, slot: usize) -> Result<UseWords<'_>, Self::Error>;

    /// The pid of a slot's process, unless it has ended (`ARR-4`).
    ///
    /// # Errors
    /// There is no such slot.
    fn living(&self, slot: usize) -> Result<Option<u32>, Self::Error>;
}

/// A view or a part that was refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal<E> {
    /// A process, whose pid this is, has claimed its part.
    Claimed(u32),
    /// A process, whose pid this is, has a view.
    Viewed(u32),
    /// No slot has this number.
    Slot(E),
}

/// Counts a view of a slot, unless a part is claimed.
///
/// # Errors
/// [`Refusal::Claimed`]: the view is not counted.
pub fn begin_view<S: Slots>(slots: &S, slot: usize) -> Result<(), Refusal<S::Error>> {
    // First without a count, which would refuse the claims that other processes make beside the one that is found.
    find_claim(slots)?;
    // Relaxed, here and in `begin_part`: the fence orders it. SYNC array-use.
    slots.words(slot)?.views.fetch_add(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    find_claim(slots).inspect_err(|_| end_view(slots, slot))
}

/// Ends a view that has begun.
pub fn end_view<S: Slots>(slots: &S, slot: usize) {
    if let Ok(words) = slots.words(slot) {
        // SYNC array-use: the Release publishes what was written through the view, for whoever claims a part.
        words.views.fetch_sub(1, Ordering::Release);
    }
}

/// Claims the part of a slot, unless it is claimed, or a view is open.
///
/// # Errors
/// [`Refusal::Claimed`], by this process, or [`Refusal::Viewed`]: the part is as before.
pub fn begin_part<S: Slots>(slots: &S, slot: usize) -> Result<(), Refusal<S::Error>> {
    let claim = slots.words(slot)?.claim;
    // Relaxed: the fence orders it, and acquires what the last owner of the part has written. SYNC array-use.
    let claimed = claim.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
    if claimed.is_err() {
        return Err(Refusal::Claimed(std::process::id()));
    }
    fence(Ordering::SeqCst);
    find_view(slots).inspect_err(|_| end_part(slots, slot))
}

/// Gives a part back that was claimed.
pub fn end_part<S: Slots>(slots: &S, slot: usize) {
    if let Ok(words) = slots.words(slot) {
        // SYNC array-use: the Release publishes what was written to the part, for whoever opens a view.
        words.claim.store(0, Ordering::Release);
    }
}

fn find_claim<S: Slots>(slots: &S) -> Result<(), Refusal<S::Error>> {
    find(slots, |words| words.claim, Refusal::Claimed)
}

fn find_view<S: Slots>(slots: &S) -> Result<(), Refusal<S::Error>> {
    find(slots, |words| words.views, Refusal::Viewed)
}

/// Refuses if a living process has a word of a kind that is not zero.
fn find<S: Slots>(
    slots: &S,
    word: impl for<'a> Fn(&UseWords<'a>) -> &'a AtomicU64,
    refusal: impl Fn(u32) -> Refusal<S::Error>,
) -> Result<(), Refusal<S::Error>> {
    for slot in 0..slots.count() {
        // SYNC array-use: the Acquire sees what was written before the view or the part was given up.
        if word(&slots.words(slot)?).load(Ordering::Acquire) != 0
            && let Some(pid) = slots.living(slot)?
        {
            return Err(refusal(pid));
        }
    }
    Ok(())
}

impl<E> From<E> for Refusal<E> {
    fn from(error: E) -> Self {
        Refusal::Slot(error)
    }
}
