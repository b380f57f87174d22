//! The restart of a program with another command line.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Executes a command in place of this program, under the name `program`. Returns only if that fails.
pub(crate) fn restart(command: &mut Command, program: Option<OsString>) {
    if let Some(program) = program {
        command.arg0(program);
    }
    let _ = command.exec();
}
