//! The connections of a link that have broken in a row before a frame arrived.

use std::time::Duration;

use super::connection::DIAL_TIMEOUT;

/// The breaks in a row after which another connection may be futile.
const BREAKS_MAX: u32 = 10;

/// The time after which a connection over which nothing was to be said has stood: its break is the first of its row. A peer that
/// takes no connection breaks each one sooner.
const STANDS: Duration = Duration::from_secs(1);

/// The breaks since a frame arrived. Times are those of the link.
///
/// A peer that takes part in each handshake, and drops each connection behind it, has ended the link. A slow one that is reset by
/// something in between has not: so the number of breaks alone says nothing, and the link is dialled for as long as after any break.
#[derive(Debug, Default)]
pub(super) struct Breaks {
    count: u32,
    /// The moment of the first break of the row.
    first: Duration,
    /// The moment at which the present connection was made.
    connected: Duration,
}

impl Breaks {
    /// Another connection was made.
    pub(super) fn connected(&mut self, now: Duration) {
        self.connected = now;
    }

    /// The connection has broken. `awaits_nothing` says that this process had nothing to send, and waited for no acknowledgement.
    pub(super) fn broken(&mut self, now: Duration, awaits_nothing: bool) {
        if awaits_nothing && now.saturating_sub(self.connected) >= STANDS {
            self.count = 0;
        }
        if self.count == 0 {
            self.first = now;
        }
        self.count += 1;
    }

    /// A frame has arrived.
    pub(super) fn arrived(&mut self) {
        self.count = 0;
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Whether the link ends: many connections have broken, for as long as a link may take to get one.
    pub(super) fn is_futile(&self, now: Duration) -> bool {
        self.count > BREAKS_MAX && now.saturating_sub(self.first) >= DIAL_TIMEOUT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Breaks so many connections, one each `every`, each of which has stood for `stood`.
    fn after(count: u32, every: Duration, stood: Duration, awaits_nothing: bool) -> bool {
        let mut breaks = Breaks::default();
        let mut now = Duration::from_secs(60);
        (0..count).any(|_| {
            now += every;
            breaks.connected(now.saturating_sub(stood));
            breaks.broken(now, awaits_nothing);
            breaks.is_futile(now)
        })
    }

    #[test]
    fn connections_that_break_at_once_are_futile_after_the_time_for_a_dial() {
        let soon = Duration::from_millis(1);
        let pause = Duration::from_millis(500);
        for awaits_nothing in [false, true] {
            assert!(!after(10, pause, soon, awaits_nothing));
            assert!(after(12, pause, soon, awaits_nothing));
            // A burst of resets.
            assert!(!after(400, Duration::from_millis(10), soon, awaits_nothing));
        }
    }

    #[test]
    fn an_idle_link_outlives_any_number_of_breaks_and_one_that_awaits_a_frame_does_not() {
        let minute = Duration::from_secs(60);
        assert!(!after(1_000, minute, minute, true));
        assert!(after(12, minute, minute, false));
    }

    #[test]
    fn a_frame_begins_another_row() {
        let mut breaks = Breaks::default();
        for second in 0..100 {
            let now = Duration::from_secs(second);
            breaks.broken(now, false);
            assert!(!breaks.is_futile(now));
            if second % 10 == 9 {
                breaks.arrived();
            }
        }
    }
}
