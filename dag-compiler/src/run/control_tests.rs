//! Tests of the control block.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use selvedge_channels::Waiting;
use selvedge_channels::memory::segment::{Provider, Segment};

use selvedge_core::HostId;

use super::*;
use crate::run::layout::LaneSpans;

/// A dead process has rung the lane's doorbell, and has woken nobody: the word says awake, and the lane sleeps.
#[test]
fn a_lane_whose_wake_up_died_with_its_ringer_hears_of_the_failure() {
    let lane = LaneId(1);
    let span = |place: usize| Span {
        offset: place * 256,
        len: 256,
    };
    let spans = LaneSpans {
        bell: span(2),
        progress: span(3),
        failure: span(4),
        trace: span(5),
    };
    let layout = Layout {
        host: HostId::DRIVER,
        control: span(0),
        cancels: span(1),
        lanes: [(lane, spans)].into_iter().collect(),
        joints: IdMap::new(),
        channels: IdMap::new(),
        communicators: IdMap::new(),
        len_bytes: 6 * 256,
    };
    let segment = Segment::create(Provider::Heap, layout.len_bytes).unwrap();
    let control = Control::new(&segment, &layout).unwrap();
    let bell = region(&segment, spans.bell).unwrap();
    let word = bell.atomic_u32(0).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let deadline = Instant::now() + Duration::from_secs(30);
            let bell = control.bell(lane).unwrap();
            bell.wait(&Waiting::Park, Some(deadline), || !control.is_running()) && Instant::now() < deadline
        });
        while word.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        // The lane is about to sleep; if it does not sleep yet, its word says so again.
        std::thread::sleep(Duration::from_millis(50));
        word.store(0, Ordering::Release);
        control.mark_failed(LaneId::DRIVER);
        assert!(waiter.join().unwrap(), "it has slept to its deadline");
    });
}
