//! A layer cut over ranks computes the whole layer, forward and backward.
#![cfg(all(feature = "candle", not(miri)))]
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)] // a test may panic

use std::thread;

use candle_core::{DType, Device, Tensor, Var};
use selvedge_collectives::candle::AllReduceOp;
use selvedge_collectives::{Group, ReduceOp};

const CPU: Device = Device::Cpu;

/// A matrix of fixed numbers, equal in every run.
fn numbers(rows: usize, columns: usize, seed: usize) -> Tensor {
    let value = |at: usize| ((at * 37 + seed * 101) % 23) as f32 / 8.0 - 1.0;
    Tensor::from_vec((0..rows * columns).map(value).collect(), (rows, columns), &CPU).unwrap()
}

#[test]
fn a_layer_cut_by_rows_is_the_whole_layer() {
    let (x, weight) = (numbers(5, 12, 1), numbers(12, 7, 2));
    let whole = x.matmul(&weight).unwrap().to_vec2::<f32>().unwrap();
    for ranks in [1, 2, 3, 4] {
        let group = Group::in_process(ranks).unwrap();
        let results = thread::scope(|scope| {
            let part = |rank: usize| {
                let op = AllReduceOp::new(group.rank(rank).unwrap(), ReduceOp::Sum);
                let (x, weight) = (&x, &weight);
                scope.spawn(move || {
                    let each = 12 / ranks;
                    let x = x.narrow(1, rank * each, each).unwrap();
                    let weight = Var::from_tensor(&weight.narrow(0, rank * each, each).unwrap()).unwrap();
                    let sum = x.matmul(&weight).unwrap().apply_op1(op.clone()).unwrap();
                    // A tensor that is not contiguous is reduced by its logical elements.
                    let turned = x.matmul(&weight).unwrap().t().unwrap().apply_op1(op).unwrap();
                    let gradient = sum.sqr().unwrap().sum_all().unwrap().backward().unwrap();
                    let gradient = gradient.get(&weight).unwrap().to_vec2::<f32>().unwrap();
                    let turned = turned.t().unwrap().to_vec2::<f32>().unwrap();
                    (sum.to_vec2::<f32>().unwrap(), turned, gradient)
                })
            };
            let threads: Vec<_> = (0..ranks).map(part).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect::<Vec<_>>()
        });
        let whole_gradient = {
            let weight = Var::from_tensor(&weight).unwrap();
            let loss = x.matmul(&weight).unwrap().sqr().unwrap().sum_all().unwrap();
            loss.backward()
                .unwrap()
                .get(&weight)
                .unwrap()
                .to_vec2::<f32>()
                .unwrap()
        };
        let mut rows = whole_gradient.iter();
        for (sum, turned, gradient) in results {
            assert_eq!((&sum, &turned), (&whole, &whole), "{ranks} ranks");
            for row in gradient {
                let right = rows.next().unwrap();
                assert!(
                    row.iter()
                        .zip(right)
                        .all(|(found, right)| (found - right).abs() < 1e-3),
                    "{ranks} ranks"
                );
            }
        }
    }
}

#[test]
fn averages_of_short_floats_and_what_has_no_gradient() {
    let group = Group::in_process(2).unwrap();
    thread::scope(|scope| {
        for rank in 0..2 {
            let rank = group.rank(rank).unwrap();
            scope.spawn(move || {
                let own = f64::from(u8::try_from(selvedge_collectives::Communicator::rank(&rank)).unwrap());
                let op = AllReduceOp::new(rank, ReduceOp::Max);
                let x = Tensor::full(own, (2, 3), &CPU)
                    .unwrap()
                    .to_dtype(DType::BF16)
                    .unwrap();
                let most = x.apply_op1(op.clone()).unwrap().to_dtype(DType::F32).unwrap();
                assert_eq!(most.to_vec2::<f32>().unwrap(), vec![vec![1.0; 3]; 2]);
                let x = Var::from_tensor(&Tensor::full(own, (3,), &CPU).unwrap()).unwrap();
                let most = x.apply_op1(op).unwrap();
                assert!(
                    most.sum_all().unwrap().backward().is_err(),
                    "a maximum over ranks has no gradient here"
                );
            });
        }
    });
}
