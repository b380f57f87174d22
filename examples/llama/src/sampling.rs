//! The choice of a token from logits. The choice is stateless: only seed and position decide, so that a sequence does
//! not depend on the batches it was computed in, and is the same again after a restart.

use std::cmp::Ordering;

use crate::step::{Sampled, Sampling};

/// Chooses a token for the given position of a slot.
///
/// If the temperature is not greater than 0, or not a number, the likeliest token wins; of equal ones, the first.
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

/// Draws from the likeliest tokens whose probabilities reach `top_p`: the token at which the running sum reaches the
/// fraction `chance` of their total.
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

/// Returns a number in [0, 1) for a seed and a position: two rounds of the finaliser of SplitMix64 (Steele et al.,
/// 2014).
fn uniform(seed: u64, position: u32) -> f32 {
    let mixed = mix(mix(seed) ^ u64::from(position));
    // Keeps as many bits as an f32 holds exactly.
    (mixed >> 40) as f32 / (1_u64 << 24) as f32
}

fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::sample;
    use crate::step::Sampling;

    const LOGITS: [f32; 5] = [0.5, 2.0, -1.0, 2.0, f32::NEG_INFINITY];

    fn sampling(temperature: f32, top_p: f32, seed: u64) -> Sampling {
        Sampling {
            temperature,
            top_p,
            seed,
        }
    }

    fn probability(token: usize) -> f32 {
        let sum: f32 = LOGITS.iter().map(|logit| logit.exp()).sum();
        LOGITS[token].exp() / sum
    }

    /// Returns the frequency of each token at 20 000 positions.
    fn counts(sampling: &Sampling) -> [f32; 5] {
        let mut counts = [0.0; 5];
        for position in 0..20_000 {
            counts[sample(0, position, &LOGITS, sampling).token as usize] += 1.0 / 20_000.0;
        }
        counts
    }

    #[test]
    fn greedy_takes_the_first_of_the_likeliest() {
        for temperature in [0.0, -1.0, f32::NAN] {
            let sampled = sample(3, 9, &LOGITS, &sampling(temperature, 0.1, 7));
            assert_eq!((sampled.slot, sampled.token), (3, 1));
            assert!((sampled.logprob.exp() - probability(1)).abs() < 1e-6);
        }
    }

    #[test]
    fn temperature_one_draws_by_probability() {
        let counts = counts(&sampling(1.0, 1.0, 1));
        for (token, count) in counts.iter().enumerate() {
            assert!((count - probability(token)).abs() < 0.02, "{token}: {count}");
        }
    }

    #[test]
    fn the_nucleus_is_the_fewest_that_reach_the_sum() {
        let counts = counts(&sampling(1.0, probability(1) * 1.5, 1));
        assert_eq!((counts[0], counts[2], counts[4]), (0.0, 0.0, 0.0));
        assert!((counts[1] - 0.5).abs() < 0.02, "{counts:?}");
        // A `top_p` of 0 keeps one token: the likeliest.
        assert!((0..100).all(|position| sample(0, position, &LOGITS, &sampling(1.0, 0.0, 2)).token == 1));
    }

    #[test]
    fn seed_and_position_decide() {
        let draw = |seed| -> Vec<u32> {
            let hot = sampling(3.0, 1.0, seed);
            (0..64)
                .map(|position| sample(0, position, &LOGITS, &hot).token)
                .collect()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn logits_that_are_no_numbers_still_choose_a_token_that_exists() {
        for logits in [
            &[f32::NAN, f32::NAN][..],
            &[f32::NAN, 1.0],
            &[f32::INFINITY, 0.0],
            &[f32::NEG_INFINITY; 2],
        ] {
            for temperature in [0.0, 1.0, 1e-30] {
                let sampled = sample(0, 5, logits, &sampling(temperature, 0.9, 3));
                assert!((sampled.token as usize) < logits.len());
            }
        }
    }
}
