//! Command lines of this host.

/// A program with its arguments. No shell reads them. There is no secret in them: every user of a host can read the
/// command lines of its processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// The program: a path, or a name that is looked up.
    pub program: String,
    /// The arguments, without the program.
    pub arguments: Vec<String>,
}
