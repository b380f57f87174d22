//! Events, which happen to a process, and actions, which it has to perform.

use std::time::Duration;

use selvedge_cluster::peer::Peer;

use super::{Bundle, Leak, Parcel, RefError, RefId};

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A frame with parcels has arrived, exactly once and in order. Each [`Parcel::Given`] and [`Parcel::Lent`] counts
    /// as a handle from here on, until it is dropped or discarded.
    Arrived {
        /// The sender.
        from: Peer,
        /// The receiver's name for the call in the frame; [`Action::Run`], [`Action::RefuseCall`] or [`Action::Abandon`]
        /// names it.
        call: u64,
        /// The parcels of the frame.
        parcels: Vec<Parcel>,
    },
    /// A bundle of messages has arrived, in any order and any number of times.
    Heard {
        /// The sender.
        from: Peer,
        /// The bundle.
        bundle: Bundle,
    },
    /// A handle was dropped.
    Dropped(RefId),
    /// A parcel was not taken out of its frame: the body was refused, or thrown away undecoded.
    Discarded(RefId),
    /// A frame with this parcel was never handed to any link.
    NotSent {
        /// The intended receiver.
        to: Peer,
        /// The parcel.
        parcel: Parcel,
    },
    /// A process asks for the value of an object here, and is told as soon as there is one.
    Fetch {
        /// The asker.
        from: Peer,
        /// The asker's name for the question.
        question: u64,
        /// The reference.
        id: RefId,
    },
    /// Some frame is about to go to this process, so that waiting messages can go along.
    Flush(Peer),
    /// Time has passed.
    Tick,
    /// A process has died, or was declared dead. Nothing of this incarnation is heard any more.
    Dead(Peer),
    /// No process of this name has ever been a member: a bundle for it cannot be sent.
    Unknown(Peer),
    /// The process shuts down: all handles are dropped, and calls with references and fetches are refused.
    /// [`Action::Ended`] follows, at the deadline at the latest. Go on with events until then, for as long as there are
    /// links.
    End {
        /// The time at which the shutdown ends, whatever is left.
        deadline: Duration,
    },
}

/// Something that has to be done, in the order given. None of them waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send a loose frame.
    Send {
        /// The receiver.
        to: Peer,
        /// The content.
        bundle: Bundle,
    },
    /// Run the call: its references are confirmed or lost, and objects among them that live here exist.
    Run {
        /// The name of the call, from [`Event::Arrived`].
        call: u64,
    },
    /// Refuse the call with an error, which says whether it was too many or this process shuts down. Its parcels are no
    /// handles.
    RefuseCall {
        /// The name of the call.
        call: u64,
        /// The reason.
        error: RefError,
    },
    /// Drop the call without running it, with its parcels: its caller is dead, or this process shuts down.
    Abandon {
        /// The name of the call.
        call: u64,
    },
    /// A process asks for more entries here than it may have; a lawful one repeats its question until there is room. Report
    /// it, or end its session and bury it.
    Overloaded {
        /// The process.
        peer: Peer,
        /// The figures, as [`RefError::TooMany`].
        error: RefError,
    },
    /// The owner has listed this process.
    Confirmed(RefId),
    /// The owner has not confirmed in time that it keeps this result: the object may not exist. The reference can be used
    /// if [`Action::Confirmed`] follows nevertheless.
    TimedOut(RefId),
    /// The object is lost for this process: its owner is dead, or it was freed since the parent of this reference died. If a living owner
    /// makes it again, and the reference arrives anew, [`Action::Confirmed`] follows.
    Lost(RefId),
    /// An object here will never be made, since its creator is gone and the call has not begun: put an error into its cell.
    Failed(RefId),
    /// Answer a fetch with the content of the object's cell.
    Answer {
        /// The asker.
        to: Peer,
        /// The asker's name for the question.
        question: u64,
        /// The reference.
        id: RefId,
    },
    /// Answer a fetch with an error: the object was freed.
    Refuse {
        /// The asker.
        to: Peer,
        /// The asker's name for the question.
        question: u64,
        /// The reference.
        id: RefId,
    },
    /// Answer a fetch with an error: its asker has too many entries here.
    RefuseFetch {
        /// The asker.
        to: Peer,
        /// The asker's name for the question.
        question: u64,
        /// The figures, as [`RefError::TooMany`].
        error: RefError,
    },
    /// The object has no references left: drop it.
    Free(RefId),
    /// The shutdown is over.
    Ended {
        /// Everything that is left; nothing, if the shutdown was over before its deadline.
        leaks: Vec<Leak>,
    },
}
