//! The tap of a link: how many frames and bytes of each service it has carried.

use std::collections::BTreeMap;

use selvedge_cluster::frame::Service;

/// Frames and bytes of one service on one link, in both directions. A frame counts with its header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServiceTraffic {
    pub(crate) frames_sent: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) frames_received: u64,
    pub(crate) bytes_received: u64,
}

/// The counts of a link. A frame counts as sent when it is handed to the link.
#[derive(Debug, Default)]
pub(super) struct Tap(BTreeMap<Service, ServiceTraffic>);

impl Tap {
    pub(super) fn note_sent(&mut self, service: Service, bytes: usize) {
        let traffic = self.0.entry(service).or_default();
        traffic.frames_sent += 1;
        traffic.bytes_sent += bytes as u64;
    }

    pub(super) fn note_received(&mut self, service: Service, bytes: usize) {
        let traffic = self.0.entry(service).or_default();
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
