//! Tests of `selvedge doctor`, run as a user runs it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

#[test]
fn the_doctor_says_what_there_is_and_what_is_missing() {
    let output = Command::new(env!("CARGO_BIN_EXE_selvedge"))
        .arg("doctor")
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for line in [
        "cores      ",
        "kernel     Linux ",
        "memory     can be shared between processes",
        "deaths     ",
        "CUDA       ",
    ] {
        assert!(
            text.lines().any(|found| found.starts_with(line)),
            "{line}: {text}"
        );
    }
}

/// A folder of one test, which is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder = Folder(std::env::temp_dir().join(format!("selvedge-doctor-{}", std::process::id())));
        std::fs::create_dir_all(&folder.0).unwrap();
        folder
    }

    /// Writes a file with these permissions, and returns its path.
    fn write(&self, name: &str, text: &str, mode: u32) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A shell plays `ssh`: it runs the last word, unless the machine is `far`.
#[test]
fn the_doctor_of_hosts_says_what_is_wrong_and_how_to_mend_it() {
    let folder = Folder::new();
    let script = "#!/bin/sh\ncase \"$*\" in *far*) echo 'no route to far' >&2; exit 255;; esac\nfor word; do :; done\nexec sh -c \"$word\"\n";
    let ssh = folder.write("ssh", script, 0o700);
    let machines = folder.write("machines", "here 127.0.0.1\nfar\n", 0o600);
    let exposed = folder.write("cookie", &format!("{}\n", "5a".repeat(32)), 0o644);
    let program = env!("CARGO_BIN_EXE_selvedge");
    let checks = |extra: &[&str]| {
        let output = Command::new(program)
            .args(["doctor", "--ssh", &ssh, "--hosts", &machines])
            .args(extra)
            .output()
            .unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.success())
    };
    let (text, is_well) = checks(&["--program", program, "--cookie-file", &exposed]);
    assert!(!is_well, "{text}");
    for part in [
        "WRONG  ",
        "chmod 600",
        &format!("ok     here: is reached by `ssh`, and has the same `{program}`"),
        "ok     here: a worker listens at 127.0.0.1:",
        "WRONG  far: `ssh` does not reach it: no route to far",
        "help: `",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (text, _) = checks(&["--program", &exposed]);
    assert!(text.contains("no worker starts there: "), "{text}");
    let (text, _) = checks(&["--program", "/no/such/program"]);
    assert!(text.contains("cannot be read here"), "{text}");
}
