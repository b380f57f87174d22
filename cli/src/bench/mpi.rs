//! Open MPI's allreduce of private vectors, for machines that have its compiler wrapper and its launcher.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context;
use serde::Deserialize;

use super::measure::Summary;

const PROGRAM: &str = include_str!("mpi.c");
/// The time limit of one run, in seconds.
const PATIENCE: &str = "120";

/// The compiled program in a folder, which is removed on drop.
pub(super) struct Peer {
    folder: PathBuf,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The results that the program prints for one variant.
#[derive(Deserialize)]
struct Found {
    iterations: u64,
    p50_ns: f64,
    p90_ns: f64,
    p99_ns: f64,
    p999_ns: f64,
}

/// Runs a command and returns its standard output.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{name} cannot be run: Debian has it in openmpi-bin and libopenmpi-dev"))?;
    let errors = String::from_utf8_lossy(&done.stderr);
    anyhow::ensure!(done.status.success(), "{name}: {}: {errors}", done.status);
    Ok(String::from_utf8(done.stdout)?)
}

impl Peer {
    /// Compiles the program.
    pub(super) fn compile() -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("selvedge-mpi-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        let peer = Peer { folder };
        let source = peer.folder.join("allreduce.c");
        fs::write(&source, PROGRAM)?;
        output(
            Command::new("mpicc")
                .arg("-O3")
                .arg(&source)
                .arg("-o")
                .arg(peer.program()),
        )?;
        Ok(peer)
    }

    fn program(&self) -> PathBuf {
        self.folder.join("allreduce")
    }

    /// Runs one repeat of both variants, from one vector to another and in place. Each rank has a core of its own if
    /// there are enough cores.
    pub(super) fn measure(
        &self,
        payload: u64,
        samples: usize,
        ranks: usize,
        cores: usize,
    ) -> anyhow::Result<[Summary; 2]> {
        let mut command = Command::new("mpirun");
        command.args(["--timeout", PATIENCE, "-n", &ranks.to_string(), "--bind-to"]);
        match ranks <= cores {
            true => command.arg("core"),
            false => command.args(["none", "--oversubscribe"]),
        };
        command.arg(self.program());
        command.args([payload.to_string(), samples.to_string()]);
        // `mpirun` refuses to run as root, the user of most containers, unless these variables are set.
        for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
            command.env(name, "1");
        }
        let text = output(&mut command)?;
        let found: [Found; 2] =
            serde_json::from_str(&text).with_context(|| format!("mpirun printed {text:?}"))?;
        Ok(found.map(|it| Summary {
            iterations: it.iterations,
            p50_ns: it.p50_ns,
            p90_ns: it.p90_ns,
            p99_ns: it.p99_ns,
            p999_ns: it.p999_ns,
            per_second: 1e9 / it.p50_ns.max(1e-3),
        }))
    }
}
