//! Groups: their ranks, their descriptors, and hostile descriptors.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::string_slice
)] // a test may panic

use selvedge_collectives::{CommError, Communicator, Group, GroupDescriptor};

#[test]
fn comm_01_a_rank_knows_its_group_and_no_other_rank() {
    let group = Group::in_process(3).unwrap();
    for number in 0..3 {
        let rank = group.rank(number).unwrap();
        assert_eq!((rank.rank(), rank.world_size()), (number, 3));
    }
    assert_eq!(group.world_size(), 3);
}

#[test]
fn comm_11_a_rank_is_taken_once_and_inside_its_group() {
    let group = Group::in_process(2).unwrap();
    let taken = group.rank(1).unwrap();
    assert!(matches!(group.rank(1), Err(CommError::Taken { rank: 1, pid }) if pid == std::process::id()));
    assert!(matches!(
        group.rank(2),
        Err(CommError::NoSuchRank { rank: 2, ranks: 2 })
    ));
    drop(taken);
    assert!(group.rank(1).is_err(), "who leaves does not come back");
    assert!(matches!(
        Group::in_process(0),
        Err(CommError::GroupSize { ranks: 0, .. })
    ));
    assert!(matches!(
        Group::in_process(257),
        Err(CommError::GroupSize {
            ranks: 257,
            most: 256
        })
    ));
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no memfd")]
fn a_descriptor_is_text_and_back_and_nothing_else_is_one() {
    let group = Group::new(2).unwrap();
    let text = group.descriptor().unwrap().to_string();
    assert_eq!(
        text.parse::<GroupDescriptor>().unwrap(),
        group.descriptor().unwrap()
    );
    let longer = format!("{text}:1");
    for wrong in [
        "",
        "selvedge-group-1",
        &text[..text.len() - 30],
        &longer,
        "selvedge-channel-1:1:2:3:4:5",
    ] {
        assert!(wrong.parse::<GroupDescriptor>().is_err(), "{wrong}");
    }
    assert!(Group::in_process(2).unwrap().descriptor().is_none());
    // Wrong fields: another number of ranks, another process, another segment.
    let fields: Vec<&str> = text.split(':').collect();
    for (field, value) in [(1, "3"), (1, "0"), (2, "1"), (3, "0"), (4, "7"), (5, "64")] {
        let mut fields = fields.clone();
        fields[field] = value;
        let wrong: GroupDescriptor = fields.join(":").parse().unwrap();
        assert!(Group::open(&wrong).is_err(), "{wrong}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no memfd")]
fn blocks_are_used_again_and_grow_and_what_is_held_is_not_written() {
    use selvedge_channels::{DType, Tensor};
    let group = Group::in_process(1).unwrap();
    let mut rank = group.rank(0).unwrap();
    let one =
        |count: usize, value: u8| Tensor::filled(DType::U8, [count], |bytes| bytes.fill(value)).unwrap();
    for round in 0..100 {
        rank.broadcast(0, &[one(10_000, round)]).unwrap();
    }
    assert!(rank.memory_bytes() <= 32 << 10, "{} bytes", rank.memory_bytes());
    let held: Vec<Vec<Tensor>> = (0..250)
        .map(|round| rank.broadcast(0, &[one(5_000, round)]).unwrap())
        .collect();
    for (round, kept) in held.iter().enumerate() {
        assert!(kept[0].bytes().iter().all(|byte| usize::from(*byte) == round));
    }
    let most = 34 * (16 << 10);
    assert!(
        rank.memory_bytes() <= most,
        "{} bytes: what is kept for long is copied",
        rank.memory_bytes()
    );
    let grown = rank.broadcast(0, &[one(1 << 22, 9)]).unwrap();
    assert!(grown[0].bytes().iter().all(|byte| *byte == 9));
}
