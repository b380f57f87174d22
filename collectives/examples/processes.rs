//! Four processes that sum their gradients, until one of them dies: `cargo run -p selvedge-collectives --example
//! processes`.
//!
//! The parent is rank 0. The other ranks are child processes of this program, with the group's descriptor as an
//! argument.

use std::process::{Child, Command};
use std::time::Instant;

use selvedge_collectives::{CommError, Communicator, Group, ReduceOp};

const RANKS: usize = 4;

fn take_part(group: &Group, rank: usize) -> Result<(), CommError> {
    let mut rank = group.rank(rank)?;
    let mut gradient = vec![0.0_f32; 1 << 20];
    for step in 0.. {
        gradient.fill(rank.rank() as f32 + 1.0);
        let started = Instant::now();
        rank.allreduce_slice(ReduceOp::Average, &mut gradient)?;
        if rank.rank() == 0 && step % 20 == 0 {
            let (mean, took) = (gradient.first().copied().unwrap_or_default(), started.elapsed());
            println!("step {step}: the mean of 4 MiB is {mean}, in {took:.1?}");
        }
        if rank.rank() == RANKS - 1 && step == 60 {
            println!("rank {} dies", rank.rank());
            std::process::abort();
        }
    }
    Ok(())
}

/// Child processes that do not outlive their parent.
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    if let (Some(group), Some(rank)) = (words.next(), words.next()) {
        // Rank 0 reports the outcome; a surviving child adds nothing.
        let _ = take_part(&Group::open(&group.parse()?)?, rank.parse()?);
        return Ok(());
    }
    let group = Group::new(RANKS)?;
    let descriptor = group.descriptor().ok_or("a group of one process")?.to_string();
    let mut children = Children(Vec::new());
    for rank in 1..RANKS {
        let child = Command::new(std::env::current_exe()?)
            .args([&descriptor, &rank.to_string()])
            .spawn()?;
        group.expect(rank, child.id())?;
        children.0.push(child);
    }
    match take_part(&group, 0) {
        Err(error @ CommError::PeerLost { .. }) => println!("rank 0 hears: {error}"),
        other => other?,
    }
    Ok(())
}
