//! A user-defined communicator in one file: ranks of one process around a mutex. It is slow, and complete.
//!
//! `cargo run -p selvedge-collectives --example toy`; `tests/contract.rs` runs the contract of every communicator on
//! it.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use selvedge_channels::Tensor;
use selvedge_collectives::contract::{expected, refused};
use selvedge_collectives::{
    AbortHandle, Capabilities, Collective, CommError, Communicator, Contribution, PlanId, ReduceOp,
};

/// The contribution of one rank to one operation.
type Brought = (Collective, Result<Vec<Tensor>, Vec<u8>>);

#[derive(Default)]
struct Table {
    /// By number of the operation: the contribution of each rank. A row is removed when all ranks have their result.
    rows: BTreeMap<u64, (Vec<Option<Brought>>, usize)>,
    aborted_by: Option<usize>,
    left: Vec<usize>,
}

#[derive(Default)]
struct Room {
    table: Mutex<Table>,
    changed: Condvar,
}

impl Room {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Table)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

/// A rank.
pub struct Toy {
    room: Arc<Room>,
    rank: usize,
    ranks: usize,
    plans: Vec<Collective>,
    number: u64,
    under_way: Option<Collective>,
}

/// Makes a group of `ranks` ranks.
pub fn group(ranks: usize) -> Vec<Toy> {
    let room = Arc::new(Room::default());
    let toy = |rank| Toy {
        room: Arc::clone(&room),
        rank,
        ranks,
        plans: Vec::new(),
        number: 0,
        under_way: None,
    };
    (0..ranks).map(toy).collect()
}

impl Toy {
    /// The result, once all ranks have contributed; `None` while a rank is missing that may still contribute.
    fn look(&self, table: &mut Table) -> Option<Result<Vec<Tensor>, CommError>> {
        let (row, taken) = table.rows.get_mut(&self.number)?;
        let Some(all) = row.iter().cloned().collect::<Option<Vec<Brought>>>() else {
            let missing = |rank: &&usize| row.get(**rank).is_some_and(Option::is_none);
            let left = table
                .left
                .iter()
                .find(missing)
                .map(|rank| CommError::PeerLeft { rank: *rank });
            return table
                .aborted_by
                .map(|rank| CommError::Aborted { rank })
                .or(left)
                .map(Err);
        };
        *taken += 1;
        if *taken == self.ranks {
            table.rows.remove(&self.number);
        }
        Some(self.result(&all))
    }

    fn result(&self, all: &[Brought]) -> Result<Vec<Tensor>, CommError> {
        let operations: Vec<Collective> = all.iter().map(|(operation, _)| *operation).collect();
        let mut tensors = Vec::with_capacity(self.ranks);
        for (rank, (_, brought)) in all.iter().enumerate() {
            let failed = |report: &Vec<u8>| CommError::PeerFailed {
                rank,
                report: report.clone(),
            };
            tensors.push(brought.as_ref().map_err(failed)?.clone());
        }
        if let Some(error) = refused(&operations, &tensors) {
            return Err(error);
        }
        match operations.first() {
            Some(Collective::Barrier) | None => Ok(Vec::new()),
            Some(operation) => expected(*operation, &tensors, self.rank).ok_or(CommError::Idle),
        }
    }
}

impl Communicator for Toy {
    fn rank(&self) -> usize {
        self.rank
    }

    fn world_size(&self) -> usize {
        self.ranks
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::everything("toy")
    }

    fn plan(&mut self, operation: Collective) -> Result<PlanId, CommError> {
        if let Some(rank) = operation.root().filter(|root| *root >= self.ranks) {
            return Err(CommError::NoSuchRank {
                rank,
                ranks: self.ranks,
            });
        }
        self.plans.push(operation);
        Ok(PlanId(self.plans.len() - 1))
    }

    fn launch(&mut self, plan: PlanId, contribution: Contribution<'_>) -> Result<(), CommError> {
        if let Some(operation) = self.under_way {
            return Err(CommError::Busy { operation });
        }
        let operation = self.plans.get(plan.0).copied().ok_or(CommError::NoSuchPlan)?;
        let brought = match contribution {
            Contribution::Failure(report) => Err(report.to_vec()),
            Contribution::Parts(parts) => {
                let tensor = |part: &selvedge_collectives::Part<'_>| {
                    Tensor::from_raw(part.dtype, part.shape, part.bytes)
                };
                Ok(parts.iter().map(tensor).collect::<Result<Vec<_>, _>>()?)
            }
        };
        if let Some(rank) = self.room.lock().aborted_by {
            return Err(CommError::Aborted { rank });
        }
        self.number += 1;
        self.under_way = Some(operation);
        self.room.change(|table| {
            let (row, _) = table
                .rows
                .entry(self.number)
                .or_insert_with(|| (vec![None; self.ranks], 0));
            if let Some(place) = row.get_mut(self.rank) {
                *place = Some((operation, brought));
            }
        });
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Vec<Tensor>>, CommError> {
        self.under_way.ok_or(CommError::Idle)?;
        let room = Arc::clone(&self.room);
        let found = self.look(&mut room.lock());
        if found.is_some() {
            self.under_way = None;
        }
        found.transpose()
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<Vec<Tensor>, CommError> {
        let operation = self.under_way.ok_or(CommError::Idle)?;
        let (started, timeout) = (Instant::now(), timeout.unwrap_or(Duration::from_secs(30)));
        let room = Arc::clone(&self.room);
        let mut table = room.lock();
        loop {
            if let Some(found) = self.look(&mut table) {
                self.under_way = None;
                return found;
            }
            let Some(left) = timeout.checked_sub(started.elapsed()) else {
                let (waited, missing) = (started.elapsed(), "another rank".to_owned());
                return Err(CommError::Timeout {
                    operation,
                    waited,
                    missing,
                });
            };
            table = room
                .changed
                .wait_timeout(table, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn abort_handle(&self) -> AbortHandle {
        let (room, rank) = (Arc::clone(&self.room), self.rank);
        AbortHandle::new(move || room.change(|table| table.aborted_by = table.aborted_by.or(Some(rank))))
    }

    fn close(mut self: Box<Self>, timeout: Duration) -> Result<(), CommError> {
        match self.under_way {
            Some(_) => self.wait(Some(timeout)).map(drop),
            None => Ok(()),
        }
    }
}

impl Drop for Toy {
    fn drop(&mut self) {
        self.room.change(|table| {
            table.left.push(self.rank);
            if self.under_way.is_some() {
                table.aborted_by = table.aborted_by.or(Some(self.rank));
            }
        });
    }
}

#[allow(dead_code)] // unused where this file is part of a test
fn main() -> Result<(), CommError> {
    std::thread::scope(|scope| {
        let sum = |mut toy: Toy| {
            let own = Tensor::from_slice(&[toy.rank() as f32; 3], &[3])?;
            toy.allreduce(ReduceOp::Sum, &[own])
        };
        let threads: Vec<_> = group(4)
            .into_iter()
            .map(|toy| scope.spawn(move || sum(toy)))
            .collect();
        for thread in threads {
            println!(
                "{:?}",
                thread
                    .join()
                    .map(|sum| sum.map(|sum| sum.iter().map(Tensor::to_vec::<f32>).collect::<Vec<_>>()))
            );
        }
        Ok(())
    })
}
