//! Chance without a state: a number for each question.

/// A question that chance decides for a packet.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Question {
    Loss,
    Repetition,
    Jitter,
    JitterOfRepetition,
}

/// A number from 0 to 1, without 1, that depends on the arguments alone: the finish of SplitMix64 (Steele, Lea, Flood 2014)
/// over each of them in turn.
pub(super) fn chance(seed: u64, line: u64, packet: u64, question: Question) -> f64 {
    let mixed = [line, packet, question as u64]
        .into_iter()
        .fold(finish(seed), |mixed, part| finish(mixed ^ part));
    // 53 bits, as many as a double has.
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

fn finish(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_argument_changes_the_number_and_shares_are_kept() {
        let one = chance(1, 2, 3, Question::Loss);
        for other in [
            chance(2, 2, 3, Question::Loss),
            chance(1, 3, 3, Question::Loss),
            chance(1, 2, 4, Question::Loss),
            chance(1, 2, 3, Question::Jitter),
        ] {
            assert_ne!(one, other);
        }
        let low = (0..10_000)
            .filter(|packet| chance(7, 1, *packet, Question::Loss) < 0.2)
            .count();
        assert!((1_800..2_200).contains(&low), "{low} of 10 000 below 0.2");
    }
}
