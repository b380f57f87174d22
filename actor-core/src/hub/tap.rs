//! The tap of a link: how many frames and bytes of each service it has carried.

use selvedge_cluster::frame::Service;

/// Frames and bytes of one service on one link, in both directions. A frame counts with its header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceTraffic {
    /// Frames that were handed to the link.
    pub frames_sent: u64,
    /// Bytes that were handed to the link.
    pub bytes_sent: u64,
    /// Frames that have arrived.
    pub frames_received: u64,
    /// Bytes that have arrived.
    pub bytes_received: u64,
}

/// The traffic of one service between this process and another one: an entry of
/// [`Runtime::traffic`](crate::Runtime::traffic).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkTraffic {
    /// The number of the other process.
    pub process: u32,
    /// The service: `calls`, `fetches`, `references`, `channels`, `stores`, `transfers` (copies of stored
    /// objects on their way to other hosts), `graphs` (the edges of graphs that cross hosts) or `acknowledgements`.
    pub service: &'static str,
    /// The counts.
    pub counts: ServiceTraffic,
}

/// The counts of a link, whose services are a dozen at most. A frame counts as sent when it is handed to the link.
#[derive(Debug, Default)]
pub(super) struct Tap(Vec<(Service, ServiceTraffic)>);

impl Tap {
    pub(super) fn note_sent(&mut self, service: Service, bytes: usize) {
        self.note(service, |traffic| {
            traffic.frames_sent += 1;
            traffic.bytes_sent += bytes as u64;
        });
    }

    pub(super) fn note_received(&mut self, service: Service, bytes: usize) {
        self.note(service, |traffic| {
            traffic.frames_received += 1;
            traffic.bytes_received += bytes as u64;
        });
    }

    pub(super) fn counts(&self) -> Vec<(Service, ServiceTraffic)> {
        let mut counts = self.0.clone();
        counts.sort_unstable_by_key(|(service, _)| *service);
        counts
    }

    fn note(&mut self, service: Service, note: impl FnOnce(&mut ServiceTraffic)) {
        match self.0.iter_mut().find(|(known, _)| *known == service) {
            Some((_, traffic)) => note(traffic),
            None => {
                let mut traffic = ServiceTraffic::default();
                note(&mut traffic);
                self.0.push((service, traffic));
            }
        }
    }
}
