//! The codes of mistakes.

use std::fmt;

/// Makes the codes from their rows: the documentation, the name, the text, and a short help.
macro_rules! codes {
    ($($(#[$doc:meta])+ $name:ident = $text:literal: $help:literal,)+) => {
        /// The stable codes of mistakes in a graph. Each code has a [page](Code::page).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])+ $name,)+
        }

        impl Code {
            /// Every code.
            pub const ALL: [Code; [$($text),+].len()] = [$(Code::$name),+];

            /// Returns the code as text, for example `D0103`.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Code::$name => $text,)+
                }
            }

            /// Returns a short text on how to fix this kind of mistake.
            pub const fn help(self) -> &'static str {
                match self {
                    $(Code::$name => $help,)+
                }
            }
        }
    };
}

codes! {
    /// D0101: edges of two graphs meet in one task.
    MixedGraphs = "D0101":
        "bind all edges of a task inside one call of `compile`",
    /// D0102: a task without an edge among its arguments.
    NoInputEdge = "D0102":
        "give it an edge, start it with `.after(&input)`, or compute the value before the graph and use `constant`",
    /// D0103: a result, or a part of a result, that is never used.
    Dangling = "D0103":
        "return the edge as an output, feed it to a task, or do not bind the method",
    /// D0104: an input of the graph that is never used.
    UnusedInput = "D0104":
        "take fewer inputs, or use this one",
    /// D0105: an actor runs in another graph.
    ActorBusy = "D0105":
        "tear the other graph down first, or spawn another actor",
    /// D0106: an actor is dead.
    ActorDead = "D0106":
        "spawn it anew; an actor with `.restart(Restart::OnFailure { max })` is started again up to `max` times",
    /// D0107: an actor of another runtime.
    ForeignActor = "D0107":
        "spawn all actors of a graph on the runtime that compiles it",
    /// D0108: an option is out of bounds.
    InvalidOption = "D0108":
        "choose a value within the bounds; `--selvedge-help` lists the variables",
    /// D0109: the schedule would deadlock.
    Deadlock = "D0109":
        "change the plan as proposed; if the compiler made it, please report it with `Graph::describe`",
    /// D0110: an output that is a constant, or no output at all.
    NoOutput = "D0110":
        "return the edge of a task or an input of the graph",
    /// D0111: the memory for the channels cannot be allocated.
    OutOfMemory = "D0111":
        "see the reason; for want of memory, lower `max_inflight` or `buffer_bytes`, or give the process more",
    /// D0112: a process could not load its programs.
    LoadFailed = "D0112":
        "the reason says what is missing",
    /// D0113: a part of a tuple that is split again.
    NestedSplit = "D0113":
        "return one flat tuple, or give the part to a task that takes it whole",
    /// D0114: a constant that can be neither copied nor encoded.
    BadConstant = "D0114":
        "derive `Clone`; for an actor in another process also `Serialize` and `Deserialize`",
    /// D0115: a task that is to run after one that is bound later.
    OrderedLater = "D0115":
        "bind first what is to run first: give it a `let` before this line",
    /// D0116: a list of edges for a parameter that is not written as a list.
    NoList = "D0116":
        "write the parameter's type as `Vec<T>` or `&[T]`, not by another name",
    /// D0117: ranks that cannot do a collective together.
    BadRanks = "D0117":
        "give it one edge for each rank, each made by a task of another actor",
    /// D0118: a communicator that does not exist or cannot do what the graph asks of it.
    NoCommunicator = "D0118":
        "name one that is linked into this program, or none: shared memory does everything between processes of a host",
    /// D0119: tensors that cannot lie on the device that was declared for them.
    BadDevice = "D0119":
        "say it of an edge whose type carries tensors of a device, and the same of an edge as of the actor that makes it",
    /// D0120: a value that would cross processes, and whose type serde does not know.
    NotWire = "D0120":
        "give its type `#[derive(Clone, Serialize, Deserialize)]`, or spawn both actors in one process",
    /// D0121: a value with several readers, and whose type cannot be shared by them.
    NotShared = "D0121":
        "derive `Clone` for its type, or share the value in an `Arc`",
    /// D0122: a value that would cross processes with references and device tensors in it.
    MixedValue = "D0122":
        "return the references and the tensors in two values, as parts of a tuple, or spawn both actors in one process",
    /// D0123: a part of a graph that cannot go from host to host.
    OtherHost = "D0123":
        "spawn these actors on one host; edges of plain values go to other hosts",
    /// D0124: a tuple that is split, and that its maker hands over as a whole.
    WholeTuple = "D0124":
        "write the tuple in the method's result, `-> (A, B)`, not as a type parameter; or take the tuple whole",
    /// D0125: a constant or an input of the graph that is to come after a task.
    NothingToOrder = "D0125":
        "write `.after(..)` behind the call of a method, whose task then waits",
    /// D0126: an option that has no effect in the graph.
    InertOption = "D0126":
        "leave the option out, or give it to the graph that it is for",
    /// D0199: a violated invariant of selvedge itself.
    Internal = "D0199":
        "please report this with the graph that shows it",
}

impl Code {
    /// Returns the code with this text; upper and lower case are equal.
    pub fn find(text: &str) -> Option<Code> {
        Code::ALL
            .into_iter()
            .find(|code| code.as_str().eq_ignore_ascii_case(text))
    }

    /// Returns the page about this kind of mistake: its meaning, an example, and the fix.
    pub fn page(self) -> &'static str {
        let pages = include_str!("pages.md");
        let own = |page: &&str| page.starts_with(self.as_str());
        pages.split("## ").find(own).map_or("", str::trim_end)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
