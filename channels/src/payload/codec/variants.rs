//! The variants of an enum that a trial has read so far.

/// The progress of the trial of an enum.
pub(super) struct Enum {
    pub(super) variants: Vec<Tried>,
    /// The first variant that was read to its end. Reading it again always ends.
    pub(super) first_read: Option<usize>,
}

#[derive(Clone, Default)]
pub(super) struct Tried {
    pub(super) is_started: bool,
    /// The number of reads of this variant in progress, nested in one another.
    pub(super) running: usize,
    /// True if an enum inside this variant has variants that were not read yet.
    pub(super) is_open: bool,
}

impl Enum {
    pub(super) fn new(variants: usize) -> Self {
        Enum {
            variants: vec![Tried::default(); variants],
            first_read: None,
        }
    }

    /// The variant to be read next: an unread one, one with unread ones inside, or one whose reading always ends.
    pub(super) fn next(&self) -> usize {
        let find = |wanted: fn(&Tried) -> bool| {
            let mut idle = self.variants.iter().enumerate();
            idle.find(|(_, tried)| tried.running == 0 && wanted(tried))
        };
        find(|tried| !tried.is_started)
            .or_else(|| find(|tried| tried.is_open))
            .map(|(index, _)| index)
            .or(self.first_read)
            .or_else(|| find(|_| true).map(|(index, _)| index))
            .unwrap_or(0)
    }

    pub(super) fn is_open(&self) -> bool {
        let mut idle = self.variants.iter().filter(|tried| tried.running == 0);
        idle.any(|tried| !tried.is_started || tried.is_open)
    }
}
