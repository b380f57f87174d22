//! What the stand-ins for `ssh` ask: this process starts their commands on hosts, with the streams that they bring.

use std::collections::BTreeMap;
use std::io::{IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Scope;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use selvedge_test_hosts::{Host, Hosts, Process};

/// Starts commands on hosts until it is dropped. Then it kills all hosts, so that nothing waits for them any more.
pub(crate) struct Sshd<'a> {
    hosts: &'a Hosts,
    folder: PathBuf,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    /// Whether hosts cannot tell of ends any more.
    is_dark: AtomicBool,
    /// The last process that was started on each host.
    started: Mutex<BTreeMap<usize, Arc<Process>>>,
}

impl<'a> Sshd<'a> {
    pub(crate) fn start<'scope>(scope: &'scope Scope<'scope, 'a>, hosts: &'a Hosts) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("selvedge-matrix-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let sshd = Sshd {
            hosts,
            folder,
            shared: Arc::default(),
        };
        let listener = UnixListener::bind(sshd.socket()).unwrap();
        let shared = Arc::clone(&sshd.shared);
        scope.spawn(move || {
            for stream in listener.incoming() {
                if shared.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let (stream, shared) = (stream.unwrap(), Arc::clone(&shared));
                scope.spawn(move || shared.serve(stream, hosts));
            }
        });
        sshd
    }

    /// The path of the socket at which stand-ins ask.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// From now on no stand-in learns of an end, as if its host had become unreachable.
    pub(crate) fn go_dark(&self) {
        self.shared.is_dark.store(true, Ordering::SeqCst);
    }

    /// The worker on a host.
    pub(crate) fn worker(&self, host: usize) -> Arc<Process> {
        Arc::clone(&self.shared.started.lock().unwrap()[&host])
    }
}

impl Drop for Sshd<'_> {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for stand-ins. An error means that it has ended.
        let _ = UnixStream::connect(self.socket());
        for host in self.hosts.all() {
            let _ = host.kill();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Shared {
    /// Starts the command of one stand-in, and tells it the end.
    fn serve(&self, mut stream: UnixStream, hosts: &Hosts) {
        let (text, streams) = asked(&stream);
        let (name, command) = text.split_once('\n').unwrap();
        let host = hosts.all().iter().find(|host| host.name() == name).unwrap();
        let Ok(process) = spawn(host, command, streams).map(Arc::new) else {
            return;
        };
        self.started
            .lock()
            .unwrap()
            .insert(host.number(), Arc::clone(&process));
        let ended = loop {
            match process.wait() {
                Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {}
                ended => break ended,
            }
        };
        if self.is_dark.load(Ordering::SeqCst) {
            // The stand-in waits until this process has ended, or its own driver has ended it.
            let _ = std::io::Read::read(&mut stream, &mut [0]);
            return;
        }
        let code = ended.ok().and_then(|exit| exit.code());
        let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(255);
        // An error means that the stand-in has ended.
        let _ = stream.write_all(&[code]);
    }
}

/// What a stand-in asks, and its standard streams.
fn asked(stream: &UnixStream) -> (String, [OwnedFd; 3]) {
    let mut bytes = vec![0; 64 << 10];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut aside = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(&mut bytes)];
    let read = recvmsg(stream, &mut into, &mut aside, RecvFlags::CMSG_CLOEXEC).unwrap();
    let streams = aside.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(streams) => Some(streams.collect::<Vec<_>>()),
        _ => None,
    });
    bytes.truncate(read.bytes);
    let streams = streams.expect("a stand-in brings its streams");
    (String::from_utf8(bytes).unwrap(), streams.try_into().unwrap())
}

fn spawn(host: &Host, command: &str, [stdin, stdout, stderr]: [OwnedFd; 3]) -> std::io::Result<Process> {
    let client = Ipv4Addr::new(198, 18, 0, 1);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .env("SSH_CONNECTION", format!("{client} 1 {} 22", host.address()))
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr);
    host.spawn(shell)
}
