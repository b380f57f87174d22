//! The matching of calls between the ranks of a communicator: NCCL's rules, over plain values.
//!
//! A rank posts one group of calls at a time, in the order in which it issued them, whatever the streams. The calls
//! within a group progress independently.
//!
//! * `NCCL-1`: the i-th collective of every rank is one event, and so are the i-th send from a to b and b's i-th
//!   receive from a.
//! * `NCCL-2`: a rank's next group is posted when the last is over.
//! * `NCCL-3`: an event is over for a rank when all its parties have read the data that they need of it. No event is
//!   buffered, however small.

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    AllReduce,
    ReduceScatter,
    AllGather,
    Broadcast,
    Reduce,
    Send,
    Receive,
}

impl Verb {
    pub(crate) const ALL: [Verb; 7] = [
        Verb::AllReduce,
        Verb::ReduceScatter,
        Verb::AllGather,
        Verb::Broadcast,
        Verb::Reduce,
        Verb::Send,
        Verb::Receive,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Verb::AllReduce => "ncclAllReduce",
            Verb::ReduceScatter => "ncclReduceScatter",
            Verb::AllGather => "ncclAllGather",
            Verb::Broadcast => "ncclBroadcast",
            Verb::Reduce => "ncclReduce",
            Verb::Send => "ncclSend",
            Verb::Receive => "ncclRecv",
        }
    }

    fn is_collective(self) -> bool {
        !matches!(self, Verb::Send | Verb::Receive)
    }

    /// Returns the kind of call that the other side of a message makes.
    fn other_side(self) -> Self {
        match self {
            Verb::Send => Verb::Receive,
            Verb::Receive => Verb::Send,
            collective => collective,
        }
    }
}

/// The fields of a call on which its parties must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) verb: Verb,
    pub(crate) count: u64,
    /// The type of elements, by NCCL's number.
    pub(crate) elements: u32,
    /// The reduction, by NCCL's number; 0 if the call has none.
    pub(crate) reduction: u32,
    /// The root or the peer; 0 if the call has none.
    pub(crate) peer: u32,
}

impl Call {
    /// Whether two calls of one event match.
    fn fits(&self, other: &Call) -> bool {
        if self.verb.is_collective() {
            return self == other;
        }
        self.count == other.count && self.elements == other.elements
    }
}

/// A call that its rank has started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Posted {
    pub(crate) call: Call,
    /// The index of this collective, of this send to the peer, or of this receive from it.
    pub(crate) number: u64,
    /// True if the rank has read the data that it needs from the others.
    pub(crate) has_read: bool,
}

/// One rank, as the other ranks see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Party {
    /// True if the rank has aborted: its posted calls are void.
    pub(crate) gone: bool,
    /// The number of collectives that are over.
    pub(crate) collectives: u64,
    /// The number of sends to each rank that are over.
    pub(crate) sends: Vec<u64>,
    /// The number of receives from each rank that are over.
    pub(crate) receives: Vec<u64>,
    /// The group that the rank is executing.
    pub(crate) group: Vec<Posted>,
}

impl Party {
    fn new(ranks: usize) -> Self {
        Party {
            sends: vec![0; ranks],
            receives: vec![0; ranks],
            ..Party::default()
        }
    }

    /// Returns the number of calls of this kind that are over.
    fn over(&self, call: &Call) -> u64 {
        let peer = call.peer as usize;
        match call.verb {
            Verb::Send => self.sends.get(peer).copied().unwrap_or(0),
            Verb::Receive => self.receives.get(peer).copied().unwrap_or(0),
            _ => self.collectives,
        }
    }

    /// Returns the index in the group of the call with this number and of the same kind as `like`.
    fn find(&self, like: &Call, number: u64) -> Option<usize> {
        let is = |posted: &Posted| {
            let same = if like.verb.is_collective() {
                posted.call.verb.is_collective()
            } else {
                posted.call.verb == like.verb && posted.call.peer == like.peer
            };
            same && posted.number == number
        };
        self.group.iter().position(is)
    }
}

/// Another party of an event: its rank, and the index of its call in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Other {
    pub(crate) rank: usize,
    pub(crate) index: usize,
}

/// The progress of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// Not all parties have started.
    Waits,
    /// A party has started a call that does not match.
    Mismatch(usize, Call),
    /// All parties have started.
    Met(Vec<Other>),
}

/// All ranks of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Board {
    pub(crate) parties: Vec<Party>,
}

impl Board {
    /// Creates a board of `ranks` ranks, none of which has started a call.
    #[cfg_attr(not(test), allow(dead_code))] // outside tests, boards are read from shared memory
    pub(crate) fn new(ranks: usize) -> Self {
        Board {
            parties: vec![Party::new(ranks); ranks],
        }
    }

    /// Posts the group that a rank starts.
    pub(crate) fn post(&mut self, rank: usize, calls: &[Call]) {
        let Some(party) = self.parties.get_mut(rank) else {
            return;
        };
        for call in calls {
            let like = |posted: &&Posted| {
                if call.verb.is_collective() {
                    posted.call.verb.is_collective()
                } else {
                    posted.call.verb == call.verb && posted.call.peer == call.peer
                }
            };
            let before = party.group.iter().filter(like).count() as u64;
            party.group.push(Posted {
                call: *call,
                number: party.over(call) + before,
                has_read: false,
            });
        }
    }

    fn posted(&self, rank: usize, index: usize) -> Option<Posted> {
        self.parties.get(rank)?.group.get(index).copied()
    }

    /// Returns the other ranks that take part in a rank's call, each with the call that it must have posted.
    fn counterparts(&self, rank: usize, call: &Call) -> Vec<(usize, Call)> {
        if call.verb.is_collective() {
            return (0..self.parties.len())
                .filter(|other| *other != rank)
                .map(|other| (other, *call))
                .collect();
        }
        let theirs = Call {
            verb: call.verb.other_side(),
            peer: rank as u32,
            ..*call
        };
        vec![(call.peer as usize, theirs)]
    }

    /// Returns whether all parties of a rank's call have started theirs.
    pub(crate) fn meet(&self, rank: usize, index: usize) -> Meeting {
        let Some(mine) = self.posted(rank, index) else {
            return Meeting::Waits;
        };
        let mut others = Vec::new();
        let mut missing = false;
        for (other, call) in self.counterparts(rank, &mine.call) {
            let party = self.parties.get(other).filter(|party| !party.gone);
            let found = party.and_then(|party| {
                let index = party.find(&call, mine.number)?;
                Some((index, party.group.get(index)?.call))
            });
            match found {
                None => missing = true,
                Some((_, theirs)) if !mine.call.fits(&theirs) => return Meeting::Mismatch(other, theirs),
                Some((index, _)) => others.push(Other { rank: other, index }),
            }
        }
        if missing {
            Meeting::Waits
        } else {
            Meeting::Met(others)
        }
    }

    /// Notes that a rank has read the data that it needs for a call.
    pub(crate) fn has_read(&mut self, rank: usize, index: usize) {
        if let Some(posted) = self
            .parties
            .get_mut(rank)
            .and_then(|party| party.group.get_mut(index))
        {
            posted.has_read = true;
        }
    }

    /// Whether a rank may end a call: all parties have read the data that they need of it.
    fn is_read_by_all(&self, rank: usize, index: usize) -> bool {
        let Some(mine) = self.posted(rank, index) else {
            return true;
        };
        mine.has_read
            && self.counterparts(rank, &mine.call).iter().all(|(other, call)| {
                let Some(party) = self.parties.get(*other) else {
                    return false;
                };
                let read = |index| {
                    party
                        .group
                        .get(index)
                        .is_some_and(|posted: &Posted| posted.has_read)
                };
                party.over(call) > mine.number || party.find(call, mine.number).is_some_and(read)
            })
    }

    /// Whether a rank may end its group.
    pub(crate) fn is_over(&self, rank: usize) -> bool {
        let calls = self.parties.get(rank).map_or(0, |party| party.group.len());
        (0..calls).all(|index| self.is_read_by_all(rank, index))
    }

    /// Ends the group of a rank.
    pub(crate) fn finish(&mut self, rank: usize) {
        let Some(party) = self.parties.get_mut(rank) else {
            return;
        };
        for posted in std::mem::take(&mut party.group) {
            let peer = posted.call.peer as usize;
            let count = match posted.call.verb {
                Verb::Send => party.sends.get_mut(peer),
                Verb::Receive => party.receives.get_mut(peer),
                _ => Some(&mut party.collectives),
            };
            if let Some(count) = count {
                *count += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(verb: Verb, peer: u32, count: u64) -> Call {
        Call {
            verb,
            count,
            elements: 7,
            reduction: 0,
            peer,
        }
    }

    /// Lets ranks execute their lists of groups while any can make progress; returns whether all lists were completed.
    fn run(lists: &[Vec<Vec<Call>>]) -> bool {
        let mut board = Board::new(lists.len());
        let mut next = vec![0; lists.len()];
        loop {
            let mut moved = false;
            for rank in 0..lists.len() {
                if board.parties[rank].group.is_empty() {
                    if let Some(group) = lists[rank].get(next[rank]) {
                        board.post(rank, group);
                        next[rank] += 1;
                        moved = true;
                    }
                    continue;
                }
                for index in 0..board.parties[rank].group.len() {
                    let unread = !board.parties[rank].group[index].has_read;
                    if unread && matches!(board.meet(rank, index), Meeting::Met(_)) {
                        board.has_read(rank, index);
                        moved = true;
                    }
                }
                if board.is_over(rank) {
                    board.finish(rank);
                    moved = true;
                }
            }
            if !moved {
                let ended =
                    |rank: usize| next[rank] == lists[rank].len() && board.parties[rank].group.is_empty();
                return (0..lists.len()).all(ended);
            }
        }
    }

    #[test]
    fn projections_of_one_order_pass_and_crossed_sends_do_not() {
        let (send, receive) = (Verb::Send, Verb::Receive);
        let ordered = [
            vec![vec![call(send, 1, 4)], vec![call(receive, 1, 4)]],
            vec![vec![call(receive, 0, 4)], vec![call(send, 0, 4)]],
        ];
        assert!(run(&ordered));
        let crossed = [
            vec![vec![call(send, 1, 4)], vec![call(receive, 1, 4)]],
            vec![vec![call(send, 0, 4)], vec![call(receive, 0, 4)]],
        ];
        assert!(!run(&crossed));
        let grouped = crossed.map(|list| vec![list.concat()]);
        assert!(run(&grouped));
    }

    #[test]
    fn collectives_match_by_number_and_messages_by_pair() {
        let all = |count| vec![call(Verb::AllReduce, 0, count)];
        assert!(run(&[
            vec![all(1), all(2)],
            vec![all(1), all(2)],
            vec![all(1), all(2)]
        ]));
        assert!(!run(&[vec![all(1), all(2)], vec![all(2), all(1)]]));
        let both = [
            vec![vec![
                call(Verb::Send, 1, 1),
                call(Verb::Send, 1, 2),
                call(Verb::AllGather, 0, 3),
            ]],
            vec![vec![
                call(Verb::AllGather, 0, 3),
                call(Verb::Receive, 0, 1),
                call(Verb::Receive, 0, 2),
            ]],
        ];
        assert!(run(&both));
    }

    #[test]
    fn a_call_that_does_not_fit_is_told() {
        let mut board = Board::new(2);
        board.post(0, &[call(Verb::Send, 1, 4)]);
        assert_eq!(board.meet(0, 0), Meeting::Waits);
        board.post(1, &[call(Verb::Receive, 0, 3)]);
        assert_eq!(board.meet(0, 0), Meeting::Mismatch(1, call(Verb::Receive, 0, 3)));
        assert_eq!(board.meet(1, 0), Meeting::Mismatch(0, call(Verb::Send, 1, 4)));
    }

    #[test]
    fn what_the_gone_have_posted_is_void() {
        let mut board = Board::new(2);
        board.post(0, &[call(Verb::Broadcast, 1, 4)]);
        board.post(1, &[call(Verb::Broadcast, 1, 4)]);
        assert!(matches!(board.meet(0, 0), Meeting::Met(_)));
        board.parties[1].gone = true;
        assert_eq!(board.meet(0, 0), Meeting::Waits);
    }

    #[test]
    fn a_rank_may_send_to_itself_in_a_group() {
        assert!(run(&[vec![vec![
            call(Verb::Send, 0, 4),
            call(Verb::Receive, 0, 4)
        ]]]));
        assert!(!run(&[vec![
            vec![call(Verb::Send, 0, 4)],
            vec![call(Verb::Receive, 0, 4)]
        ]]));
    }
}
