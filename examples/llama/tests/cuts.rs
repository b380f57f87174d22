//! Every cut of the model gives the same result.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test that cannot set up has failed

mod made;

use made::{CONFIG, Made, one, part, prompt};
use selvedge::prelude::*;
use selvedge_llama::decoder::Decoder;
use selvedge_llama::deployment::{Deployment, Layout};
use selvedge_llama::folder::Folder;
use selvedge_llama::layer::Room;
use selvedge_llama::share::Share;
use selvedge_llama::step::{Batch, Sampled};

const ROOM: Room = Room {
    slots: 3,
    positions: 320,
};

/// Loads the whole model without actors.
fn plain(made: &Made) -> Decoder {
    Decoder::load(&Folder::open(&made.path).unwrap(), Share::WHOLE, ROOM).unwrap()
}

fn plain_logits(plain: &Decoder) -> Vec<Vec<f32>> {
    plain.logits().unwrap().to_vec2().unwrap()
}

fn logits(deployment: &Deployment) -> Vec<Vec<f32>> {
    let logits = deployment.logits().unwrap();
    let rows = logits.as_slice::<f32>().unwrap().chunks(logits.shape()[1]);
    rows.map(<[f32]>::to_vec).collect()
}

fn apart(left: &[Vec<f32>], right: &[Vec<f32>]) -> f32 {
    assert_eq!(left.len(), right.len());
    let pairs = left.iter().flatten().zip(right.iter().flatten());
    pairs
        .map(|(left, right)| (left - right).abs())
        .fold(0.0, f32::max)
}

fn layout(pipeline: usize, tensor: usize, placement: Placement) -> Layout {
    Layout {
        pipeline,
        tensor,
        placement,
        slots: ROOM.slots,
        ..Layout::default()
    }
}

/// Returns the greedy tokens of a deployment and of the plain model, and the greatest difference between their logits.
fn compare(made: &Made, layout: &Layout, steps: usize) -> (Vec<Sampled>, Vec<Sampled>, f32) {
    let runtime = Runtime::new();
    let deployment = Deployment::load(&runtime, &made.path, layout).unwrap();
    let mut plain = plain(made);
    let (mut start, mut tokens) = (0, prompt(9, 1));
    let (mut found, mut expected, mut most) = (Vec::new(), Vec::new(), 0.0_f32);
    for _ in 0..steps {
        let batch = one(1, start, &tokens);
        start += tokens.len();
        let by_graph = deployment.step(batch.clone()).wait().unwrap();
        let by_plain = plain.step(&batch).unwrap();
        most = most.max(apart(&logits(&deployment), &plain_logits(&plain)));
        tokens = vec![by_plain[0].token];
        found.extend(by_graph);
        expected.extend(by_plain);
    }
    (found, expected, most)
}

fn tokens(sampled: &[Sampled]) -> Vec<u32> {
    sampled.iter().map(|sampled| sampled.token).collect()
}

#[test]
fn one_stage_is_the_plain_model_bit_for_bit() {
    let made = Made::new("whole", CONFIG);
    for placement in [Placement::Inline, Placement::Thread, Placement::Process] {
        let (found, expected, most) = compare(&made, &layout(1, 1, placement), 20);
        assert_eq!(found, expected);
        assert_eq!(most, 0.0);
    }
}

#[test]
fn pipeline_two_is_the_plain_model_bit_for_bit() {
    let made = Made::new("pipeline", CONFIG);
    for placement in [Placement::Inline, Placement::Thread, Placement::Process] {
        let (found, expected, most) = compare(&made, &layout(2, 1, placement), 20);
        assert_eq!(found, expected);
        assert_eq!(most, 0.0);
    }
}

#[test]
fn four_stages_are_the_plain_model_bit_for_bit() {
    let made = Made::new("four", CONFIG);
    let (found, expected, most) = compare(&made, &layout(4, 1, Placement::Thread), 20);
    assert_eq!(found, expected);
    assert_eq!(most, 0.0);
}

#[test]
fn tensor_two_says_the_same_for_256_steps() {
    let made = Made::new("tensor", CONFIG);
    for placement in [Placement::Thread, Placement::Process] {
        let (found, expected, most) = compare(&made, &layout(1, 2, placement), 256);
        assert_eq!(tokens(&found), tokens(&expected));
        assert!(most <= 1e-4, "{most}");
    }
}

#[test]
fn tensor_two_runs_on_one_thread_too() {
    let made = Made::new("tensor inline", CONFIG);
    let (found, expected, most) = compare(&made, &layout(1, 2, Placement::Inline), 20);
    assert_eq!(tokens(&found), tokens(&expected));
    assert!(most <= 1e-4, "{most}");
}

#[test]
fn two_by_two_in_four_processes_says_the_same_for_256_steps() {
    let made = Made::new("grid", CONFIG);
    let (found, expected, most) = compare(&made, &layout(2, 2, Placement::Process), 256);
    assert_eq!(tokens(&found), tokens(&expected));
    assert!(most <= 1e-4, "{most}");
}

/// Returns a batch of several sequences at different positions (a prompt, the rest of a prompt, a single token), and
/// the batches that must come before it.
fn ragged() -> (Vec<Batch>, Batch) {
    let long = prompt(24, 2);
    let before = vec![one(0, 0, &long[..10]), one(2, 0, &prompt(31, 3))];
    let parts = vec![
        part(1, 0, &prompt(5, 4)),
        part(0, 10, &long[10..]),
        part(2, 31, &[9]),
    ];
    (before, Batch { parts })
}

#[test]
fn a_ragged_batch_is_the_sequences_alone() {
    let made = Made::new("ragged", CONFIG);
    let (before, batch) = ragged();
    let (mut together, mut alone) = (plain(&made), plain(&made));
    for batch in &before {
        together.step(batch).unwrap();
        alone.step(batch).unwrap();
    }
    let sampled = together.step(&batch).unwrap();
    let rows = plain_logits(&together);
    assert_eq!((sampled.len(), rows.len()), (3, 3));
    for ((part, sampled), row) in batch.parts.iter().zip(&sampled).zip(&rows) {
        let single = alone
            .step(&Batch {
                parts: vec![part.clone()],
            })
            .unwrap();
        assert_eq!((single[0].slot, single[0].token), (sampled.slot, sampled.token));
        let most = apart(&plain_logits(&alone), std::slice::from_ref(row));
        assert!(most <= 1e-4, "{most}");
    }
}

#[test]
fn a_ragged_batch_is_the_same_over_two_by_two() {
    let made = Made::new("ragged grid", CONFIG);
    let runtime = Runtime::new();
    let grid = Deployment::load(&runtime, &made.path, &layout(2, 2, Placement::Thread)).unwrap();
    let mut plain = plain(&made);
    let (before, batch) = ragged();
    for batch in before.into_iter().chain([batch]) {
        let expected = plain.step(&batch).unwrap();
        let found = grid.step(batch).wait().unwrap();
        assert_eq!(tokens(&found), tokens(&expected));
        assert!(apart(&logits(&grid), &plain_logits(&plain)) <= 1e-4);
    }
}

#[test]
fn steps_under_way_at_once_do_not_meet() {
    let made = Made::new("inflight", CONFIG);
    let runtime = Runtime::new();
    let pipeline = Deployment::load(&runtime, &made.path, &layout(2, 1, Placement::Thread)).unwrap();
    let mut plain = plain(&made);
    let batches: Vec<Batch> = (0..3).map(|slot| one(slot, 0, &prompt(6 + slot, slot))).collect();
    let expected: Vec<_> = batches.iter().map(|batch| plain.step(batch).unwrap()).collect();
    let under_way: Vec<_> = batches.into_iter().map(|batch| pipeline.step(batch)).collect();
    let found: Vec<_> = under_way.into_iter().map(|step| step.wait().unwrap()).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_prompt_in_pieces_is_the_prompt_and_asks_for_one_token() {
    let made = Made::new("pieces", CONFIG);
    let (mut whole, mut pieces) = (plain(&made), plain(&made));
    let tokens = prompt(40, 5);
    let at_once = whole.step(&one(0, 0, &tokens)).unwrap();
    let mut first = one(0, 0, &tokens[..16]);
    first.parts[0].sampling = None;
    assert_eq!(pieces.step(&first).unwrap(), vec![]);
    assert!(pieces.logits().is_none());
    let rest = pieces.step(&one(0, 16, &tokens[16..])).unwrap();
    assert_eq!(rest[0].token, at_once[0].token);
    assert!(apart(&plain_logits(&whole), &plain_logits(&pieces)) <= 1e-4);
}

#[test]
fn position_zero_begins_anew_whatever_was_there() {
    let made = Made::new("anew", CONFIG);
    let mut plain = plain(&made);
    let first = plain.step(&one(0, 0, &prompt(8, 1))).unwrap();
    plain.step(&one(0, 0, &prompt(30, 2))).unwrap();
    assert_eq!(plain.step(&one(0, 0, &prompt(8, 1))).unwrap(), first);
}
