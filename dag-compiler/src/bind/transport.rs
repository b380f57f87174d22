//! Transports: what a user asks for an edge, and which transfers become a rendezvous.

use selvedge_core::{ActorId, ActorRef, IdMap};
use serde::{Deserialize, Serialize};

use super::builder::Builder;
use crate::ir::{ArgIr, Endpoint, Origin, TaskId};

/// The transport that is asked for an edge. The default is [`Transport::Auto`].
///
/// | asked | ends | transfer |
/// |---|---|---|
/// | any | the driver is one | buffered |
/// | `Buffered` | two actors | buffered |
/// | `Rendezvous` | two actors | rendezvous |
/// | `Auto` | one has no device | buffered |
/// | `Auto` | devices of one host | buffered: pointers, slots and copies need no rendezvous |
/// | `Auto` | devices of two hosts | rendezvous |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Transport {
    /// Chosen from the places of writer and readers, as the table says.
    #[default]
    Auto,
    /// Through a channel with slots: the writer continues while the reader is busy.
    Buffered,
    /// Writer and reader both take part, as in a transfer between accelerators (NCCL's send and recv). The compiler
    /// orders these transfers so that no cycle of waiting lanes arises, and posts receives early.
    ///
    /// Between actors on the CPU, the bytes go through the ordinary channels, whose slots only add freedom.
    Rendezvous,
}

impl Transport {
    /// Whether a transfer for which this transport is asked is a rendezvous.
    fn meets(self, writer: Endpoint, reader: Endpoint) -> bool {
        let actors = !writer.driver && !reader.driver;
        actors
            && match self {
                Transport::Buffered => false,
                Transport::Rendezvous => true,
                Transport::Auto => {
                    writer.device.is_some() && reader.device.is_some() && writer.host != reader.host
                }
            }
    }
}

impl Builder {
    /// Marks the arguments whose transfer is a rendezvous (TYPE-07).
    pub(super) fn resolve(&mut self, default: Transport) {
        let endpoint = |actor: &ActorRef| (actor.id(), Endpoint::actor(actor.address(), actor.device()));
        let actors = self.actors.iter().map(endpoint).collect();
        self.resolve_between(default, &actors);
    }

    /// Marks these arguments, for actors at these places.
    fn resolve_between(&mut self, default: Transport, actors: &IdMap<ActorId, Endpoint>) {
        let makers: Vec<ActorId> = self.tasks.iter().map(|task| task.actor).collect();
        let end_of = |actor: Option<&ActorId>| {
            let end = actor.and_then(|actor| actors.get(actor)).copied();
            end.unwrap_or(Endpoint::DRIVER)
        };
        for (index, task) in (0u32..).zip(&mut self.tasks) {
            let reader = end_of(Some(&task.actor));
            for (position, arg) in (0u32..).zip(&task.args) {
                let ArgIr::Value(value) = arg else { continue };
                let writer = match self.values.get(value.index()).map(|value| value.origin) {
                    Some(Origin::Task(maker)) => end_of(makers.get(maker.index())),
                    _ => Endpoint::DRIVER,
                };
                let asked = self.asked.get(&(TaskId(index), position)).copied();
                if asked.unwrap_or(default).meets(writer, reader) {
                    task.meets.push(position);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use selvedge_channels::PayloadType;
    use selvedge_core::{ActorId, Address, HostId, LaneId, ProcessId};

    use super::{Endpoint, Transport};
    use crate::bind::builder::Builder;
    use crate::ir::{ArgIr, SourceLocation};

    fn at(process: u32, device: Option<u32>) -> Endpoint {
        Endpoint::actor(Address::of(ProcessId(process + 1), LaneId(1)), device)
    }

    fn away(end: Endpoint) -> Endpoint {
        Endpoint {
            host: HostId(1),
            ..end
        }
    }

    #[test]
    fn type_07_auto_is_resolved_by_where_the_ends_are() {
        let auto = |writer, reader| Transport::Auto.meets(writer, reader);
        let (host, gpu, next) = (at(1, None), at(1, Some(0)), at(2, Some(1)));
        for other in [Endpoint::DRIVER, host, gpu] {
            assert!(!auto(Endpoint::DRIVER, other));
            assert!(!auto(other, Endpoint::DRIVER));
            assert!(!auto(host, other));
            assert!(!auto(other, host));
        }
        assert!(!auto(gpu, gpu));
        assert!(!auto(gpu, next));
        assert!(auto(gpu, away(gpu)));
        assert!(!auto(host, away(gpu)));
    }

    /// An edge between devices of two hosts is a rendezvous, whatever is asked of other edges.
    #[test]
    fn type_07_an_edge_between_devices_of_two_hosts_depends_on_no_other_edge() {
        let gpu = at(1, Some(0));
        let actors = [(ActorId(0), gpu), (ActorId(1), away(gpu)), (ActorId(2), gpu)];
        for asked in [None, Some(Transport::Buffered)] {
            let mut graph = Builder::default();
            let mut last = graph.input(PayloadType::of::<u32>());
            for (actor, _) in actors {
                let args = vec![ArgIr::Value(last)];
                let task = graph.add_task(actor, (0, "f".into()), args, SourceLocation::default());
                last = graph.result(task, PayloadType::of::<u32>());
                if let (ActorId(2), Some(asked)) = (actor, asked) {
                    graph.asked.insert((task, 0), asked);
                }
            }
            graph.resolve_between(Transport::Auto, &actors.into_iter().collect());
            let meets: Vec<&[u32]> = graph.tasks.iter().map(|task| task.meets.as_slice()).collect();
            let last: &[u32] = if asked.is_none() { &[0] } else { &[] };
            let (none, both): (&[u32], &[u32]) = (&[], &[0]);
            assert_eq!(meets, [none, both, last], "{asked:?}");
        }
    }

    #[test]
    fn type_07_what_is_asked_for_is_given_unless_the_driver_is_an_end() {
        let (host, gpu, next) = (at(1, None), at(1, Some(0)), at(2, Some(1)));
        for (asked, meets) in [(Transport::Buffered, false), (Transport::Rendezvous, true)] {
            for (writer, reader) in [
                (host, host),
                (host, gpu),
                (gpu, gpu),
                (gpu, next),
                (gpu, away(gpu)),
            ] {
                assert_eq!(asked.meets(writer, reader), meets, "{asked:?}");
            }
        }
        assert!(!Transport::Rendezvous.meets(Endpoint::DRIVER, gpu));
    }
}
