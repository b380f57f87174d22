use std::hint::black_box;
use std::time::Duration;

use selvedge_channels::{ChannelOptions, Reader, Wire, Writer};

use super::{Ends, Kind};
use crate::case::Case;

/// selvedge-channels.
pub(crate) struct Ours;

/// The time limit for waiting on the other side.
const PATIENCE: Duration = Duration::from_secs(20);

impl Kind for Ours {
    type Sender<T: Wire> = Writer<T>;
    type Receiver<T: Wire> = Reader<T>;

    fn make<T: Wire>(room: usize, case: &Case) -> anyhow::Result<Ends<Self, T>> {
        let options = ChannelOptions::new()
            .slots(room)
            .readers(case.readers)
            .timeout(PATIENCE);
        Ok(options.waiting(case.waiting).threads()?)
    }

    fn send<T: Wire>(to: &mut Writer<T>, value: T) -> anyhow::Result<()> {
        Ok(to.send(value).map_err(|refused| refused.error)?)
    }

    fn receive<T: Wire>(from: &mut Reader<T>) -> Option<T> {
        from.recv().ok()
    }

    fn send_many(to: &mut Writer<u64>, count: usize) -> anyhow::Result<()> {
        let mut values = std::iter::repeat_n(7, count);
        Ok(to
            .send_all(&mut values)
            .map_err(|refused| refused.error)
            .map(drop)?)
    }

    fn receive_many(from: &mut Reader<u64>, most: usize) -> bool {
        let mut taken = Vec::with_capacity(most);
        let found = from.recv_many(most, &mut taken).is_ok();
        black_box(taken);
        found
    }
}
