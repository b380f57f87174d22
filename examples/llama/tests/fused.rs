//! The fused operations compared with candle's own, forward and backward.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test that cannot set up has failed

mod apart;

use apart::apart;
use candle_core::{D, Device, Result, Tensor, Var};
use candle_nn::ops::{silu, softmax};
use candle_nn::rotary_emb::rope_slow;
use selvedge_examples::random::Random;
use selvedge_llama::train::fused::causal::causal_softmax;
use selvedge_llama::train::fused::gated::gated;
use selvedge_llama::train::fused::norm::normalised;
use selvedge_llama::train::fused::rotary::Angles;

fn random(dims: &[usize], random: &mut Random) -> Tensor {
    let values: Vec<f32> = (0..dims.iter().product())
        .map(|_| 3.0 * random.signed())
        .collect();
    Tensor::from_vec(values, dims, &Device::Cpu).unwrap()
}

/// Checks that value and gradient of two operations are equal except for rounding.
fn same(
    dims: &[usize],
    ours: impl Fn(&Tensor) -> Result<Tensor>,
    theirs: impl Fn(&Tensor) -> Result<Tensor>,
) {
    let mut seed = Random::new(11);
    let x = Var::from_tensor(&random(dims, &mut seed)).unwrap();
    let (a, b) = (ours(&x).unwrap(), theirs(&x).unwrap());
    let weights = random(a.dims(), &mut seed);
    let gradient = |y: &Tensor| {
        let loss = (y * &weights).unwrap().sum_all().unwrap();
        loss.backward().unwrap().get(&x).unwrap().clone()
    };
    for (a, b) in [(a.clone(), b.clone()), (gradient(&a), gradient(&b))] {
        let apart = apart(&a, &b);
        assert!(apart < 1e-4, "{apart}");
    }
}

#[test]
fn causal_softmax_is_softmax_over_what_is_seen() {
    let mask: Vec<f32> = (0..49)
        .map(|at| if at % 7 > at / 7 { f32::NEG_INFINITY } else { 0.0 })
        .collect();
    let mask = Tensor::from_vec(mask, (7, 7), &Device::Cpu).unwrap();
    same(&[2, 3, 7, 7], causal_softmax, |x| {
        softmax(&x.broadcast_add(&mask)?, D::Minus1)
    });
}

#[test]
fn gated_is_silu_times_the_other_half() {
    same(&[5, 12], gated, |x| {
        silu(&x.narrow(1, 0, 6)?)? * x.narrow(1, 6, 6)?
    });
}

#[test]
fn normalised_is_a_division_by_the_root_of_the_mean_square() {
    let theirs = |x: &Tensor| x.broadcast_div(&(x.sqr()?.mean_keepdim(D::Minus1)? + 1e-5)?.sqrt()?);
    same(&[4, 10], |x| normalised(x, 1e-5), theirs);
}

#[test]
fn turn_is_the_rotation_of_both_halves() {
    let angle = |at: usize| (0..4).map(move |pair| at as f32 * 100f32.powf(-(pair as f32) / 4.0));
    let angles: Vec<f32> = (0..9).flat_map(angle).collect();
    let angles = Tensor::from_vec(angles, (9, 4), &Device::Cpu).unwrap();
    let (cos, sin) = (angles.cos().unwrap(), angles.sin().unwrap());
    let ours = Angles::new(8, 9, 100.0);
    same(&[2, 3, 6, 8], |x| ours.turn(x), |x| rope_slow(x, &cos, &sin));
}

#[test]
fn what_does_not_fit_is_an_error() {
    let x = random(&[2, 6, 8], &mut Random::new(1));
    assert!(
        Angles::new(8, 5, 100.0).turn(&x).is_err(),
        "longer than the positions"
    );
    assert!(Angles::new(6, 9, 100.0).turn(&x).is_err(), "other heads");
    let turned = x.transpose(1, 2).unwrap();
    assert!(
        causal_softmax(&turned).is_err() && gated(&turned).is_err() && normalised(&turned, 1e-5).is_err()
    );
    assert!(normalised(&x.to_dtype(candle_core::DType::F64).unwrap(), 1e-5).is_err());
}
