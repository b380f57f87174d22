//! Workers that do not come to be, and what is said about it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use selvedge::hosts::{AddError, ClusterManager, WorkerCommand, WorkerConfig};
use selvedge::prelude::*;

use crate::census::{Census, settled, wait_until};
use crate::{alone, beside_others, local};

/// A shell that runs a script in place of a worker.
struct Script(&'static str);

impl ClusterManager for Script {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        let command = WorkerCommand::new("sh").argument("-c").argument(self.0);
        out(WorkerConfig::default().ident("script").command(command));
        Ok(())
    }
}

fn refusal(manager: impl ClusterManager + 'static) -> String {
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(30));
    runtime.add(manager).unwrap_err().to_string()
}

#[test]
fn jmgr_18_a_worker_that_does_not_join_is_an_error_that_says_why() {
    let _guard = beside_others();
    let ended = refusal(Script("echo no such luck >&2; exit 3"));
    for part in ["`script`", "before it announced its address", "no such luck"] {
        assert!(ended.contains(part), "{ended}");
    }
    let unreachable = refusal(Script("echo 'selvedge-worker#1 127.0.0.1:1'; sleep 60"));
    assert!(
        unreachable.contains(" at 127.0.0.1:1: nobody answers"),
        "{unreachable}"
    );
    let other = refusal(Script("echo 'selvedge-worker#9 somewhere'; sleep 60"));
    assert!(other.contains("is of another build"), "{other}");
    let missing = refusal(Missing);
    assert!(missing.contains("starting `/no/such/program`"), "{missing}");
}

struct Missing;

impl ClusterManager for Missing {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        out(WorkerConfig::default().command(WorkerCommand::new("/no/such/program")));
        Ok(())
    }
}

/// Starts one worker, and fails.
struct Failing;

impl ClusterManager for Failing {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        local(1).launch(out)?;
        Err("no more machines".into())
    }
}

#[test]
fn jmgr_08_an_error_of_the_manager_is_the_error_of_add_and_leaves_nothing() {
    let _guard = alone();
    let runtime = Runtime::new();
    let add = || runtime.add(Failing).unwrap_err();
    add();
    let before = settled(Census::take);
    let error = add();
    assert!(matches!(error, AddError::Manager(_)), "{error}");
    assert!(error.to_string().contains("no more machines"), "{error}");
    assert_eq!(wait_until(&before, Census::take), before);
}

#[remote]
fn adds() -> Result<String> {
    let error = Runtime::current()?.add(local(1));
    Ok(error.err().map(|error| error.to_string()).unwrap_or_default())
}

#[test]
fn jclust_06_only_the_driver_adds_workers() {
    let _guard = beside_others();
    let runtime = Runtime::new();
    let worker = runtime.worker("child").unwrap();
    let said = runtime.call(adds::remote().on(&worker)).wait().unwrap();
    assert!(
        said.ends_with(" cannot add workers: only the process that made the runtime can"),
        "{said}"
    );
}

/// A copy of this program that passes for another build of it. The drop removes it.
pub struct AnotherBuild {
    pub path: PathBuf,
    /// What an error calls this build and that one.
    builds: [String; 2],
}

impl AnotherBuild {
    pub fn new(name: &str) -> Self {
        let mut program = fs::read(std::env::current_exe().unwrap()).unwrap();
        // The note with the build id: the lengths of its name and of the id, its type, and its name.
        let is_note = |bytes: &[u8]| bytes[..4] == [4, 0, 0, 0] && bytes[8..] == *b"\x03\0\0\0GNU\0";
        let note = program.windows(16).position(is_note).map(|note| note + 16);
        let id = |program: &[u8]| match note {
            Some(id) => program[id..][..usize::from(program[id - 12])]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
            None => "hash-".to_owned(),
        };
        let ours = id(&program);
        match note {
            Some(id) => program[id] ^= 1,
            // Without an id, the end of the file counts.
            None => program.push(0),
        }
        let builds = [ours, id(&program)];
        let path = std::env::temp_dir().join(format!("selvedge-build-{name}-{}", std::process::id()));
        fs::write(&path, program).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        AnotherBuild { path, builds }
    }

    /// Demands an error that names both builds, whichever of the two processes says it.
    pub fn is_blamed(&self, error: &str) {
        let [ours, theirs] = &self.builds;
        let said = |one: &str, other: &str| {
            let (_, rest) = error.split_once(&format!("runs build {one}"))?;
            rest.split_once(&format!("and this process {other}"))
        };
        assert!(
            said(ours, theirs).or_else(|| said(theirs, ours)).is_some(),
            "{ours} and {theirs}: {error}"
        );
    }
}

impl Drop for AnotherBuild {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

struct Built(String);

impl ClusterManager for Built {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        let command = WorkerCommand::new(&self.0).bind("127.0.0.1".parse()?);
        out(WorkerConfig::default().ident("older").command(command));
        Ok(())
    }
}

#[test]
fn jnet_17_a_worker_of_another_build_is_refused_by_name() {
    let _guard = beside_others();
    let other = AnotherBuild::new("launched");
    let error = refusal(Built(other.path.to_str().unwrap().to_owned()));
    assert!(error.contains("worker `older`"), "{error}");
    other.is_blamed(&error);
}
