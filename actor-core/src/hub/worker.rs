//! The hub of a worker, which learns from the driver who lives, and asks it for links.

use std::io;
use std::sync::Arc;

use selvedge_cluster::peer::Peer;
use tokio::runtime::Handle;

use super::link_end::LinkEnd;
use super::membership::Membership;
use super::notice::Notice;
use super::peer_table::PeerStatus;
use super::reactor::start_reactor;
use super::settings::LinkSettings;
use super::{Hub, Role};
use crate::platform::peer_socket::PeerEnd;

/// Asks the driver for a link to a peer.
pub(super) type Ask = Box<dyn Fn(Peer) + Send + Sync>;

impl Hub {
    /// The hub of worker `me`. `ask` asks the driver for a link to a peer.
    pub(crate) fn of_worker(
        me: Peer,
        driver: Peer,
        settings: LinkSettings,
        ask: impl Fn(Peer) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let hub = Self::new(me, Role::Worker(Box::new(ask)), settings);
        hub.expect(driver);
        Membership::register(&hub, None);
        hub
    }

    /// The driver is another one than before: asks it for the links that the last one has not made.
    #[cfg(feature = "hosts")]
    pub(crate) fn ask_again(&self) {
        let Role::Worker(ask) = &self.role else { return };
        let links = self.table.lock().links();
        let wanted = links.iter().filter(|link| link.is_asked_for());
        wanted.for_each(|link| ask(link.peer()));
    }

    /// Takes a notice of the driver, with the end of a pair that came with it.
    pub(crate) fn notice(&self, notice: Notice, end: Option<PeerEnd>) {
        match notice {
            Notice::Job(peer, name) => {
                self.note_job(peer);
                self.notice(Notice::Joined(peer, name), None);
            }
            Notice::Joined(peer, name) => {
                if let Some(name) = name {
                    self.names.note(name);
                }
                if peer != self.me {
                    self.expect(peer);
                }
            }
            Notice::Leaves(peer) => self.table.lock().note_leaving(peer),
            Notice::Died(peer, end) => {
                self.ends.told(peer, end);
                // Known from now on, so that its death is announced even if no letter ever went there.
                self.expect(peer);
                self.bury(peer);
            }
            Notice::Survivors { below, living } => self.bury_all_but(below, living),
            Notice::Linked(peer) => self.linked(peer, end),
            Notice::NotLinked(peer, why) => self.close_link(peer, LinkEnd::NoLink(why)),
            // Whoever reads the notices dials, and tells the result by `adopt` or `NotLinked`.
            Notice::Dial { .. } => {}
        }
    }

    /// The processes with numbers below this one are dead, but for these.
    fn bury_all_but(&self, below: u32, living: Vec<Peer>) {
        let dead = self
            .table
            .lock()
            .note_survivors(below, living.into_iter().collect());
        for peer in dead {
            self.bury(peer);
        }
    }

    fn linked(&self, peer: Peer, end: Option<PeerEnd>) {
        let PeerStatus::Linked(link) = self.expect(peer) else {
            return;
        };
        let adopted = match end {
            Some(end) => self
                .worker_reactor()
                .and_then(|_| self.connect(&link, end, Vec::new())),
            None => Err(io::Error::other(
                "its descriptor did not arrive: are too many open?",
            )),
        };
        // If the stream is not used, another pair is in use, or the peer is about to be buried.
        if let Err(error) = adopted {
            self.close_link(peer, LinkEnd::NoLink(error.to_string()));
        }
    }

    /// The reactor that reads the links. It starts with the first link or timer.
    pub(super) fn worker_reactor(&self) -> io::Result<Handle> {
        let _one_at_a_time = self.starting.lock();
        if let Some(reactor) = self.reactor.get() {
            return Ok(reactor.clone());
        }
        let reactor = start_reactor()?;
        Ok(self.reactor.get_or_init(|| reactor).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::post::Post;
    use crate::process_end::ProcessEnd;
    use crate::testing::peer;

    #[test]
    fn work_goes_to_peers_that_have_joined_and_stay_and_to_no_other() {
        let hub = Hub::of_worker(peer(2), peer(1), LinkSettings::default(), |_| {});
        // Somebody has named it.
        assert!(hub.is_near(peer(3)));
        assert_eq!(
            (hub.peers(), hub.peer_after(peer(2).process)),
            (vec![peer(1)], None)
        );
        hub.notice(Notice::Joined(peer(3), None), None);
        assert_eq!(hub.peers(), [peer(1), peer(3)]);
        assert_eq!(hub.peer_after(peer(2).process), Some(peer(3)));
        hub.notice(Notice::Leaves(peer(3)), None);
        assert_eq!(
            (hub.peers(), hub.peer_after(peer(2).process)),
            (vec![peer(1)], None)
        );
        assert_eq!(
            hub.peer(peer(3).process),
            Some(peer(3)),
            "whoever names it reaches it"
        );
        hub.notice(Notice::Died(peer(3), ProcessEnd::unknown()), None);
        hub.notice(Notice::Joined(peer(4), None), None);
        assert_eq!(hub.peers(), [peer(1), peer(4)]);
        // The two notices come by different ways.
        hub.notice(Notice::Leaves(peer(5)), None);
        hub.notice(Notice::Joined(peer(5), None), None);
        assert_eq!(hub.peers(), [peer(1), peer(4)]);
        let living = [1, 4, 5].map(peer).to_vec();
        hub.notice(Notice::Survivors { below: 6, living }, None);
        assert_eq!(
            hub.peers(),
            [peer(1), peer(4), peer(5)],
            "the next head has not told it to end"
        );
    }

    #[test]
    fn of_the_processes_of_earlier_lives_of_the_head_only_those_live_that_the_next_one_names() {
        let hub = Hub::of_worker(peer(2), peer(1), LinkSettings::default(), |_| {});
        for number in [3, 4, 5] {
            hub.notice(Notice::Joined(peer(number), None), None);
        }
        let living = vec![peer(1), peer(2), peer(4)];
        hub.notice(Notice::Survivors { below: 5, living }, None);
        // The process with number 5 has joined this life, and was heard of through another one.
        assert_eq!(hub.peers(), [peer(1), peer(4), peer(5)]);
    }
}
