//! Workers on machines of `ssh`, which a script plays: it runs the command of its last argument on this host.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use selvedge::hosts::{MachineSpec, SshManager, SshOptions};
use selvedge::prelude::*;

use crate::{beside_others, pid};

#[test]
fn jmgr_04_jmgr_14_workers_are_started_by_ssh_and_reached_where_they_say() {
    let _guard = beside_others();
    let folder = std::env::temp_dir().join(format!("selvedge-ssh-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (script, told) = (folder.join("ssh"), folder.join("told"));
    let text = format!(
        "#!/bin/sh\nfor last; do :; done\necho \"$*\" >> {}\necho 'Welcome to the machine'\n\
         SSH_CONNECTION='127.0.0.1 1 127.0.0.1 22' exec sh -c \"$last\"\n",
        told.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
    let machines = MachineSpec::parse_file("2*ada@gpu0:2222\ngpu1 127.0.0.1 # behind the others").unwrap();
    let options = SshOptions::default().program(script.to_str().unwrap());
    let runtime = Runtime::new();
    let workers = runtime
        .add(SshManager::machines(machines).options(options))
        .unwrap();
    let names: Vec<_> = workers.iter().map(|worker| worker.name().to_owned()).collect();
    assert_eq!(names, ["gpu0 1", "gpu0 2", "gpu1"]);
    for worker in &workers {
        let found = runtime.call(pid::remote().on(worker)).wait().unwrap();
        assert_eq!(Some(found), worker.pid());
    }
    let told = fs::read_to_string(told).unwrap();
    assert!(told.contains("-p 2222 -l ada gpu0 exec "), "{told}");
    assert!(
        told.contains("gpu1 exec ") && told.contains("--selvedge-worker --bind-to 127.0.0.1"),
        "{told}"
    );
    fs::remove_dir_all(folder).unwrap();
}
