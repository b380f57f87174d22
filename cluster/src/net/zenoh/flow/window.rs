//! The number of fragments that may travel at once: what the way between two nodes bears is found out, as TCP does it (Reno, RFC 5681),
//! because a router drops what it cannot pass on.

use super::FRAGMENTS;

/// The fragments that travel at first.
const FIRST: u32 = 16;
const LEAST: u32 = 2;
const MOST: u32 = FRAGMENTS as u32;

/// The number of fragments that may travel at once, between 2 and 64.
#[derive(Debug)]
pub(super) struct CongestionWindow {
    fragments: u32,
    /// Below this, the window grows with each fragment that is there; above, with each window of them.
    threshold: u32,
    /// The fragments that are there since it has grown.
    counted: u32,
}

impl CongestionWindow {
    pub(super) fn new() -> Self {
        CongestionWindow {
            fragments: FIRST,
            threshold: MOST,
            counted: 0,
        }
    }

    pub(super) fn fragments(&self) -> usize {
        self.fragments as usize
    }

    /// A fragment is there.
    pub(super) fn delivered(&mut self) {
        self.counted += 1;
        if self.fragments < self.threshold || self.counted >= self.fragments {
            self.fragments = (self.fragments + 1).min(MOST);
            self.counted = 0;
        }
    }

    /// Fragments were dropped, and later ones are there.
    pub(super) fn dropped(&mut self) {
        self.threshold = (self.fragments / 2).max(LEAST);
        self.fragments = self.threshold;
        self.counted = 0;
    }

    /// Nothing comes back.
    pub(super) fn silent(&mut self) {
        self.dropped();
        self.fragments = LEAST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_halves_at_a_loss_and_stays_within_its_limits() {
        let mut window = CongestionWindow::new();
        for _ in 0..10_000 {
            window.delivered();
        }
        assert_eq!(window.fragments, MOST);
        window.dropped();
        assert_eq!(window.fragments, MOST / 2);
        for _ in 0..MOST / 2 {
            window.delivered();
        }
        assert_eq!(window.fragments, MOST / 2 + 1);
        for _ in 0..100 {
            window.silent();
        }
        assert_eq!(window.fragments, LEAST);
    }
}
