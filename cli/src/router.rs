//! `selvedge router`: a router of zenoh, at which hosts meet that cannot dial each other.

use std::io::Write;

use anyhow::Context;
use selvedge::hosts::ZenohRouter;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::RouterArgs;

/// Runs the router until Ctrl-C or a signal to end, and prints where it listens.
///
/// # Errors
/// The router cannot listen, or the system gives no signals.
pub fn run(args: &RouterArgs) -> anyhow::Result<()> {
    let reactor = Builder::new_current_thread().enable_io().build()?;
    // Before the router is there, so that whoever sees it can end it.
    let (mut interrupt, mut terminate) = {
        let _guard = reactor.enter();
        let of = |kind| signal(kind).context("signals cannot be heard");
        (of(SignalKind::interrupt())?, of(SignalKind::terminate())?)
    };
    let router = ZenohRouter::start(&args.listen, &args.set)?;
    // The error is ignored: a router whose output nobody reads works.
    let listens = router.endpoints().join(", ");
    let _ = writeln!(std::io::stdout(), "router: listens at {listens} (Ctrl-C ends it)");
    reactor.block_on(async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    });
    drop(router);
    let _ = writeln!(std::io::stdout(), "router: ended");
    Ok(())
}
