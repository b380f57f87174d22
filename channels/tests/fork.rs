//! A forked child drops its copies of what its parent has in shared memory, and the parent keeps all of it. A program of its
//! own with one test, since a child of a program whose other threads work could find their locks taken.
#![cfg(all(target_os = "linux", not(selvedge_portable), not(loom)))]
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)] // a test may panic

#[path = "support/forked.rs"]
mod forked;

use std::sync::Arc;

use selvedge_channels::array::{ArrayError, ArrayMemory, ArrayPart, ArraySpec, ArrayView};
use selvedge_channels::{ChannelError, ChannelOptions, DType, SharedChannel};

use forked::drop_in_a_child;

#[test]
#[cfg_attr(miri, ignore = "Miri starts no processes")]
fn a_forked_child_that_drops_its_copies_gives_back_nothing_of_its_parents() {
    ends_and_views_of_a_channel();
    views_and_parts_of_an_array();
}

fn ends_and_views_of_a_channel() {
    let channel = ChannelOptions::new().slots(1).shared::<Vec<u64>>().unwrap();
    let name = format!("forked-{}", std::process::id());
    let mut published = Some(channel.publish(&name).unwrap());
    let mut writer = Some(channel.writer().unwrap());
    let mut reader = channel.reader(0).unwrap();
    writer.as_mut().unwrap().send(vec![1; 500]).unwrap();
    let mut view = Some(reader.view().unwrap());
    drop_in_a_child(&mut view);
    let refused = writer.as_mut().unwrap().try_send(vec![2; 500]).unwrap_err();
    assert!(matches!(refused.error, ChannelError::Full), "{refused:?}");
    assert_eq!(view.as_ref().unwrap().slice().unwrap(), [1; 500]);
    drop(view);
    let mut reader = Some(reader);
    drop_in_a_child(&mut reader);
    drop_in_a_child(&mut writer);
    drop_in_a_child(&mut published);
    for value in 3..6 {
        writer.as_mut().unwrap().send(vec![value]).unwrap();
        let refused = writer.as_mut().unwrap().try_send(vec![0]).unwrap_err();
        assert!(matches!(refused.error, ChannelError::Full), "the reader is there");
        assert_eq!(reader.as_mut().unwrap().recv().unwrap(), [value]);
    }
    SharedChannel::<Vec<u64>>::find(&name, ChannelOptions::new()).unwrap();
}

fn views_and_parts_of_an_array() {
    let spec = ArraySpec {
        dtype: DType::U64,
        len: 8,
        parts: 1,
        slots: 1,
    };
    let memory = Arc::new(ArrayMemory::create(spec, 0).unwrap());
    let mut view = Some(ArrayView::<u64>::open(&memory).unwrap());
    drop_in_a_child(&mut view);
    assert!(matches!(
        ArrayPart::<u64>::claim(&memory),
        Err(ArrayError::InUse { .. })
    ));
    drop(view);
    let mut part = Some(ArrayPart::<u64>::claim(&memory).unwrap());
    drop_in_a_child(&mut part);
    assert!(matches!(
        ArrayView::<u64>::open(&memory),
        Err(ArrayError::Claimed { .. })
    ));
    drop(part);
    ArrayView::<u64>::open(&memory).unwrap();
}
