//! The program that stands in for `ssh`: it asks the process of the test to start a command on a host.
//!
//! The command gets the standard streams of this process itself, so nothing has to be relayed. Its end comes back as one byte.
//! If the host cannot be reached any more, no byte comes, and this process waits, as `ssh` does.

use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use anyhow::Context;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// The variable with the path of the socket at which the test is asked.
const ENV_SOCKET: &str = "MATRIX_SOCKET";

/// Runs a command on a host, and ends as it ends.
pub(crate) fn run(host: &str, command: &str) -> anyhow::Result<()> {
    let path = std::env::var_os(ENV_SOCKET).context(ENV_SOCKET)?;
    let mut test = UnixStream::connect(path)?;
    let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let streams = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut aside = SendAncillaryBuffer::new(&mut space);
    anyhow::ensure!(aside.push(SendAncillaryMessage::ScmRights(&streams)), "no room");
    let text = format!("{host}\n{command}");
    sendmsg(
        &test,
        &[IoSlice::new(text.as_bytes())],
        &mut aside,
        SendFlags::empty(),
    )?;
    let mut code = [255];
    // The test has ended if nothing comes.
    let _ = test.read(&mut code)?;
    std::process::exit(code[0].into())
}
