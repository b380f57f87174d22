//! Errors of command lines.

use thiserror::Error;

/// The reason that no command line is made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CommandError {
    /// A word with a NUL, which no process can get.
    #[error("the word `{word}` has a NUL: no command line can have one")]
    Nul {
        /// The beginning of the word.
        word: String,
    },
    /// The program's name would be taken for something else.
    #[error(
        "`{program}` cannot be started: the name of a program is not empty, has no `=`, and no `-` in front"
    )]
    Program {
        /// The beginning of the name.
        program: String,
    },
    /// The text is no name of an environment variable.
    #[error("`{name}` is no name of a variable: letters, digits and `_` are allowed, and no digit in front")]
    Variable {
        /// The beginning of the name.
        name: String,
    },
    /// The cookie would be seen in the list of processes.
    #[error(
        "`{name}` is not set by a command line, which other users can read: the cookie goes to standard input, or lies \
         in a file or in the environment of the host"
    )]
    Secret {
        /// The name of the variable.
        name: String,
    },
    /// The path is no place for the socket of a tunnel.
    #[error(
        "`{path}` is no path for the socket of a tunnel: it is absolute, has at most {max} bytes, and only letters, \
         digits and `/`, `.`, `_`, `-`"
    )]
    SocketPath {
        /// The beginning of the path.
        path: String,
        /// The bytes that a path may have.
        max: usize,
    },
}
