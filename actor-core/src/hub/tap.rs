//! The tap of a link: how many frames and bytes of each service it has carried.

use selvedge_cluster::frame::Service;
use selvedge_cluster::id_map::IdMap;

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

/// The counts of a link. A frame counts as sent when it is handed to the link.
#[derive(Debug, Default)]
pub(super) struct Tap(IdMap<Service, ServiceTraffic>);

impl Tap {
    pub(super) fn note_sent(&mut self, service: Service, bytes: usize) {
        let traffic = self.0.or_default(service);
        traffic.frames_sent += 1;
        traffic.bytes_sent += bytes as u64;
    }

    pub(super) fn note_received(&mut self, service: Service, bytes: usize) {
        let traffic = self.0.or_default(service);
        traffic.frames_received += 1;
        traffic.bytes_received += bytes as u64;
    }

    pub(super) fn counts(&self) -> Vec<(Service, ServiceTraffic)> {
        self.0
            .iter()
            .map(|(service, traffic)| (*service, *traffic))
            .collect()
    }
}
