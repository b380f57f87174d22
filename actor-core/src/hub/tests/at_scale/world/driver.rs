//! The driver: its broker, and its questions for signs of life.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};

use super::network::{Down, Up};
use super::worker::place;
use super::{ScaleEvent, ScaleWorld};
use crate::control::silence::{QUESTIONS, SilentQuestions};
use crate::hub::broker::Courier;
use crate::hub::notice::Notice;
use crate::platform::peer_socket::PeerEnd;
use crate::process_end::ProcessEnd;
use crate::topology::{Names, Station};

/// The notices that the driver has for one worker.
pub(super) struct Outbox {
    pub(super) to: Peer,
    pub(super) notices: Mutex<Vec<Notice>>,
    pub(super) full: Arc<Mutex<Vec<Peer>>>,
}

impl Courier for Outbox {
    fn tell(&self, notice: Notice, _: Option<PeerEnd>) {
        let mut notices = self.notices.lock();
        if notices.is_empty() {
            self.full.lock().push(self.to);
        }
        notices.push(notice);
    }

    fn kill(&self, _: &str) {}
}

/// A member, as the driver knows it.
pub(super) struct WatchedWorker {
    pub(super) outbox: Arc<Outbox>,
    pub(super) unanswered: SilentQuestions,
    pub(super) was_heard: bool,
}

impl ScaleWorld {
    pub(super) fn hello(&mut self, peer: Peer) {
        if self.process(peer).is_none() {
            return;
        }
        // The driver starts a process only once the one before it is buried; a process that starts by itself shows that.
        let before = self.member(peer.process);
        if let Some(before) = before {
            self.bury(before);
        }
        let outbox = Arc::new(Outbox {
            to: peer,
            notices: Mutex::default(),
            full: Arc::clone(&self.full),
        });
        let station = Station {
            listens_at: Some(peer.to_string()),
            names: Names::default(),
        };
        let courier = Arc::clone(&outbox) as Arc<dyn Courier>;
        self.broker.join_and_tell(peer, courier, Some(station));
        let watched = WatchedWorker {
            outbox,
            unanswered: SilentQuestions::default(),
            was_heard: true,
        };
        self.members.insert(peer, watched);
        self.at(
            self.now + self.setting.limit / QUESTIONS,
            ScaleEvent::Question(peer),
        );
    }

    pub(super) fn question(&mut self, peer: Peer) {
        let Some(watched) = self.members.get_mut(&peer) else {
            return;
        };
        let was_heard = std::mem::take(&mut watched.was_heard);
        if watched.unanswered.count(was_heard) {
            self.note_silence(peer);
            return self.bury(peer);
        }
        self.report.letters.0 += 1;
        self.send_down(peer, Down::Ping);
        self.at(
            self.now + self.setting.limit / QUESTIONS,
            ScaleEvent::Question(peer),
        );
    }

    /// A worker is buried because it is silent: rightly if its host was silent for the whole limit, up to now.
    pub(super) fn note_silence(&mut self, peer: Peer) {
        let (setting, now) = (self.setting, self.now);
        let host = self.hosts[self.host(peer)];
        let cut_until = host.cut.map_or(Duration::ZERO, |(_, until)| until);
        let until = host.stands_still_until.max(cut_until);
        let silent_for = now - host.silent_since;
        // The question before the last answer, and the ways of the answers before and after the silence.
        let slack = setting.limit / QUESTIONS + Duration::from_millis(600);
        let was_silent = silent_for + slack >= setting.limit && until + slack >= now;
        match was_silent {
            true => self.report.silences.push(silent_for),
            false => self.broken(format!("{peer} could be heard, and was buried")),
        }
    }

    pub(super) fn bury(&mut self, peer: Peer) {
        if self.members.remove(&peer).is_none() {
            return;
        }
        drop(self.broker.bury(peer, &ProcessEnd::unknown()));
        if let Some(at) = self.killed.remove(&peer) {
            self.report.kills.push(self.now - at);
        }
        self.send_down(peer, Down::Closed);
    }

    pub(super) fn arrive_at_driver(&mut self, peer: Peer, up: Up) {
        self.report.letters.1 += 1;
        match up {
            Up::Pong => {
                if let Some(watched) = self.members.get_mut(&peer) {
                    watched.was_heard = true;
                }
            }
            Up::Gone => self.bury(peer),
        }
    }

    /// Sends what the driver has to tell.
    pub(super) fn flush(&mut self) {
        let full = std::mem::take(&mut *self.full.lock());
        for peer in full {
            let Some(watched) = self.members.get(&peer) else {
                continue;
            };
            let notices = std::mem::take(&mut *watched.outbox.notices.lock());
            let count = notices.len();
            let place = place(peer);
            if let Some(process) = self.processes[place].as_mut().filter(|it| it.peer == peer) {
                process.unread += count;
                self.under_way += count;
            }
            self.report.letters.0 += count as u64;
            self.report.notices += count as u64;
            self.send_down(peer, Down::Notices(notices));
        }
    }

    pub(super) fn member(&self, process: ProcessId) -> Option<Peer> {
        let [first, last] = [0, u32::MAX].map(|number| Peer {
            process,
            incarnation: Incarnation(number),
        });
        self.members.range(first..=last).next().map(|(peer, _)| *peer)
    }
}
