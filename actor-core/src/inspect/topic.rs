//! The topics about which a runtime can be asked.

use std::fmt;

/// A table of a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InspectTopic {
    /// The remote functions of the program, as [`Runtime::functions`](crate::Runtime::functions) lists them.
    Functions,
    /// The submitted calls, as [`Runtime::calls`](crate::Runtime::calls) lists them.
    Calls,
    /// The objects in the object store, as [`Runtime::objects`](crate::Runtime::objects) lists them.
    Objects,
    /// The references that the process owns or holds, one by one.
    References,
    /// The names of references, as [`Runtime::names`](crate::Runtime::names) lists them. Only the process that made the runtime has them.
    Names,
    /// The processes of the runtime, as [`Runtime::members`](crate::Runtime::members) lists them.
    Members,
}

impl InspectTopic {
    /// All topics.
    pub const ALL: [InspectTopic; 6] = [
        InspectTopic::Functions,
        InspectTopic::Calls,
        InspectTopic::Objects,
        InspectTopic::References,
        InspectTopic::Names,
        InspectTopic::Members,
    ];

    /// The number of the topic in a question.
    pub(super) fn number(self) -> u32 {
        match self {
            InspectTopic::Functions => 1,
            InspectTopic::Calls => 2,
            InspectTopic::Objects => 3,
            InspectTopic::References => 4,
            InspectTopic::Members => 5,
            InspectTopic::Names => 6,
        }
    }

    /// The topic of a number; `None` for a number of a later version.
    pub(super) fn of_number(number: u32) -> Option<Self> {
        InspectTopic::ALL
            .into_iter()
            .find(|topic| topic.number() == number)
    }
}

impl fmt::Display for InspectTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            InspectTopic::Functions => "functions",
            InspectTopic::Calls => "calls",
            InspectTopic::Objects => "objects",
            InspectTopic::References => "references",
            InspectTopic::Names => "names",
            InspectTopic::Members => "members",
        })
    }
}
