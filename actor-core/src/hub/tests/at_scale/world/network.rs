//! The connections between the driver and its workers, and the queue of events.

use std::time::Duration;

use selvedge_cluster::peer::Peer;

use super::worker::place;
use super::{ScaleEvent, ScaleWorld};
use crate::hub::notice::Notice;
use crate::hub::tests::dice;

/// The time after which TCP sends a lost packet again; it doubles.
const RESEND: Duration = Duration::from_millis(200);

/// What is on its way to a worker.
pub(super) enum Down {
    Ping,
    Notices(Vec<Notice>),
    /// The driver has closed the connection.
    Closed,
}

/// What is on its way to the driver.
pub(super) enum Up {
    Pong,
    /// The connection has ended, and nobody listens at the worker's place any more.
    Gone,
}

impl ScaleWorld {
    pub(super) fn send_down(&mut self, peer: Peer, down: Down) {
        let arrives = self.arrival(peer, true);
        self.at(arrives, ScaleEvent::ToWorker(peer, down));
    }

    pub(super) fn send_up(&mut self, peer: Peer, up: Up) {
        let arrives = self.arrival(peer, false);
        self.at(arrives, ScaleEvent::ToDriver(peer, up));
    }

    /// The moment at which something arrives that is sent now: not before what was sent before it.
    pub(super) fn arrival(&mut self, peer: Peer, is_down: bool) -> Duration {
        let (mut leaves, mut pause) = (self.now, RESEND);
        let cut = self.hosts[self.host(peer)].cut;
        let is_cut = |at: Duration| cut.is_some_and(|(from, until)| (from..until).contains(&at));
        while is_cut(leaves) || self.draw() % 1000 < self.setting.loss_per_mille {
            leaves += pause;
            pause *= 2;
        }
        let arrives = leaves + self.delay(peer);
        let place = place(peer);
        let Some(process) = self.processes[place].as_mut().filter(|it| it.peer == peer) else {
            return arrives;
        };
        let last = match is_down {
            true => &mut process.last_down,
            false => &mut process.last_up,
        };
        *last = arrives.max(*last);
        *last
    }

    pub(super) fn delay(&mut self, peer: Peer) -> Duration {
        let host = self.host(peer) as u64;
        let micros = match host % 10 {
            0..5 => 50,
            5..8 => 500,
            _ => 5_000 + host * 7_919 % 145_000,
        };
        let jitter = self.draw() % (micros / 5 + 1);
        Duration::from_micros(micros + jitter)
    }

    pub(super) fn at(&mut self, at: Duration, event: ScaleEvent) {
        self.last_event += 1;
        self.events.insert((at, self.last_event), event);
    }

    pub(super) fn draw(&mut self) -> u64 {
        dice(&mut self.random)
    }

    pub(super) fn below(&mut self, end: Duration) -> Duration {
        Duration::from_micros(self.draw() % (end.as_micros() as u64).max(1))
    }
}
