//! One process sends a channel anything that can be written down; the others lose nothing by it.
#![allow(missing_docs, clippy::unwrap_used)]

use proptest::prelude::*;
use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_objects::channel::{Answer, ChannelHome, ChannelSettings, ChannelUser, Outcome, Request, Wish};

fn peer(number: u32) -> Peer {
    ProcessId::new(number).unwrap().first_life()
}

fn wish() -> impl Strategy<Value = Wish<u8>> {
    prop_oneof![
        Just(Wish::Put(0)),
        Just(Wish::Take),
        Just(Wish::Peek),
        Just(Wish::Ready),
        Just(Wish::IsReady),
        Just(Wish::Acknowledge),
        Just(Wish::Cancel),
    ]
}

proptest! {
    /// CHANNEL-8, and CHANNEL-1 for the values of others.
    #[test]
    fn a_process_that_sends_anything_fills_nothing_and_its_death_gives_everything_back(
        requests in proptest::collection::vec((0_u64..30, wish()), 0..200),
    ) {
        let (capacity, requests_max) = (4, 30);
        let mut home = ChannelHome::new(ChannelSettings { capacity, requests_max });
        let mut number = 0;
        let mut ask = |home: &mut ChannelHome<u8>, wish| {
            number += 1;
            home.request(peer(2), Request { number, wish })
        };
        (1..=3).for_each(|value| assert_eq!(ask(&mut home, Wish::Put(value)).len(), 1));
        let mut acknowledged = 0;
        for (number, wish) in requests {
            let before = home.on_their_way();
            acknowledged += usize::from(wish == Wish::Acknowledge && before > 0);
            home.request(peer(3), Request { number, wish });
            prop_assert!(home.waiting() + home.on_their_way() <= requests_max, "CHANNEL-8");
        }
        home.dead(peer(3));
        prop_assert_eq!((home.waiting(), home.on_their_way()), (0, 0));
        let own = home.snapshot().into_iter().filter(|value| *value > 0).collect::<Vec<_>>();
        prop_assert!(own.is_sorted());
        prop_assert!(own.len() + acknowledged >= 3, "only what was taken and acknowledged is gone: {own:?}");
        // And the channel works.
        home.close();
        for expected in home.snapshot() {
            let replies = ask(&mut home, Wish::Take);
            prop_assert_eq!(&replies[0].answer, &Answer::Value(expected));
        }
        let over = ask(&mut home, Wish::Take);
        prop_assert_eq!(over.is_empty(), home.on_their_way() > 0, "values on their way may come back");
    }

    /// A home that answers anything ends every request that it names, and no other one.
    #[test]
    fn a_home_that_answers_anything_ends_each_request_at_most_once(
        answers in proptest::collection::vec((0_u64..8, 0_u8..5), 0..60),
    ) {
        let mut user = ChannelUser::new(peer(1));
        let mut open: std::collections::BTreeSet<u64> = [
            user.put(1).unwrap().0, user.take().unwrap().0, user.peek().unwrap().0, user.ready().unwrap().0,
        ].into();
        for (number, kind) in answers {
            let answer = match kind {
                0 => Answer::Stored,
                1 => Answer::Value(9),
                2 => Answer::Ready(true),
                3 => Answer::Closed,
                _ => Answer::TooMany { limit: 3 },
            };
            let outcome = user.answered(number, answer);
            prop_assert_eq!(outcome.is_some(), open.remove(&number));
            if let Some(Outcome::NotPut(refused)) = outcome {
                prop_assert_eq!(refused.value, 1, "its own value comes back");
            }
        }
        let ends = user.lost();
        prop_assert_eq!(ends.len(), open.len());
        prop_assert_eq!(user.open(), 0);
    }

    #[test]
    fn requests_survive_their_encoding(number in any::<u64>(), wish in wish()) {
        let request = Request { number, wish };
        let there_and_back = request.clone().map(u32::from).map(|value| value as u8);
        prop_assert_eq!(&there_and_back, &request);
        let bytes = postcard::to_stdvec(&request).unwrap();
        prop_assert_eq!(postcard::from_bytes::<Request<u8>>(&bytes).unwrap(), request);
    }
}
