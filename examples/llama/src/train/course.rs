//! The steps of training, from random numbers to a model.
//!
//! A step's batch is cut into [`PARTS`] parts that go through the model in a thread each; the gradients are added in
//! the order of the parts. The number of cores changes the time, not the model.

use std::collections::HashMap;
use std::ops::Range;
use std::thread;

use candle_core::backprop::GradStore;
use candle_core::{D, Result, Tensor, Var};
use candle_nn::ops::log_softmax;
use candle_nn::{AdamW, Optimizer, ParamsAdamW};
use selvedge_examples::data::Digits;
use selvedge_examples::random::Random;
use tokenizers::Tokenizer;

use super::decoder::Decoder;
use super::lesson::{Batch, Lesson, Subject};
use super::parameters::Parameters;
use super::schedule::Schedule;
use super::shape::Shape;
use super::tokenizer::tokenizer;

/// The number of parts of a batch, and so of threads.
pub const PARTS: usize = 2;
/// The longest gradient of all parameters together: a longer one is cut to this length, so that no single batch changes
/// the model far.
const GRADIENT_MAX: f64 = 1.0;
const WEIGHT_DECAY: f64 = 0.05;

/// The plan of a training: the model, the data and the number of steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The size of the model.
    pub shape: Shape,
    /// The seed; equal seeds give equal models on the same kind of processor.
    pub seed: u64,
    /// The rows of the digits to learn from.
    pub rows: Range<usize>,
    /// The lessons of drawing in a part of a step's batch.
    pub draw: usize,
    /// The lessons of reading in a part; there are more of them, because only their last two tokens teach.
    pub read: usize,
    /// The rate of each step.
    pub schedule: Schedule,
}

impl Plan {
    /// Returns the plan of the shipped model.
    pub fn shipped(seed: u64, steps: usize, rows: Range<usize>) -> Plan {
        Plan {
            shape: Shape::shipped(),
            seed,
            rows,
            draw: 8,
            read: 24,
            schedule: Schedule {
                steps,
                warm_up: steps / 20,
                rate_max: 3e-3,
            },
        }
    }
}

/// The mean losses of a step's lessons, in nats.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Losses {
    /// The loss per token of a drawing.
    pub draw: f32,
    /// The loss per token of an answer to an image.
    pub read: f32,
}

/// A model in training.
pub struct Course {
    plan: Plan,
    digits: Digits,
    tokenizer: Tokenizer,
    random: Random,
    parameters: Parameters,
    decoder: Decoder,
    /// One optimizer for norms, without weight decay, and one for matrices, with it.
    optimizers: [AdamW; 2],
    step: usize,
    /// The rows still to come before all rows have been used, for each subject.
    ahead: [Vec<usize>; 2],
}

impl Course {
    /// Creates a model of random numbers.
    ///
    /// # Errors
    /// The errors of candle and the tokenizer, and data that cannot be read.
    pub fn new(plan: Plan) -> tokenizers::Result<Course> {
        let mut random = Random::new(plan.seed);
        let parameters = Parameters::random(&plan.shape, &mut random)?;
        let (norms, matrices): (Vec<Var>, Vec<Var>) = parameters
            .iter()
            .map(|(_, var)| var.clone())
            .partition(|var| var.rank() == 1);
        let adam = |vars, weight_decay| {
            let params = ParamsAdamW {
                weight_decay,
                beta2: 0.99,
                ..ParamsAdamW::default()
            };
            AdamW::new(vars, params)
        };
        Ok(Course {
            decoder: Decoder::new(plan.shape, &parameters)?,
            digits: Digits::load()?,
            tokenizer: tokenizer()?,
            optimizers: [adam(norms, 0.0)?, adam(matrices, WEIGHT_DECAY)?],
            random,
            parameters,
            step: 0,
            ahead: [Vec::new(), Vec::new()],
            plan,
        })
    }

    /// Takes a step and returns the losses before it.
    ///
    /// # Errors
    /// The errors of candle and the tokenizer.
    pub fn step(&mut self) -> tokenizers::Result<Losses> {
        let parts = (0..PARTS)
            .map(|_| self.batch())
            .collect::<tokenizers::Result<Vec<_>>>()?;
        let decoder = &self.decoder;
        let results: Vec<Result<(Losses, GradStore)>> = thread::scope(|scope| {
            let learn = |part| scope.spawn(move || gradients(decoder, part));
            let threads: Vec<_> = parts.iter().map(learn).collect();
            let lost = |_| Err(candle_core::Error::msg("a part of the batch was lost to a panic"));
            threads
                .into_iter()
                .map(|it| it.join().unwrap_or_else(lost))
                .collect()
        });
        let parts = results.into_iter().collect::<Result<Vec<_>>>()?;
        let mut losses = Losses::default();
        for (part, _) in &parts {
            losses.draw += part.draw / PARTS as f32;
            losses.read += part.read / PARTS as f32;
        }
        let gradients = self.clipped(parts.into_iter().map(|(_, gradients)| gradients).collect())?;
        for optimizer in &mut self.optimizers {
            optimizer.set_learning_rate(self.plan.schedule.rate(self.step));
            optimizer.step(&gradients)?;
        }
        self.step += 1;
        Ok(losses)
    }

    /// Returns the names and present values of the parameters.
    pub fn tensors(&self) -> HashMap<String, Tensor> {
        let named = |(name, var): (&str, &Var)| (name.to_string(), var.as_tensor().clone());
        self.parameters.iter().map(named).collect()
    }

    fn batch(&mut self) -> tokenizers::Result<Batch> {
        let mut lessons = Vec::new();
        let subjects = [(Subject::Draw, self.plan.draw), (Subject::Read, self.plan.read)];
        for ((subject, count), ahead) in subjects.into_iter().zip(&mut self.ahead) {
            for _ in 0..count {
                if ahead.is_empty() {
                    ahead.extend(self.plan.rows.clone());
                    self.random.shuffle(ahead);
                }
                let row = ahead.pop().unwrap_or_default();
                lessons.extend(Lesson::new(subject, &self.digits, row, &mut self.random));
            }
        }
        Batch::new(&lessons, &self.tokenizer)
    }

    /// Returns the mean of the parts' gradients, cut to the length [`GRADIENT_MAX`].
    fn clipped(&self, mut parts: Vec<GradStore>) -> Result<GradStore> {
        let Some(mut first) = parts.pop() else {
            candle_core::bail!("a step has at least one part");
        };
        let mut square = 0.0;
        for (name, var) in self.parameters.iter() {
            let Some(mut sum) = first.remove(var) else {
                candle_core::bail!("the loss does not depend on `{name}`");
            };
            for part in parts.iter().filter_map(|part| part.get(var)) {
                sum = (sum + part)?;
            }
            let mean = (sum / PARTS as f64)?;
            square += f64::from(mean.sqr()?.sum_all()?.to_scalar::<f32>()?);
            first.insert(var, mean);
        }
        let length = square.sqrt();
        if length > GRADIENT_MAX {
            for (_, var) in self.parameters.iter() {
                if let Some(mean) = first.remove(var) {
                    first.insert(var, (mean * (GRADIENT_MAX / length))?);
                }
            }
        }
        Ok(first)
    }
}

/// Returns the losses of a batch and the gradient of their sum.
fn gradients(decoder: &Decoder, batch: &Batch) -> Result<(Losses, GradStore)> {
    let logs = log_softmax(&decoder.forward(&batch.tokens)?, D::Minus1)?;
    let targets = batch.targets.unsqueeze(D::Minus1)?;
    let surprise = logs.gather(&targets, D::Minus1)?.squeeze(D::Minus1)?.neg()?;
    let draw = (&surprise * &batch.draw)?.sum_all()?;
    let read = (&surprise * &batch.read)?.sum_all()?;
    let losses = Losses {
        draw: draw.to_scalar()?,
        read: read.to_scalar()?,
    };
    Ok((losses, (draw + read)?.backward()?))
}
