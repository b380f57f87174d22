//! A model whose stages are on two hosts, which workers of this one play, is the model on one host.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test that cannot set up has failed

mod made;

use std::num::NonZeroU16;

use made::{CONFIG, Made, one, prompt};
use selvedge::hosts::{ClusterManager, LocalManager, WorkerConfig};
use selvedge::prelude::*;
use selvedge_llama::deployment::{Deployment, Layout};
use selvedge_llama::step::Sampled;

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

#[test]
fn two_by_two_over_two_hosts_is_the_model_on_one_host_bit_for_bit() {
    let made = Made::new("hosts", CONFIG);
    let runtime = Runtime::new();
    let workers = runtime.add(TwoHosts).unwrap();
    assert!(workers[0].host() == workers[1].host() && workers[1].host() != workers[2].host());
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
        let deployment = Deployment::load(&runtime, &made.path, &layout).unwrap();
        steps(&deployment, 64)
    });
    assert_eq!(near.0, far.0, "the tokens");
    assert!(near.1 == far.1, "the logits");
}
