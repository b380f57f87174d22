//! Looking into a running program from outside: another process of the same user asks what a runtime has, and gets a table.
//!
//! A process with a runtime that has an actor or a worker listens on a Unix socket with an abstract name,
//! `selvedge-inspect-PID-N`, where `N` counts the runtimes of the process. The kernel forgets such a name with the process, so nothing is
//! left of it, whatever becomes of the process. The control thread accepts, and each question has a thread of its own, which lives until it is
//! answered. So a question costs nothing while nobody asks, holds up no thread that has work to do, and is answered also if all threads of
//! the program are stuck in calls.
//!
//! - `INSPECT-1`: a process answers the user that it runs as, and root. The kernel tells who asks (`SO_PEERCRED`).
//! - `INSPECT-2`: a question has a fixed length, and whatever else it says ends the conversation. At most four are open at a time, each for
//!   five seconds at most.
//! - `INSPECT-3`: rows are copied under the locks of the tables that have them, and encoded and sent without any. No user code runs.
//! - `INSPECT-4`: a process that has no descriptor left does not answer, and answers again when it has one.
//!
//! The modules, on the way of a question:
//! - `topic`: what can be asked; `table`: what is answered;
//! - `ask`: the process that asks; `error`: the reasons for which it gets no table;
//! - `wire`: questions and answers as bytes, until a deadline;
//! - `serve`: the process that is asked; `answer`: the rows of each topic; `members`: the processes of a runtime;
//! - `verbs`: how a program looks at itself.

mod ask;
mod error;
mod table;
mod topic;

mod wire;

mod answer;
mod members;
pub(crate) mod serve;

mod verbs;

pub use ask::{InspectedRuntime, inspect};
pub use error::InspectError;
pub use members::{MemberInfo, MemberState};
pub use table::{InspectTable, InspectValue};
pub use topic::InspectTopic;
