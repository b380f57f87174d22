//! What goes wrong, and when.

use std::time::Duration;

use selvedge_cluster::peer::Peer;

use super::network::Up;
use super::worker::place;
use super::{START_TIME, STARTS, ScaleEvent, ScaleWorld};
use crate::hub::tests::at_scale::ScaleSetting;

/// The time before and after the cut, and before the end, in which nothing else goes wrong.
const QUIET: Duration = Duration::from_secs(120);
const CUT_TIME: Duration = Duration::from_secs(30);
/// The time after which a worker that reaches nobody has given up its connection, and has not got another one
/// (`TCP_USER_TIMEOUT`, and 5 s for dialling).
const GIVE_UP: Duration = Duration::from_secs(19);

impl ScaleWorld {
    /// Plans the starts, and all faults.
    pub(super) fn plan(&mut self) {
        let ScaleSetting {
            hosts,
            workers,
            time,
            kills,
            freezes,
            pauses,
            cut_percent,
            ..
        } = self.setting;
        for place in 0..hosts * workers {
            let at = self.below(STARTS);
            self.at(at, ScaleEvent::Start(place));
        }
        for _ in 0..kills {
            let (at, place) = (self.quiet_moment(), self.draw() as usize % (hosts * workers));
            self.at(at, ScaleEvent::Kill(place));
        }
        for number in 0..freezes + pauses {
            let (at, host) = (self.quiet_moment(), self.draw() as usize % hosts);
            let [least, more] = match number < freezes {
                true => [15, 15],
                false => [0, 4],
            };
            let lasts = Duration::from_secs(least) + self.below(Duration::from_secs(more));
            self.at(at, ScaleEvent::StandStill(host, lasts));
        }
        if cut_percent > 0 {
            self.at(time / 2, ScaleEvent::Cut);
        }
    }

    /// A moment at which something goes wrong: not at the start, the cut or the end.
    pub(super) fn quiet_moment(&mut self) -> Duration {
        let half = self.setting.time / 2;
        let span = half - QUIET - STARTS - QUIET;
        let first = QUIET + STARTS + self.below(span);
        match self.draw() % 2 {
            0 => first,
            _ => first + half,
        }
    }

    pub(super) fn stand_still(&mut self, host: usize, lasts: Duration) {
        let host = &mut self.hosts[host];
        if self.now >= host.stands_still_until {
            host.silent_since = self.now;
            host.stands_still_until = self.now + lasts;
        }
    }

    pub(super) fn kill(&mut self, place: usize) {
        let host = self.hosts[place / self.setting.workers];
        let living = self.processes[place].as_ref().map(|it| it.peer);
        match living {
            Some(peer) if self.members.contains_key(&peer) && self.now >= host.stands_still_until => {
                self.killed.insert(peer, self.now);
                self.end(peer);
            }
            // Later, so that as many are killed as were asked for.
            _ => self.at(self.now + START_TIME, ScaleEvent::Kill(place)),
        }
    }

    /// A process ends, and is started again. Its system ends its connection; the driver dials its place, and finds nobody.
    pub(super) fn end(&mut self, peer: Peer) {
        let place = place(peer);
        if self.processes[place].as_ref().is_none_or(|it| it.peer != peer) {
            return;
        }
        let ended = self.arrival(peer, false);
        let process = self.processes[place].take();
        self.under_way -= process.map_or(0, |it| it.unread);
        let known = ended + 2 * self.delay(peer);
        self.at(known, ScaleEvent::ToDriver(peer, Up::Gone));
        self.at(self.now + START_TIME, ScaleEvent::Start(place));
    }

    pub(super) fn cut(&mut self) {
        let until = self.now + CUT_TIME;
        for host in 0..self.setting.hosts * self.setting.cut_percent / 100 {
            // Those far away and those near, as they come.
            self.hosts[host].cut = Some((self.now, until));
            self.hosts[host].silent_since = self.now;
            for place in host * self.setting.workers..(host + 1) * self.setting.workers {
                if let Some(peer) = self.processes[place].as_ref().map(|it| it.peer) {
                    self.at(self.now + GIVE_UP, ScaleEvent::GiveUp(peer));
                }
            }
        }
        self.cut_ended = Some(until);
    }
}
