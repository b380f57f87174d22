use std::collections::BTreeSet;

use super::*;

const ALL: [PipelineSchedule; 5] = [
    PipelineSchedule::GPipe,
    PipelineSchedule::OneForwardOneBackward,
    PipelineSchedule::Interleaved { chunks: 1 },
    PipelineSchedule::Interleaved { chunks: 2 },
    PipelineSchedule::Interleaved { chunks: 3 },
];

fn word(steps: &[Step]) -> String {
    steps
        .iter()
        .map(|step| if step.backward { 'B' } else { 'F' })
        .collect()
}

#[test]
fn graph_18_one_forward_one_backward_is_the_published_order() {
    let schedule = PipelineSchedule::OneForwardOneBackward;
    let words: Vec<String> = (0..4).map(|stage| word(&schedule.stage(stage, 4, 8))).collect();
    assert_eq!(
        words,
        [
            "FFFFBFBFBFBFBBBB",
            "FFFBFBFBFBFBFBBB",
            "FFBFBFBFBFBFBFBB",
            "FBFBFBFBFBFBFBFB"
        ]
    );
    let two: Vec<String> = (0..2).map(|stage| word(&schedule.stage(stage, 2, 2))).collect();
    assert_eq!(two, ["FFBB", "FBFB"]);
}

#[test]
fn graph_18_interleaved_chunks_are_taken_in_groups_of_as_many_batches_as_stages() {
    let steps = PipelineSchedule::Interleaved { chunks: 2 }.stage(0, 2, 4);
    let forward: Vec<(usize, usize)> = steps
        .iter()
        .filter(|step| !step.backward)
        .map(|step| (step.chunk, step.batch))
        .collect();
    assert_eq!(
        forward,
        [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3)]
    );
    let backward: Vec<(usize, usize)> = steps
        .iter()
        .filter(|step| step.backward)
        .map(|step| (step.chunk, step.batch))
        .collect();
    assert_eq!(
        backward,
        [(1, 0), (1, 1), (0, 0), (0, 1), (1, 2), (1, 3), (0, 2), (0, 3)]
    );
}

#[test]
fn graph_18_every_schedule_has_every_pass_once_and_never_before_what_it_needs() {
    for schedule in ALL {
        for stages in 1..=5 {
            for batches in 0..=9 {
                let steps = schedule.steps(stages, batches);
                let wanted = 2 * stages * schedule.chunks() * batches;
                assert_eq!(
                    steps.len(),
                    wanted,
                    "{schedule:?}, {stages} stages, {batches} batches"
                );
                let mut seen = BTreeSet::new();
                for step in &steps {
                    let block = step.chunk * stages + step.stage;
                    let depth = stages * schedule.chunks();
                    let here = if step.backward {
                        2 * depth - 1 - block
                    } else {
                        block
                    };
                    assert!(
                        here == 0 || seen.contains(&(here - 1, step.batch)),
                        "{schedule:?} {step:?}"
                    );
                    assert!(seen.insert((here, step.batch)));
                }
                for stage in 0..stages {
                    let own: Vec<Step> = steps.iter().copied().filter(|step| step.stage == stage).collect();
                    assert_eq!(own, schedule.stage(stage, stages, batches));
                }
            }
        }
    }
}
