//! The errors of a deployment, the failures that it survives, and the state after each.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test that cannot set up has failed

mod made;

use made::{CONFIG, Made, lives, one, part, pids, prompt};
use selvedge::prelude::*;
use selvedge_llama::deployment::{Deployment, Layout};
use selvedge_llama::error::LoadError;
use selvedge_llama::step::Batch;

fn layout(pipeline: usize, tensor: usize, placement: Placement) -> Layout {
    Layout {
        pipeline,
        tensor,
        placement,
        slots: 2,
        positions: Some(64),
        ..Layout::default()
    }
}

#[test]
fn a_batch_that_cannot_be_done_fails_alone_and_changes_nothing() {
    let made = Made::new("refused", CONFIG);
    let runtime = Runtime::new();
    for (pipeline, tensor) in [(1, 1), (2, 1), (1, 2), (2, 2)] {
        let layout = layout(pipeline, tensor, Placement::Thread);
        let model = Deployment::load(&runtime, &made.path, &layout).unwrap();
        let tokens = prompt(8, 1);
        let first = model.step(one(0, 0, &tokens)).wait().unwrap();
        let refused = [
            (Batch::default(), "a batch without parts"),
            (one(2, 0, &tokens), "slot 2, but there are 2"),
            (one(1, 0, &[]), "the part of slot 1 has no tokens"),
            (one(1, 1, &[1]), "begins at position 1, but 0 were seen"),
            (one(0, 8, &prompt(57, 1)), "slot 0 would reach 65 positions of 64"),
            (one(0, 8, &[64]), "token 64 of slot 0, but the model has 64"),
            (one(0, u32::MAX as usize, &[1]), "begins at position 4294967295"),
            (
                Batch {
                    parts: vec![part(0, 8, &[1]), part(0, 9, &[1])],
                },
                "two parts have slot 0",
            ),
            (
                Batch {
                    parts: vec![part(0, 8, &[1]), part(1, 3, &[1])],
                },
                "the part of slot 1 begins",
            ),
        ];
        for (batch, expected) in refused {
            let error = model.step(batch).wait().unwrap_err();
            assert!(matches!(error, ExecError::Task(_)), "{error}");
            assert!(error.to_string().contains(expected), "{error}");
        }
        // The sequence continues where it was.
        let went_on = model.step(one(0, 8, &[first[0].token])).wait().unwrap();
        let mut again = tokens.clone();
        again.push(first[0].token);
        let anew = model.step(one(1, 0, &again)).wait().unwrap();
        assert_eq!(went_on[0].token, anew[0].token);
    }
}

#[test]
fn room_that_the_model_does_not_have_is_refused() {
    let made = Made::new("room", CONFIG);
    let runtime = Runtime::new();
    for (slots, positions) in [(0, 64), (1, 0), (1, 321), (usize::MAX, 64)] {
        let layout = Layout {
            slots,
            positions: Some(positions),
            ..layout(1, 1, Placement::Inline)
        };
        let refused = Deployment::load(&runtime, &made.path, &layout).err().unwrap();
        assert!(matches!(refused, LoadError::Room { .. }), "{refused}");
    }
}

/// The system kills worker processes that ask for more memory than exists, without a message.
#[test]
fn caches_that_no_memory_holds_are_refused_with_what_they_need() {
    let made = Made::new("caches", CONFIG);
    let slots = 3_000_000_000;
    let layout = Layout {
        slots,
        ..layout(1, 1, Placement::Process)
    };
    let runtime = Runtime::new();
    let refused = Deployment::load(&runtime, &made.path, &layout).err().unwrap();
    // 4 layers of 2 heads with 16 numbers, for keys and values at 64 positions: 64 KiB.
    let text = refused.to_string();
    assert!(
        text.starts_with("3000000000 slots of 64 positions need 183105 GiB for keys and values"),
        "{text}"
    );
    assert!(runtime.actors().is_empty());
}

#[test]
fn how_long_a_step_may_take_is_said_by_the_layout() {
    let made = Made::new("time", CONFIG);
    let layout = Layout {
        step_time: std::time::Duration::ZERO,
        ..layout(1, 1, Placement::Process)
    };
    let model = Deployment::load(&Runtime::new(), &made.path, &layout).unwrap();
    // No worker answers within zero time; if one did, the step would be repeated.
    let late = (0..1000).find_map(|_| model.step(one(0, 0, &prompt(8, 1))).wait().err());
    assert!(
        matches!(
            late,
            Some(ExecError::Timeout(_) | ExecError::CapacityExceeded { .. })
        ),
        "{late:?}"
    );
}

#[test]
fn kill_of_a_rank_is_said_at_once_and_another_model_takes_over() {
    let made = Made::new("killed", CONFIG);
    let runtime = Runtime::new();
    for victim in 0..4 {
        let model = Deployment::load(&runtime, &made.path, &layout(2, 2, Placement::Process)).unwrap();
        let expected = model.step(one(0, 0, &prompt(8, 1))).wait().unwrap();
        let all = pids(&model);
        assert_eq!(all.len(), 4);
        let killed = std::process::Command::new("kill")
            .args(["-9", &all[victim].to_string()])
            .status();
        assert!(killed.unwrap().success());
        // Steps are submitted until one meets the death; later ones fail at once.
        let error = (0..).find_map(|_| model.step(one(1, 0, &prompt(8, 1))).wait().err());
        assert!(matches!(error, Some(ExecError::ActorDied(_))), "{error:?}");
        assert!(matches!(
            model.step(one(1, 0, &[1])).wait(),
            Err(ExecError::ActorDied(_))
        ));
        drop(model);
        assert!(runtime.actors().is_empty());
        assert!(!all.iter().any(|pid| lives(*pid)), "a worker is left");

        let model = Deployment::load(&runtime, &made.path, &layout(2, 2, Placement::Process)).unwrap();
        assert_eq!(model.step(one(0, 0, &prompt(8, 1))).wait().unwrap(), expected);
    }
}

#[test]
fn a_cancelled_step_leaves_the_other_slots_alone() {
    let made = Made::new("cancelled", CONFIG);
    let runtime = Runtime::new();
    let model = Deployment::load(&runtime, &made.path, &layout(2, 1, Placement::Thread)).unwrap();
    let tokens = prompt(8, 1);
    let expected = model.step(one(0, 0, &tokens)).wait().unwrap();
    for _ in 0..50 {
        let kept = model.step(one(0, 0, &tokens));
        drop(model.step(one(1, 0, &prompt(20, 2))));
        assert_eq!(kept.wait().unwrap(), expected);
    }
    // A slot whose step was cancelled must start a new sequence.
    let anew = model.step(one(1, 0, &tokens)).wait().unwrap();
    assert_eq!(anew[0].token, expected[0].token);
}
