//! The keeper of a node: the thread that opens its session, settles its doubts, refuses strangers, and closes the session.
//!
//! All that may wait in zenoh happens here. Threads of zenoh that call back only enqueue.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use ::zenoh::key_expr::KeyExpr;
use ::zenoh::pubsub::Subscriber;
use ::zenoh::sample::{Sample, SampleKind};
use ::zenoh::{Session, Wait};

use super::error::ZenohError;
use super::packet::{PacketBody, RelayPacket};
use super::put::put;
use super::settings::ZenohSettings;
use super::switchboard::{Chore, RefusedCall, Switchboard};
use super::watches::TokenWatch;

/// The time in which a router has to be there when a session is opened.
const OPEN_MAX: Duration = Duration::from_secs(10);
/// The pause between two tries.
const OPEN_PAUSE: Duration = Duration::from_millis(200);

/// The life of a keeper.
pub(super) fn keep(
    switchboard: &Arc<Switchboard>,
    settings: &ZenohSettings,
    opened: &SyncSender<Result<Session, ZenohError>>,
) {
    let session = match open(switchboard, settings) {
        Ok(session) => session,
        Err(error) => return drop(opened.send(Err(error))),
    };
    // These end with the session.
    let declared = declare(&session, switchboard, settings);
    match &declared {
        Ok(_) => drop(opened.send(Ok(session.clone()))),
        Err(error) => drop(opened.send(Err(error.clone()))),
    }
    if declared.is_ok() {
        work(&session, switchboard, settings);
    }
    let _ = session.close().wait();
}

/// Opens a session with the first router that answers.
fn open(switchboard: &Switchboard, settings: &ZenohSettings) -> Result<Session, ZenohError> {
    let deadline = Instant::now() + OPEN_MAX;
    loop {
        let text = match ::zenoh::open(settings.config()?).wait() {
            Ok(session) => return Ok(session),
            Err(error) => error.to_string(),
        };
        if !switchboard.pause(OPEN_PAUSE) || Instant::now() > deadline {
            let routers = settings.named();
            return Err(ZenohError::Unreachable { routers, text });
        }
    }
}

/// The subscription and the token of a session.
type Declared = Box<dyn std::any::Any>;

/// Subscribes to the packets for this node, and shows its token: whoever sees it can reach the node.
fn declare(
    session: &Session,
    switchboard: &Arc<Switchboard>,
    settings: &ZenohSettings,
) -> Result<Declared, ZenohError> {
    let prefix = settings.prefix()?;
    let mine = format!("{prefix}/{}", switchboard.me);
    let failed = |error: ::zenoh::Error| ZenohError::System {
        text: error.to_string(),
    };
    let lines = Arc::clone(switchboard);
    let packets = session.declare_subscriber(mine.clone());
    let packets = packets.callback(move |sample| lines.receive(&sample.payload().to_bytes()));
    let packets = packets.wait().map_err(failed)?;
    let token = session.liveliness().declare_token(mine).wait().map_err(failed)?;
    Ok(Box::new((packets, token)))
}

/// Watches the token of a node, which is told at once if it is there. Without an answer the node is doubted.
fn watch(session: &Session, switchboard: &Arc<Switchboard>, key: String) -> Option<Subscriber<()>> {
    let tokens = Arc::clone(switchboard);
    let watch = session.liveliness().declare_subscriber(key).history(true);
    let watch = watch.callback(move |sample| of_token(&tokens, &sample));
    // An error means that the session is closed.
    watch.wait().ok()
}

/// A token is there, or gone.
fn of_token(switchboard: &Switchboard, sample: &Sample) {
    let name = sample.key_expr().as_str().rsplit('/').next();
    let Some(Ok(node)) = name.map(str::parse) else {
        return;
    };
    match sample.kind() {
        SampleKind::Put => switchboard.appeared(node),
        SampleKind::Delete => switchboard.vanished(node),
    }
}

/// Does the chores until the node is closed.
fn work(session: &Session, switchboard: &Arc<Switchboard>, settings: &ZenohSettings) {
    let prefix = settings.prefix().unwrap_or_default();
    let mut watched = HashMap::new();
    loop {
        match switchboard.chore() {
            Chore::Close(_) => return,
            Chore::Look => {
                let has_router = session.info().routers_zid().wait().next().is_some();
                switchboard.looked(has_router);
            }
            Chore::Watch(TokenWatch::Begin(node)) => {
                let watch = watch(session, switchboard, format!("{prefix}/{node}"));
                watched.extend(watch.map(|watch| (node, watch)));
            }
            // The drop ends the watch.
            Chore::Watch(TokenWatch::End(node)) => drop(watched.remove(&node)),
            Chore::Refuse(RefusedCall { from, to }) => {
                if let Ok(key) = KeyExpr::new(format!("{prefix}/{}", to.node)) {
                    let (to, body) = (to.number, PacketBody::Refused);
                    put(session, key, RelayPacket { from, to, body }.encode(), true);
                }
            }
        }
    }
}
