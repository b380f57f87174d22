//! A lesson is a prompt and its answer; a batch of lessons holds the tokens, the target after each token, and the
//! weight of each target.

use candle_core::{Device, Tensor};
use selvedge_examples::data::Digits;
use selvedge_examples::random::Random;
use tokenizers::Tokenizer;

use super::tokenizer::END;
use super::{hand, prompts};
use crate::alphabet;

/// The subject of a lesson.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// From a digit to its picture.
    Draw,
    /// From a picture to its digit.
    Read,
}

/// A prompt and its answer.
#[derive(Clone, Debug)]
pub struct Lesson {
    /// The subject of the lesson.
    pub subject: Subject,
    /// The prompt.
    pub prompt: String,
    /// The answer, without the end of text.
    pub answer: String,
}

impl Lesson {
    /// Creates a lesson from a row of the digits; `None` if the row does not exist.
    pub fn new(subject: Subject, digits: &Digits, row: usize, random: &mut Random) -> Option<Lesson> {
        let (image, digit) = (digits.image(row)?, digits.label(row)?);
        let (prompt, answer) = match subject {
            // The image is not varied. If it were moved, the likeliest first lines would be paper, and a drawing from
            // the likeliest shades would slide out of the picture.
            Subject::Draw => (prompts::draw(digit, random), alphabet::picture(image)),
            Subject::Read => {
                let image = hand::rewritten(image, random);
                (prompts::read(&image, random), digit.to_string())
            }
        };
        Some(Lesson {
            subject,
            prompt,
            answer,
        })
    }
}

/// Lessons side by side, padded to the longest.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The tokens, `[n, length]`.
    pub tokens: Tensor,
    /// The token that follows each token, `[n, length]`.
    pub targets: Tensor,
    /// The weight of each target in the loss of drawing, `[n, length]`; the weights add up to 1, or to 0 without such
    /// lessons.
    pub draw: Tensor,
    /// The weight of each target in the loss of reading, with the shape and the sums of `draw`.
    pub read: Tensor,
}

impl Batch {
    /// Encodes lessons. Prompts have no weight; within a subject every lesson has the same weight.
    ///
    /// # Errors
    /// The errors of the tokenizer and candle.
    pub fn new(lessons: &[Lesson], tokenizer: &Tokenizer) -> tokenizers::Result<Batch> {
        let mut rows = Vec::new();
        for lesson in lessons {
            let prompt = tokenizer.encode_fast(lesson.prompt.as_str(), false)?;
            // Encoded separately from its prompt, as the model writes it.
            let answer = tokenizer.encode_fast(lesson.answer.as_str(), false)?;
            let end = tokenizer.token_to_id(END).unwrap_or_default();
            let tokens: Vec<u32> = [prompt.get_ids(), answer.get_ids(), &[end]].concat();
            rows.push((lesson.subject, prompt.len(), tokens));
        }
        let length = rows.iter().map(|(_, _, tokens)| tokens.len()).max().unwrap_or(1) - 1;
        let count = |subject| rows.iter().filter(|(it, _, _)| *it == subject).count().max(1);
        let share = |subject| 1.0 / count(subject) as f32;
        let shares = (share(Subject::Draw), share(Subject::Read));
        let (mut tokens, mut targets, mut draw, mut read) = (vec![], vec![], vec![], vec![]);
        for (subject, prompt, row) in &rows {
            let answered = row.len() - prompt;
            for at in 0..length {
                let target = row.get(at + 1);
                let counts = target.is_some() && at + 1 >= *prompt;
                let weight = if counts { 1.0 / answered as f32 } else { 0.0 };
                tokens.push(row.get(at).copied().unwrap_or_default());
                targets.push(target.copied().unwrap_or_default());
                draw.push(if *subject == Subject::Draw {
                    weight * shares.0
                } else {
                    0.0
                });
                read.push(if *subject == Subject::Read {
                    weight * shares.1
                } else {
                    0.0
                });
            }
        }
        let shape = (rows.len(), length);
        Ok(Batch {
            tokens: Tensor::from_vec(tokens, shape, &Device::Cpu)?,
            targets: Tensor::from_vec(targets, shape, &Device::Cpu)?,
            draw: Tensor::from_vec(draw, shape, &Device::Cpu)?,
            read: Tensor::from_vec(read, shape, &Device::Cpu)?,
        })
    }
}
