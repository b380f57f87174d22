//! The state after many deaths. The test is alone in its process, so that it counts only its own resources.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot set up has failed"
)]

mod support;

use selvedge::Placement;
use selvedge_serve::process::holdings;
use serde_json::json;
use support::{DEATH, Setup, start, until};

const COMPLETIONS: &str = "/v1/completions";

fn body(prompt: &str) -> String {
    json!({"model": "parrot", "prompt": prompt}).to_string()
}

/// Returns the number of child processes, including zombies.
fn children() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    lists.map(|list| list.split_whitespace().count()).sum()
}

#[test]
fn ten_deaths_leave_no_process_descriptor_or_thread_behind() {
    // The number of tokio's threads for blocking work varies, so the runtime gets only one.
    let mut threads = tokio::runtime::Builder::new_current_thread();
    let threads = threads.enable_all().max_blocking_threads(1).build().unwrap();
    threads.block_on(ten_deaths());
}

async fn ten_deaths() {
    let service = start(Setup {
        placement: Placement::Process,
        ..Setup::default()
    })
    .await;
    let own = || holdings(std::process::id());
    let mut first = None;
    for death in 1..=10 {
        let (status, _) = service.json(COMPLETIONS, &body(&format!("ab{DEATH}"))).await;
        assert_eq!(status, 503);
        let rebuilt = async || service.metric("selvedge_rebuilds_total").await == f64::from(death);
        until("it is rebuilt", rebuilt).await;
        assert_eq!(service.json(COMPLETIONS, &body("hello")).await.0, 200);
        first = first.or_else(|| Some((own(), children())));
    }
    let (first, processes) = first.unwrap();
    // A thread that was told to end may take its time; none may stay.
    until("descriptors and threads are given back", async || {
        own().descriptors <= first.descriptors && own().threads <= first.threads
    })
    .await;
    assert_eq!(children(), processes);
    assert_eq!(service.stop().await, 0);
}
