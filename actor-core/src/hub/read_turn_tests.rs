//! All interleavings of a sender, a thread that leads, the link's task, and an end of the link. The system tells the leader
//! alone of bytes while it waits, and both otherwise. Both are told of the end of the stream.

use std::collections::HashSet;

use super::*;

/// The frames that a read takes at most; after so many there may be more.
const READ_MAX: u8 = 2;

/// What a thread is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TurnStep {
    Away,
    /// The link's task looks whether the link ends.
    Look,
    /// The link's task waits for the last turn.
    WaitLast,
    Wait,
    Take,
    Read,
    End,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    turn: ReadTurn,
    to_send: u8,
    unread: u8,
    /// The leader was told of bytes.
    is_leader_told: bool,
    /// The link's task was told of bytes.
    is_task_told: bool,
    is_task_woken: bool,
    is_closing: bool,
    may_close: bool,
    may_end: bool,
    /// The peer has ended the stream.
    is_ended: bool,
    leader: TurnStep,
    /// The leader reads until nothing is left; otherwise it ends after a short read.
    is_leader_thorough: bool,
    leads_left: u8,
    task: TurnStep,
}

impl World {
    fn new(may_close: bool, may_end: bool) -> Self {
        World {
            turn: ReadTurn::default(),
            to_send: 4,
            unread: 0,
            is_leader_told: false,
            is_task_told: false,
            is_task_woken: false,
            is_closing: false,
            may_close,
            may_end,
            is_ended: false,
            leader: TurnStep::Away,
            is_leader_thorough: false,
            leads_left: 3,
            task: TurnStep::Wait,
        }
    }

    fn with(mut self, change: impl FnOnce(&mut World)) -> World {
        change(&mut self);
        self
    }

    /// The worlds after a step that somebody may take or not.
    fn choices(self) -> Vec<World> {
        let mut next = Vec::new();
        if self.to_send > 0 && !self.is_closing && !self.is_ended {
            next.push(self.with(|world| {
                world.to_send -= 1;
                world.unread += 1;
                let is_waiting = world.leader == TurnStep::Wait && !world.is_leader_told;
                world.is_leader_told = true;
                world.is_task_told |= !is_waiting;
            }));
        }
        if self.may_close && !self.is_closing {
            next.push(self.with(|world| (world.is_closing, world.is_task_woken) = (true, true)));
        }
        if self.may_end && !self.is_closing && !self.is_ended {
            next.push(self.with(|world| {
                (world.is_ended, world.is_leader_told, world.is_task_told) = (true, true, true);
            }));
        }
        match self.leader {
            TurnStep::Away if self.leads_left > 0 => next.push(self.with(|world| {
                world.leads_left -= 1;
                world.leader = TurnStep::Wait;
            })),
            TurnStep::Wait if !self.is_leader_told => {
                next.push(self.with(|world| world.leader = TurnStep::Away))
            }
            _ => {}
        }
        next
    }

    /// The worlds after a step that the leader or the link's task takes sooner or later.
    fn steps(self) -> Vec<World> {
        let mut next = Vec::new();
        match self.leader {
            TurnStep::Wait if self.is_leader_told => next.push(self.with(|world| {
                (world.is_leader_told, world.leader) = (false, TurnStep::Take);
                world.is_leader_thorough = false;
            })),
            TurnStep::Take => next.push(self.with(|world| {
                world.leader = if world.turn.take() {
                    TurnStep::Read
                } else {
                    TurnStep::Away
                };
            })),
            TurnStep::Read => {
                let (world, found) = self.read();
                let is_enough =
                    found == ReadResult::Nothing || found == ReadResult::Some && !self.is_leader_thorough;
                if is_enough {
                    next.push(world.with(|world| world.leader = TurnStep::End));
                } else {
                    next.push(world);
                    next.push(world.with(World::leader_leaves));
                }
            }
            TurnStep::End => {
                let mut world = self;
                if world.end() {
                    world.is_leader_thorough = true;
                    next.push(world.with(|world| world.leader = TurnStep::Read));
                    next.push(world.with(World::leader_leaves));
                } else {
                    next.push(world.with(|world| world.leader = TurnStep::Away));
                }
            }
            _ => {}
        }
        match self.task {
            TurnStep::Look => next.push(self.with(|world| {
                world.task = match (world.is_closing, world.is_closing && world.turn.begin_last()) {
                    (false, _) => TurnStep::Wait,
                    (true, false) => TurnStep::WaitLast,
                    (true, true) => TurnStep::Over,
                };
                if world.task == TurnStep::Over {
                    world.unread = 0;
                }
            })),
            TurnStep::WaitLast if self.is_task_woken => next.push(self.with(|world| {
                (world.is_task_woken, world.task) = (false, TurnStep::Look);
            })),
            TurnStep::Wait => {
                if self.is_task_told {
                    next.push(self.with(|world| (world.is_task_told, world.task) = (false, TurnStep::Take)));
                }
                if self.is_task_woken {
                    next.push(self.with(|world| {
                        let is_left = world.turn.take_left();
                        world.task = if is_left { TurnStep::Take } else { TurnStep::Look };
                        world.is_task_woken = false;
                    }));
                }
            }
            TurnStep::Take => next.push(self.with(|world| {
                world.task = if world.turn.take() {
                    TurnStep::Read
                } else {
                    TurnStep::Look
                };
            })),
            TurnStep::Read => {
                let (world, found) = self.read();
                next.push(world.with(|world| {
                    if found == ReadResult::Nothing {
                        world.task = TurnStep::End;
                    }
                }));
            }
            TurnStep::End => next.push(self.with(|world| {
                let is_again = world.end();
                world.task = if is_again { TurnStep::Read } else { TurnStep::Look };
            })),
            TurnStep::Away | TurnStep::WaitLast | TurnStep::Over => {}
        }
        next
    }

    fn read(mut self) -> (World, ReadResult) {
        let read = self.unread.min(READ_MAX);
        self.unread -= read;
        if read == 0 && self.is_ended {
            (self.is_closing, self.is_task_woken) = (true, true);
        }
        let found = match read {
            _ if self.is_closing => {
                self.turn.begin_last();
                ReadResult::Nothing
            }
            0 => ReadResult::Nothing,
            READ_MAX => ReadResult::Full,
            _ => ReadResult::Some,
        };
        (self, found)
    }

    /// The leader has what it waits for, and leaves what may be there to the link's task.
    fn leader_leaves(&mut self) {
        self.turn.leave();
        (self.is_task_woken, self.leader) = (true, TurnStep::Away);
    }

    fn end(&mut self) -> bool {
        let after = self.turn.end();
        self.is_task_woken |= after == AfterTurn::Wake;
        after == AfterTurn::Again
    }

    fn has_turn(step: TurnStep) -> bool {
        matches!(step, TurnStep::Read | TurnStep::End)
    }
}

#[test]
fn no_frame_is_left_unread_and_nobody_reads_beside_another_or_after_the_end() {
    for (may_close, may_end) in [(false, false), (true, false), (false, true), (true, true)] {
        let (mut open, mut seen) = (vec![World::new(may_close, may_end)], HashSet::new());
        while let Some(world) = open.pop() {
            if !seen.insert(world) {
                continue;
            }
            let is_read = World::has_turn(world.leader);
            let is_doubled = is_read && (World::has_turn(world.task) || world.task == TurnStep::Over);
            assert!(!is_doubled, "two threads read: {world:?}");
            let steps = world.steps();
            if steps.is_empty() {
                assert_eq!(world.unread, 0, "nobody reads: {world:?}");
                let is_over = world.task == TurnStep::Over;
                let has_reason = world.is_closing || world.is_ended;
                assert_eq!(is_over, has_reason, "the link does not end: {world:?}");
            }
            open.extend(steps);
            open.extend(world.choices());
        }
        assert!(seen.len() > 1000);
    }
}
