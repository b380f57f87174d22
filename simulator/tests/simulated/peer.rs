//! A second process of a test, and a socket between the two.

use std::env;
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

const SOCKET: &str = "SELVEDGE_SIM_SOCKET";

/// The other process of the test.
pub(crate) struct Peer {
    pub(crate) child: Option<Child>,
    socket: UnixStream,
}

/// Whether this is the second process.
pub(crate) fn is_second() -> bool {
    env::var_os(SOCKET).is_some()
}

impl Peer {
    /// Starts the second process, which runs the same test; in the second process, connects to the first.
    pub(crate) fn new(test: &str) -> Self {
        if let Some(name) = env::var_os(SOCKET) {
            let address = SocketAddr::from_abstract_name(name.as_encoded_bytes()).unwrap();
            let socket = UnixStream::connect_addr(&address).unwrap();
            return Peer { child: None, socket };
        }
        let name = format!("selvedge-sim-{test}-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(SOCKET, name)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (socket, _) = listener.accept().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Peer {
            child: Some(child),
            socket,
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    pub(crate) fn receive<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.socket.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Waits until both processes have come here.
    pub(crate) fn meet(&mut self) {
        self.send(b".");
        assert_eq!(self.receive(), *b".");
    }

    pub(crate) fn send_descriptor(&mut self, descriptor: impl AsFd) {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor.as_fd()];
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
        rustix::net::sendmsg(
            &self.socket,
            &[IoSlice::new(b"d")],
            &mut ancillary,
            SendFlags::empty(),
        )
        .unwrap();
    }

    pub(crate) fn receive_descriptor(&mut self) -> OwnedFd {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let slices = &mut [IoSliceMut::new(&mut byte)];
        rustix::net::recvmsg(&self.socket, slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC).unwrap();
        let rights = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        rights.unwrap()
    }

    /// Waits for the second process and checks that it succeeded.
    pub(crate) fn join(mut self) {
        if let Some(mut child) = self.child.take() {
            assert!(child.wait().unwrap().success());
        }
    }

    /// Kills the second process, as `kill -9` does.
    pub(crate) fn kill(mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
