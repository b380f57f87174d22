//! Workers that are reached under TLS.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use selvedge::hosts::{
    AddError, ClusterManager, Cookie, CookieSource, LinkTransport, PeerNames, WorkerCommand, WorkerConfig,
};
use selvedge::prelude::*;

use crate::census::{Census, is_alive, settled, wait_until};
use crate::relay::relay;
use crate::resets::work_goes_on_over_resets;
use crate::ssh::{Played, forwarding};
use crate::workers::{numbers, sum, values_go_between};
use crate::{alone, beside_others, deaths, forever, local, pid};

fn tls() -> LinkTransport {
    LinkTransport::tls().unwrap()
}

#[remote]
fn echo(text: String) -> String {
    text
}

/// Workers whose connections go through a relay that records what it passes on.
struct Recorded {
    transport: LinkTransport,
    directory: PathBuf,
    port: u16,
}

impl ClusterManager for Recorded {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        // What the worker announces is written down, and the place of the relay is announced instead.
        let script = format!(
            "exec 3<&0; \"$0\" \"$@\" <&3 | sed -u -e '/^selvedge-worker#1/w {}' -e 's/^\\(selvedge-worker#1 127.0.0.1\\):.*/\\1:{}/'",
            self.directory.join("announced").display(),
            self.port
        );
        let program = std::env::current_exe()?;
        let command = WorkerCommand::new("sh").argument("-c").argument(script);
        let command = command.argument(program.to_str().unwrap());
        out(WorkerConfig::default().command(command.bind("127.0.0.1".parse()?)));
        Ok(())
    }

    fn transport(&self) -> LinkTransport {
        self.transport.clone()
    }
}

/// A directory of one test, which is removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("selvedge-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Passes the first connection on, and records it.
fn record_one(listener: TcpListener, announced: PathBuf, record: Arc<Mutex<Vec<u8>>>) {
    let (near, _) = listener.accept().unwrap();
    let line = fs::read_to_string(announced).unwrap();
    let far = TcpStream::connect(line.trim().rsplit(' ').next().unwrap()).unwrap();
    relay(&near, &far, 4096, |bytes| record.lock().unwrap().extend(bytes));
}

/// Everything that went over the wire while a text was sent to a worker and came back.
fn recorded(transport: LinkTransport, text: &str) -> Vec<u8> {
    let (scratch, record) = (Scratch::new("relay"), Arc::default());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let manager = Recorded {
        transport,
        directory: scratch.0.clone(),
        port: listener.local_addr().unwrap().port(),
    };
    let relaying = {
        let (announced, record) = (scratch.0.join("announced"), Arc::clone(&record));
        thread::spawn(|| record_one(listener, announced, record))
    };
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(60));
    let workers = runtime.add(manager).unwrap();
    let answer = runtime.call(echo::remote(text.to_owned()).on(&workers[0])).wait();
    assert_eq!(answer.unwrap(), text);
    drop((workers, runtime));
    relaying.join().unwrap();
    record.lock().unwrap().clone()
}

#[test]
fn jnet_08_the_wire_has_nothing_of_what_is_said_under_tls() {
    let _guard = beside_others();
    let text = "the marker of a payload that nobody else may read";
    let shows = |wire: &[u8], what: &[u8]| wire.windows(what.len()).any(|bytes| bytes == what);
    let plain = recorded(LinkTransport::tcp(), text);
    assert!(shows(&plain, text.as_bytes()));
    let encrypted = recorded(tls(), text);
    assert!(encrypted.len() > plain.len());
    assert!(!shows(&encrypted, &text.as_bytes()[..8]));
}

#[test]
fn jnet_08_workers_under_tls_reach_each_other_and_children_reach_them() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(local(2).transport(tls())).unwrap();
    values_go_between(&runtime, &workers);
}

#[test]
fn jnet_08_tunnels_carry_what_is_under_tls() {
    let _guard = alone();
    let played = Played::new("secret-tunnel", &forwarding());
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(60));
    let options = played.options().tunnel(true);
    let manager = played.manager("gpu0\ngpu1").options(options).transport(tls());
    let workers = runtime.add(manager).unwrap();
    let kept = runtime.keep(numbers::remote(1000).on(&workers[0]));
    let found = runtime.call(sum::remote(&kept).on(&workers[1])).wait().unwrap();
    assert_eq!(found, 499_500);
    let told = played.read("told");
    assert!(told.contains("--selvedge-worker --tls-input"), "{told}");
    for worker in workers {
        worker.end(Duration::from_secs(60)).unwrap();
    }
}

#[test]
fn work_goes_on_over_connections_under_tls_that_are_reset() {
    let _guard = alone();
    // A handshake of TLS takes longer, and a connection that carries nothing ten times in a row is given up.
    let runtime = Runtime::new();
    let workers = runtime.add(local(2).transport(tls())).unwrap();
    work_goes_on_over_resets(&runtime, &workers, Duration::from_millis(60));
}

#[test]
fn a_death_under_tls_is_known_as_soon_as_nobody_listens_any_more() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(local(2).transport(tls())).unwrap();
    let waiting = runtime.call(forever::remote().on(&workers[0]));
    runtime.call(pid::remote().on(&workers[0])).wait().unwrap();
    let begun = Instant::now();
    deaths::kill_9(workers[0].pid().unwrap());
    let error = waiting.wait().unwrap_err().to_string();
    assert!(
        error.contains("worker `local 1`") && error.contains("died"),
        "{error}"
    );
    // Less than the time that a lost connection would have had to come back.
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    let other = runtime.call(pid::remote().on(&workers[1])).wait().unwrap();
    assert_eq!(Some(other), workers[1].pid());
}

#[test]
fn nothing_is_left_of_workers_under_tls_and_they_end_in_order() {
    let _guard = alone();
    let runtime = Runtime::new();
    let transport = tls();
    let round = || {
        // One at a time, because threads that start processes stay for the next ones.
        let workers = runtime.add(local(1).transport(transport.clone())).unwrap();
        for worker in &workers {
            runtime.call(pid::remote().on(worker)).wait().unwrap();
        }
        for worker in workers {
            worker.end(Duration::from_secs(60)).unwrap();
        }
    };
    round();
    let before = settled(Census::take);
    round();
    round();
    assert_eq!(wait_until(&before, Census::take), before);
}

#[test]
fn no_process_shows_a_key() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let workers = runtime.add(local(1).transport(tls())).unwrap();
    let pid = workers[0].pid().unwrap();
    for file in ["cmdline", "environ"] {
        let shown = fs::read(format!("/proc/{pid}/{file}")).unwrap();
        let shown = String::from_utf8_lossy(&shown);
        assert!(
            !shown.contains("PRIVATE KEY") && !shown.contains("CERTIFICATE"),
            "{shown}"
        );
    }
    let input = fs::read_link(format!("/proc/{pid}/fd/0")).unwrap();
    assert_eq!(input, Path::new("/dev/null"));
}

/// An authority, whose certificates lie in files.
pub struct Lab(CertifiedIssuer<'static, KeyPair>);

impl Lab {
    pub fn new() -> Self {
        let mut lab = CertificateParams::default();
        lab.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Lab(CertifiedIssuer::self_signed(lab, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes the files of a process into a directory: a certificate for this name, its key, and the authority.
    pub fn write(&self, directory: &Path, name: &str) {
        let key = KeyPair::generate().unwrap();
        let signed = CertificateParams::new([name.to_owned()]).unwrap();
        let signed = signed.signed_by(&key, &self.0).unwrap();
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join("chain.pem"), signed.pem()).unwrap();
        fs::write(directory.join("authority.pem"), self.0.pem()).unwrap();
        let private = directory.join("key.pem");
        fs::write(&private, "").unwrap();
        fs::set_permissions(&private, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        fs::write(&private, key.serialize_pem()).unwrap();
    }
}

/// The transport of a process with the files of this directory.
pub fn of_files(directory: &Path, names: PeerNames) -> LinkTransport {
    let file = |name| directory.join(name).to_str().unwrap().to_owned();
    LinkTransport::tls_files(file("chain.pem"), file("key.pem"), file("authority.pem"), names).unwrap()
}

/// A worker that is started by a script.
struct Script {
    transport: LinkTransport,
    script: &'static str,
}

impl ClusterManager for Script {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        let program = std::env::current_exe()?;
        let command = WorkerCommand::new("sh").argument("-c").argument(self.script);
        let command = command.argument(program.to_str().unwrap());
        out(WorkerConfig::default().command(command.bind("127.0.0.1".parse()?)));
        Ok(())
    }

    fn transport(&self) -> LinkTransport {
        self.transport.clone()
    }
}

/// Runs the worker with a cookie of its own.
const OTHER_COOKIE: &str = "exec \"$0\" \"$@\" <<END
0000000000000000000000000000000000000000000000000000000000000007
END
";

/// The error of a manager that is added, after which nothing is left.
fn refusal<M: ClusterManager + 'static>(runtime: &Runtime, manager: impl Fn() -> M) -> String {
    runtime.add(manager()).unwrap_err();
    let before = settled(Census::take);
    let error = runtime.add(manager()).unwrap_err();
    assert!(matches!(error, AddError::Worker(_)), "{error}");
    assert_eq!(wait_until(&before, Census::take), before);
    error.to_string()
}

#[test]
fn certificates_of_files_are_checked_by_their_authority_and_their_name() {
    let _guard = alone();
    let scratch = Scratch::new("files");
    let (lab, other) = (Lab::new(), Lab::new());
    lab.write(&scratch.0, "127.0.0.1");
    let transport = of_files(&scratch.0, PeerNames::Dialed);
    // Each runtime fixes its transport with its first workers. All of them live until the end, so that none ends while others are
    // counted.
    let runtimes = [(); 5].map(|()| Runtime::new().hello_timeout(Duration::from_secs(60)));
    let [fine, signed_elsewhere, named_otherwise, any_name, exposed] = &runtimes;
    let workers = fine.add(local(1).transport(transport.clone())).unwrap();
    assert!(is_alive(workers[0].pid().unwrap()));
    // From now on, workers find other files there than the driver has read.
    other.write(&scratch.0, "127.0.0.1");
    let error = refusal(signed_elsewhere, || local(1).transport(transport.clone()));
    assert!(error.contains("has not signed the peer's certificate"), "{error}");
    lab.write(&scratch.0, "node9");
    let error = refusal(named_otherwise, || local(1).transport(transport.clone()));
    assert!(
        error.contains("node9") && error.contains("`127.0.0.1` was dialled"),
        "{error}"
    );
    let any = of_files(&scratch.0, PeerNames::Any);
    let others = any_name.add(local(1).transport(any)).unwrap();
    assert!(is_alive(others[0].pid().unwrap()));
    fs::set_permissions(
        scratch.0.join("key.pem"),
        std::os::unix::fs::PermissionsExt::from_mode(0o644),
    )
    .unwrap();
    let error = refusal(exposed, || local(1).transport(transport.clone()));
    assert!(error.contains("has the permissions 644"), "{error}");
}

#[test]
fn a_worker_with_a_good_certificate_and_another_cookie_is_refused() {
    let _guard = alone();
    let scratch = Scratch::new("cookie");
    Lab::new().write(&scratch.0, "127.0.0.1");
    let transport = of_files(&scratch.0, PeerNames::Dialed);
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(60));
    let error = refusal(&runtime, || Script {
        transport: transport.clone(),
        script: OTHER_COOKIE,
    });
    assert!(error.contains("another cookie, cluster or build"), "{error}");
    // The same cookie is right, if both have it.
    let same = Runtime::new().hello_timeout(Duration::from_secs(60));
    let mut seven = [0; 32];
    seven[31] = 7;
    same.set_cookie(&CookieSource::Given(Cookie::new(seven))).unwrap();
    same.add(Script {
        transport,
        script: OTHER_COOKIE,
    })
    .unwrap();
}

#[test]
fn a_worker_without_tls_and_a_driver_without_it_are_named() {
    let _guard = beside_others();
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(60));
    let plain = Script {
        transport: tls(),
        script: "for last; do :; done; exec \"$0\" --selvedge-worker --bind-to 127.0.0.1",
    };
    let error = runtime.add(plain).unwrap_err().to_string();
    assert!(
        error.contains("within the handshake of TLS") || error.contains("speaks no TLS"),
        "{error}"
    );
}

#[test]
fn all_managers_of_a_runtime_have_one_transport() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let transport = tls();
    let workers = runtime.add(local(1).transport(transport.clone())).unwrap();
    for other in [LinkTransport::tcp(), tls()] {
        let error = runtime.add(local(1).transport(other)).unwrap_err();
        assert!(matches!(error, AddError::TransportFixed { .. }), "{error}");
    }
    let more = runtime.add(local(1).transport(transport)).unwrap();
    for worker in [&workers[0], &more[0]] {
        let found = runtime.call(pid::remote().on(worker)).wait().unwrap();
        assert_eq!(Some(found), worker.pid());
    }
}
