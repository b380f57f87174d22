//! Workers on machines of `ssh`, which a script plays: it runs the command of its last argument on this host.

use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use selvedge::Worker;
use selvedge::hosts::{MachineSpec, SshManager, SshOptions};
use selvedge::prelude::*;

use crate::census::{Census, settled, wait_until};
use crate::{alone, beside_others, pid};

/// A folder with a program that plays `ssh`. The drop removes the folder.
pub struct Played {
    folder: PathBuf,
}

impl Played {
    /// `script` is what is done with the command `$last`.
    pub fn new(name: &str, script: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("selvedge-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let played = Played { folder };
        let told = played.file("told");
        let text = format!(
            "#!/bin/sh\ncd {folder}\nfor last; do :; done\necho \"$*\" >> {told}\n\
             export SSH_CONNECTION='127.0.0.1 1 127.0.0.1 22'\n{script}\n",
            folder = played.folder.display(),
            told = told.display()
        );
        fs::write(played.file("ssh"), text).unwrap();
        fs::set_permissions(played.file("ssh"), fs::Permissions::from_mode(0o700)).unwrap();
        played
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn options(&self) -> SshOptions {
        SshOptions::default().program(self.file("ssh").to_str().unwrap())
    }

    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.file(file)).unwrap()
    }

    pub fn manager(&self, machines: &str) -> SshManager {
        SshManager::machines(MachineSpec::parse_file(machines).unwrap()).options(self.options())
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn names(workers: &[Worker]) -> Vec<&str> {
    workers.iter().map(Worker::name).collect()
}

#[test]
fn jmgr_04_jmgr_14_workers_are_started_by_ssh_and_reached_where_they_say() {
    let _guard = beside_others();
    let played = Played::new("ssh", "echo 'Welcome to the machine'\nexec sh -c \"$last\"");
    let runtime = Runtime::new();
    let workers = runtime
        .add(played.manager("2*ada@gpu0:2222\ngpu1 127.0.0.1 # behind the others"))
        .unwrap();
    assert_eq!(names(&workers), ["gpu0 1", "gpu1", "gpu0 2"]);
    for worker in &workers {
        let found = runtime.call(pid::remote().on(worker)).wait().unwrap();
        assert_eq!(Some(found), worker.pid());
    }
    let told = played.read("told");
    assert!(told.contains("-p 2222 -l ada gpu0 exec "), "{told}");
    assert!(
        told.contains("gpu1 exec ") && told.contains("--selvedge-worker --bind-to 127.0.0.1"),
        "{told}"
    );
}

#[test]
fn jmgr_15_the_first_worker_of_a_machine_says_how_many_cores_there_are() {
    let _guard = beside_others();
    // The machine `one` has a core: the first of those that this process has.
    let script = "first=$(taskset -pc $$ | sed 's/.*: //; s/[^0-9].*//')\n\
                  case \"$*\" in *' one '*) exec taskset -c $first sh -c \"$last\";; esac\nexec sh -c \"$last\"";
    let played = Played::new("count", script);
    let runtime = Runtime::new();
    let workers = runtime
        .add(played.manager("auto*one\nauto*all\n3*three"))
        .unwrap();
    let count = |name: &str| {
        let is_there = |worker: &&str| worker.starts_with(name);
        names(&workers).into_iter().filter(is_there).count()
    };
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!([count("one "), count("all "), count("three ")], [1, cores, 3]);
}

#[test]
fn jnet_10_no_more_workers_of_a_machine_are_connected_at_a_time_than_allowed() {
    let _guard = beside_others();
    // A worker is being connected until it has said where it listens.
    let script = "mkdir -p busy; touch busy/$$; ls busy | wc -l >> counts\n\
                  sh -c \"$last\" | while read -r line; do\n\
                  case $line in selvedge-worker*) rm busy/$$;; esac; echo \"$line\"; done";
    let played = Played::new("parallel", script);
    let options = played.options().max_parallel(NonZeroUsize::MIN);
    let manager = played.manager("2*gpu0\n2*gpu0").options(options);
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(60));
    let workers = runtime.add(manager).unwrap();
    assert_eq!(workers.len(), 4);
    let counts = played.read("counts");
    assert_eq!(counts.split_whitespace().collect::<Vec<_>>(), ["1"; 4]);
    assert_eq!(SshOptions::default().max_parallel.get(), 10);
}

/// The part of `ssh` that carries tunnels: what it forwards, the command that it runs, and where it writes its pid.
#[test]
#[ignore = "a part of the tests below"]
fn a_forwarder() {
    use std::net::TcpStream;
    use std::os::unix::net::UnixListener;
    use std::thread::spawn;
    let Ok(forward) = std::env::var("SELVEDGE_TEST_FORWARD") else {
        return;
    };
    let (entry, to) = forward.split_once(':').unwrap();
    let (listener, to) = (UnixListener::bind(entry).unwrap(), to.to_owned());
    let carry = spawn(move || {
        for near in listener.incoming() {
            let (near, far) = (near.unwrap(), TcpStream::connect(&to).unwrap());
            let (mut from_near, mut to_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            let (mut from_far, mut to_near) = (far, near);
            spawn(move || {
                let _ = std::io::copy(&mut from_near, &mut to_far);
                let _ = to_far.shutdown(std::net::Shutdown::Write);
            });
            spawn(move || {
                let _ = std::io::copy(&mut from_far, &mut to_near);
                let _ = to_near.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    match std::env::var("SELVEDGE_TEST_COMMAND") {
        Ok(command) => {
            // The harness is in the middle of a line.
            println!();
            drop(std::process::Command::new("sh").args(["-c", &command]).status());
        }
        Err(_) => {
            fs::write("open", "").unwrap();
            carry.join().unwrap();
        }
    }
}

/// What the played `ssh` does about tunnels.
pub fn forwarding() -> String {
    let program = std::env::current_exe().unwrap();
    format!(
        "forward=; control=; for word; do\n\
         [ \"$before\" = -L ] && forward=$word; [ \"$before\" = -O ] && control=$word; before=$word; done\n\
         helper='{} --exact ssh::a_forwarder --ignored --nocapture --test-threads=1'\n\
         case $control in\n\
         forward) SELVEDGE_TEST_FORWARD=$forward setsid $helper </dev/null >/dev/null 2>&1 & echo $! > carrier\n\
         until [ -e open ]; do sleep 0.01; done; exit 0;;\n\
         cancel) kill $(cat carrier); touch cancelled; exit 0;;\n\
         esac\n\
         if [ -n \"$forward\" ]; then\n\
         SELVEDGE_TEST_FORWARD=$forward SELVEDGE_TEST_COMMAND=$last exec $helper\n\
         fi\n\
         exec sh -c \"$last\"",
        program.display()
    )
}

#[test]
fn jnet_06_with_a_tunnel_only_ssh_reaches_the_worker_and_the_tunnel_ends_with_it() {
    let _guard = alone();
    let played = Played::new("tunnel", &forwarding());
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(60));
    let me = std::process::id();
    let sockets = crate::ports::links(me);
    let round = || {
        let manager = played
            .manager("gpu0\ngpu1")
            .options(played.options().tunnel(true));
        let workers = runtime.add(manager).unwrap();
        for worker in &workers {
            let found = runtime.call(pid::remote().on(worker)).wait().unwrap();
            assert_eq!(Some(found), worker.pid());
        }
        // This process has no socket to them.
        assert_eq!(crate::ports::links(me), sockets);
        for worker in workers {
            worker.end(Duration::from_secs(60)).unwrap();
        }
    };
    round();
    let told = played.read("told");
    assert!(told.contains("-o ExitOnForwardFailure=yes -L /"), "{told}");
    let before = settled(Census::take);
    round();
    assert_eq!(wait_until(&before, Census::take), before);
}

#[remote]
fn pid_at(place: Ref<u32>) -> Result<u32> {
    Ok(*place.fetch()?)
}

#[test]
fn jnet_07_two_workers_behind_tunnels_reach_each_other_by_their_ports_alone() {
    let _guard = alone();
    let played = Played::new("ports", &forwarding());
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(60));
    let manager = played
        .manager("gpu0\ngpu1")
        .options(played.options().tunnel(true));
    let workers = runtime.add(manager).unwrap();
    let [one, other] = [0, 1].map(|at| workers[at].pid().unwrap());
    assert!(!crate::ports::are_linked(one, other));
    let kept = runtime.keep(pid::remote().on(&workers[0]));
    let found = runtime
        .call(pid_at::remote(&kept).on(&workers[1]))
        .wait()
        .unwrap();
    assert_eq!(found, one);
    assert!(crate::ports::are_linked(one, other));
}

#[test]
fn jnet_06_a_tunnel_that_cannot_be_opened_is_an_error_with_the_words_of_ssh() {
    let _guard = beside_others();
    let script =
        "case \"$*\" in *' -L '*) echo 'no forwarding for you' >&2; exit 255;; esac\nexec sh -c \"$last\"";
    let played = Played::new("closed", script);
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(60));
    let manager = played.manager("gpu0").options(played.options().tunnel(true));
    let error = runtime.add(manager).unwrap_err().to_string();
    assert!(
        error.contains("the tunnel to 127.0.0.1:") && error.contains("no forwarding for you"),
        "{error}"
    );
}

#[test]
fn jnet_09_a_tunnel_in_a_shared_connection_is_taken_out_of_it_in_the_end() {
    let _guard = beside_others();
    let played = Played::new("shared", &forwarding());
    let options = played.options().tunnel(true).multiplex(true);
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(60));
    let workers = runtime.add(played.manager("gpu0").options(options)).unwrap();
    let found = runtime.call(pid::remote().on(&workers[0])).wait().unwrap();
    assert_eq!(Some(found), workers[0].pid());
    let told = played.read("told");
    assert!(
        told.contains("-o ControlMaster=auto ") && told.contains("-O forward -o ControlPath="),
        "{told}"
    );
    workers[0].end(Duration::from_secs(60)).unwrap();
    assert!(wait_until(&true, || played.file("cancelled").exists()));
}
