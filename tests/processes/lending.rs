//! Actors that are lent to another lane repeatedly: no resource remains afterwards.

use crate::actors::{counter, warm_up};
use crate::alone::alone;
use crate::census;
use selvedge::prelude::*;

#[test]
fn graph_02_actors_keep_their_state_and_go_home_afterwards() -> Result<()> {
    alone(|| {
        warm_up();
        let before = census::settled(census::Census::take);
        for _ in 0..3 {
            let runtime = Runtime::new();
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let crowd: Vec<_> = (0..cores + 6)
                .map(|index| counter(&runtime, &format!("c{index}"), Placement::Thread))
                .collect();
            for round in 1..=20 {
                let options = Options::new().lanes(if round % 2 == 0 {
                    Lanes::Auto
                } else {
                    Lanes::Spawned
                });
                let graph = runtime.compile_with(options, |x: Edge<i64>| {
                    crowd.iter().map(|actor| actor.inc(&x)).collect::<Vec<_>>()
                })?;
                assert_eq!(graph.execute(1).wait()?, vec![round; crowd.len()]);
                // Calls reach their actors while they are lent, on their way, and at home.
                assert_eq!(crowd[1].call().total(()).wait()?, round);
                drop(graph);
                assert_eq!(crowd[2].call().total(()).wait()?, round);
            }
        }
        assert_eq!(census::wait_until(&before, census::Census::take), before);
        Ok(())
    })
}
