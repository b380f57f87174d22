//! How a value crosses from actor to actor: what the user asks for, and what it is resolved to.

use serde::{Deserialize, Serialize};

/// What is asked of an edge; the default is [`Transport::Auto`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transport {
    /// Decided by where writer and readers are: see [`resolve`].
    #[default]
    Auto,
    /// Through a channel with slots: the writer goes on while the reader is busy.
    Buffered,
    /// Writer and reader both take part, as in a transfer between accelerators (NCCL's send and recv). The compiler orders
    /// these transfers so that nobody waits in a circle, and posts receives early.
    ///
    /// Between actors on the CPU the bytes go through the same channels as ever, with slots, which only adds freedom.
    Rendezvous,
}

/// What an edge is resolved to; plans know nothing else (TYPE-08).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// Through a channel with slots.
    Buffered,
    /// By a transfer in which both take part.
    Rendezvous,
}

/// Where an end of an edge is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// Whoever executes the graph.
    Driver,
    /// An actor, by host and by accelerator, if it has one.
    Actor {
        /// Number of the host.
        host: u32,
        /// Number of the accelerator on that host.
        device: Option<u32>,
    },
}

/// The decision table (TYPE-07): the way, and why.
///
/// | asked | ends | way |
/// |---|---|---|
/// | `Buffered` | any | buffered |
/// | any | the driver is one | buffered |
/// | `Rendezvous` | two actors | rendezvous |
/// | `Auto` | one has no accelerator | buffered |
/// | `Auto` | the same accelerator of the same host | buffered: by pointer and event |
/// | `Auto` | two accelerators | rendezvous |
pub fn resolve(asked: Transport, writer: Site, reader: Site) -> (Way, &'static str) {
    let (
        Site::Actor { host, device },
        Site::Actor {
            host: other_host,
            device: other_device,
        },
    ) = (writer, reader)
    else {
        return (Way::Buffered, "the driver is one of its ends");
    };
    match (asked, device, other_device) {
        (Transport::Buffered, ..) => (Way::Buffered, "asked for"),
        (Transport::Rendezvous, ..) => (Way::Rendezvous, "asked for"),
        (Transport::Auto, Some(one), Some(other)) if one == other && host == other_host => {
            (Way::Buffered, "both ends are on the same accelerator")
        }
        (Transport::Auto, Some(_), Some(_)) => (Way::Rendezvous, "its ends are on two accelerators"),
        (Transport::Auto, ..) => (Way::Buffered, "an end is an actor without accelerator"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: Site = Site::Actor {
        host: 0,
        device: None,
    };
    const GPU: Site = Site::Actor {
        host: 0,
        device: Some(0),
    };
    const NEXT: Site = Site::Actor {
        host: 0,
        device: Some(1),
    };
    const AWAY: Site = Site::Actor {
        host: 1,
        device: Some(0),
    };

    #[test]
    fn type_07_auto_is_resolved_by_where_the_ends_are() {
        let auto = |writer, reader| resolve(Transport::Auto, writer, reader).0;
        for other in [Site::Driver, CPU, GPU] {
            assert_eq!(auto(Site::Driver, other), Way::Buffered);
            assert_eq!(auto(other, Site::Driver), Way::Buffered);
            assert_eq!(auto(CPU, other), Way::Buffered);
            assert_eq!(auto(other, CPU), Way::Buffered);
        }
        assert_eq!(auto(GPU, GPU), Way::Buffered);
        assert_eq!(auto(GPU, NEXT), Way::Rendezvous);
        assert_eq!(auto(GPU, AWAY), Way::Rendezvous);
    }

    #[test]
    fn type_07_what_is_asked_for_is_given_unless_the_driver_is_an_end() {
        for (asked, way) in [
            (Transport::Buffered, Way::Buffered),
            (Transport::Rendezvous, Way::Rendezvous),
        ] {
            for (writer, reader) in [(CPU, CPU), (CPU, GPU), (GPU, GPU), (GPU, NEXT)] {
                assert_eq!(resolve(asked, writer, reader), (way, "asked for"));
            }
        }
        assert_eq!(resolve(Transport::Rendezvous, Site::Driver, GPU).0, Way::Buffered);
    }
}
