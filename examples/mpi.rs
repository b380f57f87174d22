//! Ranks in worker processes, as with MPI. `cargo run -p selvedge-examples --example mpi`
use selvedge::collectives::{Communicator, Group};
use selvedge::prelude::*;

const RANKS: usize = 4;
const ROOT: usize = 0;

/// The program of one rank. Only the root gets the sum.
#[remote]
fn sum_of_ranks(group: &str, rank: usize) -> Result<Option<i64>> {
    let mut communicator = Group::open(&group.parse()?)?.rank(rank)?; // MPI_Init
    communicator.barrier()?; // MPI_Barrier
    let own = Tensor::from_slice(&[communicator.rank() as i64], &[1])?; // MPI_Comm_rank
    let sum = communicator.reduce(ReduceOp::Sum, ROOT, &[own])?; // MPI_Reduce
    let sum = sum.first().map(|sum| sum.to_vec::<i64>()).transpose()?;
    Ok(sum.and_then(|sum| sum.first().copied()))
    // MPI_Finalize: the drop of the rank, which leaves when the others have read what it gave.
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let group = Group::new(RANKS)?;
    let descriptor = group
        .descriptor()
        .ok_or("processes share no memory here")?
        .to_string();
    let mut workers = Vec::new();
    for rank in 0..RANKS {
        let worker = runtime.worker(format!("rank {rank}"))?;
        // So that the others learn of its death.
        group.expect(rank, worker.pid().ok_or("the worker has ended")?)?;
        workers.push(worker);
    }
    let call = |(rank, worker)| runtime.call(sum_of_ranks::remote(&descriptor[..], rank).on(worker));
    let calls: Vec<_> = workers.iter().enumerate().map(call).collect();
    for (rank, call) in calls.into_iter().enumerate() {
        match call.wait()? {
            Some(sum) => println!("the sum of all ranks, at rank {rank}: {sum}"),
            None => assert_ne!(rank, ROOT),
        }
    }
    Ok(())
}
