//! How a token is chosen among logits. Without state: seed and position decide, so that a sequence comes out alike however it was
//! batched, and again after a restart.

use std::cmp::Ordering;

use crate::step::{Sampled, Sampling};

/// Chooses a token for the given position of a slot.
///
/// The likeliest wins where the temperature is 0 or less or not a number; of equals, the first.
pub(crate) fn sample(slot: u32, position: u32, logits: &[f32], sampling: &Sampling) -> Sampled {
    let likeliest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = logits.iter().map(|logit| (logit - likeliest).exp()).sum();
    let token = if sampling.temperature > 0.0 {
        let chance = uniform(sampling.seed, position);
        draw(logits, likeliest, sampling, chance)
    } else {
        logits
            .iter()
            .position(|logit| *logit == likeliest)
            .unwrap_or_default()
    };
    let chosen = logits.get(token).copied().unwrap_or(likeliest);
    Sampled {
        slot,
        token: token as u32,
        logprob: chosen - likeliest - sum.ln(),
    }
}

/// Goes through the likeliest tokens whose probabilities reach `top_p`, to where `chance` of their sum is reached.
fn draw(logits: &[f32], likeliest: f32, sampling: &Sampling, chance: f32) -> usize {
    let weight = |logit: &f32| ((logit - likeliest) / sampling.temperature).exp();
    let mut weights: Vec<(usize, f32)> = logits.iter().map(weight).enumerate().collect();
    weights.sort_by(|(a, left), (b, right)| match right.total_cmp(left) {
        Ordering::Equal => a.cmp(b),
        order => order,
    });
    let total: f32 = weights.iter().map(|(_, weight)| weight).sum();
    let mut nucleus = 0.0;
    let mut count = 0;
    for (_, weight) in &weights {
        nucleus += weight;
        count += 1;
        if nucleus >= sampling.top_p * total {
            break;
        }
    }
    weights.truncate(count);
    let mut rest = chance * nucleus;
    let found = weights.iter().find(|(_, weight)| {
        rest -= weight;
        rest < 0.0
    });
    found.or(weights.last()).map_or(0, |(token, _)| *token)
}

/// A number from 0 to below 1 for a seed and a position: two rounds of the finaliser of SplitMix64 (Steele et al., 2014).
fn uniform(seed: u64, position: u32) -> f32 {
    let mixed = mix(mix(seed) ^ u64::from(position));
    // As many bits as an f32 holds exactly.
    (mixed >> 40) as f32 / (1_u64 << 24) as f32
}

fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
