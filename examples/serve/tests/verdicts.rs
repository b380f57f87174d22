//! The verdicts of the command `load`.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

mod support;

use clap::Parser;
use selvedge_serve::load::arguments::Arguments;
use selvedge_serve::load::trial::{self, Verdict};
use support::{Running, Setup, start};

async fn verdict(service: &Running, arguments: &[&str]) -> Verdict {
    let address = service.address.to_string();
    let always = ["load", "--address", &address, "--prompt", "abc"];
    let arguments = Arguments::parse_from(always.iter().chain(arguments));
    trial::run(&arguments).await.unwrap()
}

#[tokio::test]
async fn clients_that_never_had_an_answer_do_not_show_that_no_work_is_left_behind() {
    let service = start(Setup::default()).await;
    let refused = verdict(&service, &["--leave", "3", "--max-tokens", "0"]).await;
    assert!(
        !refused.good && refused.text.contains("no answer began"),
        "{}",
        refused.text
    );
    let left = verdict(&service, &["--leave", "3"]).await;
    assert!(left.good, "{}", left.text);
}

#[tokio::test]
async fn a_run_without_an_answer_is_not_good() {
    let service = start(Setup::default()).await;
    let refused = verdict(
        &service,
        &["--clients", "1", "--seconds", "1", "--max-tokens", "0"],
    )
    .await;
    assert!(!refused.good, "{}", refused.text);
    let served = verdict(&service, &["--clients", "1", "--seconds", "1"]).await;
    assert!(served.good, "{}", served.text);
}
