//! A model whose stages are on two hosts is the model on one host: on hosts that workers of this one play, and on hosts with namespaces and
//! a network of their own, whose workers dial in.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test that cannot set up has failed

mod made;

use std::num::NonZeroU16;
#[cfg(target_os = "linux")]
use std::path::{Path, PathBuf};
#[cfg(target_os = "linux")]
use std::process::{Command, Stdio};

use made::{CONFIG, Made, one, prompt};
use selvedge::Worker;
#[cfg(target_os = "linux")]
use selvedge::hosts::DialIn;
use selvedge::hosts::{ClusterManager, LocalManager, WorkerConfig};
use selvedge::prelude::*;
use selvedge_llama::deployment::{Deployment, Layout};
use selvedge_llama::step::Sampled;
#[cfg(target_os = "linux")]
use selvedge_test_hosts::Hosts;

/// Two workers on each of two hosts.
struct TwoHosts;

impl ClusterManager for TwoHosts {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        let mut hosts = ["one", "one", "two", "two"].iter();
        LocalManager::workers(NonZeroU16::new(4).unwrap()).launch(&mut |mut config| {
            let command = config.command.take().unwrap();
            // Candle's thread pool would compete with the lanes for the cores.
            let command = command.variable("RAYON_NUM_THREADS", "1");
            out(config.command(command.variable("SELVEDGE_HOST", *hosts.next().unwrap())));
        })
    }
}

/// The tokens and the logits of some steps.
fn steps(deployment: &Deployment, count: usize) -> (Vec<Sampled>, Vec<Vec<f32>>) {
    let (mut start, mut tokens) = (0, prompt(9, 1));
    let (mut found, mut logits) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let sampled = deployment.step(one(1, start, &tokens)).wait().unwrap();
        start += tokens.len();
        tokens = vec![sampled[0].token];
        found.extend(sampled);
        logits.push(deployment.logits().unwrap().as_slice::<f32>().unwrap().to_vec());
    }
    (found, logits)
}

/// Has a model of two stages with two ranks each, on the workers of two hosts, say what the model on one host says.
fn says_what_the_model_on_one_host_says(runtime: &Runtime, workers: Vec<Worker>, made: &Path, count: usize) {
    assert!(workers[0].host() == workers[1].host() && workers[2].host() == workers[3].host());
    assert!(workers[1].host() != workers[2].host());
    let near = Layout {
        pipeline: 2,
        tensor: 2,
        placement: Placement::Process,
        slots: 3,
        ..Layout::default()
    };
    let far = Layout {
        workers,
        ..near.clone()
    };
    let [near, far] = [near, far].map(|layout| {
        let deployment = Deployment::load(runtime, made, &layout).unwrap();
        steps(&deployment, count)
    });
    assert_eq!(near.0, far.0, "the tokens");
    assert!(near.1 == far.1, "the logits");
}

#[test]
fn two_by_two_over_two_hosts_is_the_model_on_one_host_bit_for_bit() {
    let made = Made::new("hosts", CONFIG);
    let runtime = Runtime::new();
    let workers = runtime.add(TwoHosts).unwrap();
    says_what_the_model_on_one_host_says(&runtime, workers, &made.path, 64);
}

/// The variables of the driver: where it listens, the path of its invitation, and the folder of the model.
#[cfg(target_os = "linux")]
const VARIABLES: [&str; 3] = ["LLAMA_ADDRESS", "LLAMA_INVITATION", "LLAMA_MODEL"];

/// The driver of the test below, which runs on a host of its own.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "a part of the test below"]
fn a_driver_of_guests() {
    let [Ok(address), Ok(invitation), Ok(model)] = VARIABLES.map(std::env::var) else {
        return;
    };
    let runtime = Runtime::new();
    let door = DialIn::listen(&*address).unwrap();
    runtime.invitation(&door).unwrap().save(invitation).unwrap();
    let workers = runtime.add(door.expect(NonZeroU16::new(4).unwrap())).unwrap();
    // They come in any order.
    let first = workers[0].host();
    let (mut sorted, others): (Vec<_>, Vec<_>) =
        workers.into_iter().partition(|worker| worker.host() == first);
    sorted.extend(others);
    says_what_the_model_on_one_host_says(&runtime, sorted, Path::new(&model), 32);
}

/// The place of an invitation. The drop removes it.
#[cfg(target_os = "linux")]
struct Invitation(PathBuf);

#[cfg(target_os = "linux")]
impl Drop for Invitation {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn two_by_two_over_three_hosts_with_networks_of_their_own_is_the_model_on_one_host() {
    let Some(hosts) = Hosts::or_left_out(3).unwrap() else {
        return;
    };
    let made = Made::new("namespaces", CONFIG);
    let name = format!("selvedge-llama-{}", std::process::id());
    let invitation = Invitation(std::env::temp_dir().join(name));
    let address = format!("{}:7447", hosts.host(0).address());
    let program = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env("RAYON_NUM_THREADS", "1").stdin(Stdio::null());
        command
    };
    let mut driver = program();
    driver.args(["--exact", "a_driver_of_guests", "--ignored", "--nocapture"]);
    let values = [address.as_ref(), invitation.0.as_os_str(), made.path.as_os_str()];
    driver.envs(VARIABLES.into_iter().zip(values));
    let driver = hosts.host(0).spawn(driver).unwrap();
    let is_written = || std::fs::metadata(&invitation.0).is_ok_and(|file| file.len() > 0);
    let written = (0..6000).any(|_| {
        is_written() || {
            std::thread::sleep(std::time::Duration::from_millis(10));
            false
        }
    });
    assert!(written, "the driver has written no invitation");
    let guests = [1, 2, 1, 2].map(|number| {
        let mut guest = program();
        guest
            .args(["--selvedge-worker", "--dial", &address, "--cookie-file"])
            .arg(&invitation.0);
        hosts.host(number).spawn(guest).unwrap()
    });
    assert!(driver.wait().unwrap().success());
    for guest in &guests {
        assert!(guest.wait().unwrap().success());
    }
    // The stages are apart.
    let [one, two] = [1, 2].map(|number| hosts.host(number));
    let traffic = [hosts.traffic(one, two).bytes, hosts.traffic(two, one).bytes];
    assert!(traffic.iter().any(|bytes| *bytes > 32 * 64 * 4), "{traffic:?}");
}
