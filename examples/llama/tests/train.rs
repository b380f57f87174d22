//! Tests of the trainer: its lessons, its progress, and its reproducibility.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test that cannot set up has failed

mod apart;

use apart::apart;
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama::{Cache, Llama, LlamaConfig};
use selvedge_examples::data::Digits;
use selvedge_examples::random::Random;
use selvedge_llama::alphabet;
use selvedge_llama::train::course::{Course, Losses, Plan};
use selvedge_llama::train::curve;
use selvedge_llama::train::decoder::Decoder;
use selvedge_llama::train::lesson::{Batch, Lesson, Subject};
use selvedge_llama::train::parameters::Parameters;
use selvedge_llama::train::schedule::Schedule;
use selvedge_llama::train::shape::Shape;
use selvedge_llama::train::tokenizer::tokenizer;

fn small() -> Shape {
    Shape {
        hidden: 16,
        inner: 24,
        layers: 2,
        heads: 4,
        shared_heads: 2,
        ..Shape::shipped()
    }
}

fn short(seed: u64) -> Plan {
    Plan {
        shape: small(),
        seed,
        rows: 0..100,
        draw: 2,
        read: 2,
        schedule: Schedule {
            steps: 12,
            warm_up: 2,
            rate_max: 1e-2,
        },
    }
}

/// Returns the losses, and the bits of all numbers after `steps` steps.
fn trained(seed: u64, steps: usize) -> (Vec<Losses>, Vec<(String, Vec<u32>)>) {
    let mut course = Course::new(short(seed)).unwrap();
    let losses = (0..steps).map(|_| course.step().unwrap()).collect();
    let bits = |tensor: &Tensor| {
        let values: Vec<f32> = tensor.flatten_all().unwrap().to_vec1().unwrap();
        values.into_iter().map(f32::to_bits).collect()
    };
    let mut tensors: Vec<_> = course
        .tensors()
        .iter()
        .map(|(name, it)| (name.clone(), bits(it)))
        .collect();
    tensors.sort();
    (losses, tensors)
}

#[test]
fn a_short_course_lowers_the_loss_and_is_the_same_again() {
    let (losses, tensors) = trained(7, 12);
    let mean =
        |losses: &[Losses]| losses.iter().map(|it| it.draw + it.read).sum::<f32>() / losses.len() as f32;
    assert!(mean(&losses[9..]) < 0.9 * mean(&losses[..3]), "{losses:?}");
    assert_eq!((losses, tensors), trained(7, 12));
    assert_ne!(trained(7, 1).1, trained(8, 1).1);
}

#[test]
fn the_decoder_gives_the_logits_of_another_llama() {
    let (shape, mut random) = (small(), Random::new(3));
    let parameters = Parameters::random(&shape, &mut random).unwrap();
    let tokens: Vec<u32> = (0..2 * 40)
        .map(|_| random.below(shape.vocabulary) as u32)
        .collect();
    let tokens = Tensor::from_vec(tokens, (2, 40), &Device::Cpu).unwrap();
    let ours = Decoder::new(shape, &parameters).unwrap().next(&tokens).unwrap();
    let named = parameters
        .iter()
        .map(|(name, var)| (name.to_string(), var.as_tensor().clone()));
    let weights = VarBuilder::from_tensors(named.collect(), DType::F32, &Device::Cpu);
    let config: LlamaConfig = serde_json::from_value(shape.json()).unwrap();
    let config = config.into_config(false);
    let mut cache = Cache::new(true, DType::F32, &config, &Device::Cpu).unwrap();
    let theirs = Llama::load(weights, &config)
        .unwrap()
        .forward(&tokens, 0, &mut cache)
        .unwrap();
    let apart = apart(&ours, &theirs);
    assert!(apart < 1e-4, "{apart}");
}

#[test]
fn only_answers_count_and_lessons_count_alike() {
    let (digits, mut random) = (Digits::load().unwrap(), Random::new(5));
    let tokenizer = tokenizer().unwrap();
    let subjects = [Subject::Draw, Subject::Draw, Subject::Read];
    let lessons = subjects.map(|subject| Lesson::new(subject, &digits, 4, &mut random).unwrap());
    let batch = Batch::new(&lessons, &tokenizer).unwrap();
    for (weights, shares) in [(&batch.draw, [0.5, 0.5, 0.0]), (&batch.read, [0.0, 0.0, 1.0])] {
        let sums: Vec<f32> = weights.sum(1).unwrap().to_vec1().unwrap();
        assert!(
            sums.iter()
                .zip(shares)
                .all(|(sum, share)| (sum - share).abs() < 1e-5),
            "{sums:?}"
        );
    }
    let counted = |weights: &Tensor, row: usize| -> String {
        let (weights, targets): (Vec<Vec<f32>>, Vec<Vec<u32>>) =
            (weights.to_vec2().unwrap(), batch.targets.to_vec2().unwrap());
        let kept = targets[row]
            .iter()
            .zip(&weights[row])
            .filter(|(_, weight)| **weight > 0.0);
        tokenizer
            .decode(&kept.map(|(token, _)| *token).collect::<Vec<_>>(), false)
            .unwrap()
    };
    assert_eq!(counted(&batch.draw, 1), format!("{}<|end|>", lessons[1].answer));
    assert_eq!(counted(&batch.read, 2), "4<|end|>");
}

#[test]
fn a_lesson_fits_the_tokens_of_its_texts() {
    let (digits, mut random) = (Digits::load().unwrap(), Random::new(9));
    let tokenizer = tokenizer().unwrap();
    for row in 0..200 {
        for subject in [Subject::Draw, Subject::Read] {
            let lesson = Lesson::new(subject, &digits, row, &mut random).unwrap();
            let image = if subject == Subject::Draw {
                &lesson.answer
            } else {
                &lesson.prompt
            };
            let lines: Vec<&str> = image.lines().collect();
            assert!(
                alphabet::pixels(&lines[lines.len() - 8..].join("\n")).is_some(),
                "{image}"
            );
            let answer = tokenizer.encode(lesson.answer.as_str(), false).unwrap();
            assert_eq!(tokenizer.decode(answer.get_ids(), true).unwrap(), lesson.answer);
        }
    }
}

#[test]
fn the_curve_is_two_lines_whatever_the_losses() {
    for steps in [0, 1, 1000] {
        let svg = curve::svg(&vec![Losses { draw: 1.2, read: 0.4 }; steps]);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(!svg.contains("NaN"), "{steps} steps");
    }
}
