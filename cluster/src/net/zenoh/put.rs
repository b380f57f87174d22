//! The sending of packets by zenoh.

use ::zenoh::key_expr::KeyExpr;
use ::zenoh::qos::{CongestionControl, Priority};
use ::zenoh::{Session, Wait};

/// Has a session send a packet. Words about a stream travel before its bytes.
pub(super) fn put(session: &Session, key: KeyExpr<'static>, packet: Vec<u8>, is_short: bool) {
    let priority = match is_short {
        true => Priority::InteractiveHigh,
        false => Priority::Data,
    };
    let put = session.put(key, packet).priority(priority);
    // An error means that the session is closed. What is lost is sent again, or missed.
    let _ = put.congestion_control(CongestionControl::Drop).wait();
}
