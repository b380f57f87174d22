//! The exam of the model: it reads digits that it has not seen, and draws digits that another model recognises.

use candle_core::{Device, Tensor};
use selvedge_examples::data::{CLASSES, Digits, PIXELS, scaled};
use selvedge_examples::model::{Mlp, classes};
use selvedge_examples::random::Random;
use tokenizers::Tokenizer;

use super::decoder::Decoder;
use super::tokenizer::END;
use crate::alphabet;

/// The most tokens of a drawing; a longer one counts as endless.
const ANSWER_MAX: usize = PIXELS + 16;

/// The way in which the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The temperature: above 1 it flattens the probabilities, below 1 it sharpens them.
    pub temperature: f32,
    /// The probability of the nucleus: only as many of the likeliest tokens as reach it take part (Holtzman et al.,
    /// 2019).
    pub top_p: f32,
}

/// A decoder with its tokenizer.
pub struct Candidate<'m> {
    /// The model.
    pub decoder: &'m Decoder,
    /// The tokenizer of the decoder.
    pub tokenizer: &'m Tokenizer,
}

impl Candidate<'_> {
    /// Returns the fraction of these rows that the model reads correctly: the likeliest token after the image is the
    /// digit.
    ///
    /// # Errors
    /// The errors of candle and the tokenizer.
    pub fn reading(&self, digits: &Digits, rows: std::ops::Range<usize>) -> tokenizers::Result<f64> {
        let (mut right, mut asked) = (0, 0);
        let rows: Vec<usize> = rows.collect();
        for rows in rows.chunks(64) {
            let images = rows.iter().filter_map(|row| digits.image(*row));
            let prompts: Vec<String> = images.map(alphabet::read).collect();
            let (tokens, n) = (self.encoded(&prompts)?, prompts.len());
            let logits = self
                .decoder
                .next(&Tensor::from_vec(tokens, (n, ()), &Device::Cpu)?)?;
            let best = logits.argmax(1)?.to_vec1::<u32>()?;
            for (row, best) in rows.iter().zip(best) {
                let digit = alphabet::digit(&self.tokenizer.decode(&[best], true)?);
                right += usize::from(digit == digits.label(*row));
                asked += 1;
            }
        }
        Ok(right as f64 / asked.max(1) as f64)
    }

    /// Makes `each` drawings of every digit; returns the digit and the text of each drawing.
    ///
    /// # Errors
    /// The errors of candle and the tokenizer.
    pub fn drawings(&self, each: usize, choice: Choice, seed: u64) -> tokenizers::Result<Vec<(u8, String)>> {
        let mut random = Random::new(seed);
        let asked: Vec<u8> = (0..each * CLASSES).map(|at| (at % CLASSES) as u8).collect();
        let prompts: Vec<String> = asked.iter().map(|digit| alphabet::draw(*digit)).collect();
        let (prompts, n) = (self.encoded(&prompts)?, asked.len());
        let mut tokens = Tensor::from_vec(prompts, (n, ()), &Device::Cpu)?;
        let mut answers = vec![Vec::new(); n];
        let end = self.tokenizer.token_to_id(END).unwrap_or_default();
        for _ in 0..ANSWER_MAX {
            let logits: Vec<Vec<f32>> = self.decoder.next(&tokens)?.to_vec2()?;
            let next: Vec<u32> = logits
                .iter()
                .map(|logits| choose(logits, choice, &mut random))
                .collect();
            for (answer, next) in answers.iter_mut().zip(&next) {
                answer.push(*next);
            }
            if answers.iter().all(|answer| answer.contains(&end)) {
                break;
            }
            tokens = Tensor::cat(&[tokens, Tensor::from_vec(next, (n, 1), &Device::Cpu)?], 1)?;
        }
        let text = |answer: &Vec<u32>| {
            let answer: Vec<u32> = answer.iter().copied().take_while(|token| *token != end).collect();
            self.tokenizer.decode(&answer, true)
        };
        let texts = answers.iter().map(text).collect::<tokenizers::Result<Vec<_>>>()?;
        Ok(asked.into_iter().zip(texts).collect())
    }

    /// Returns the tokens of the texts, one text after the other.
    fn encoded(&self, texts: &[String]) -> tokenizers::Result<Vec<u32>> {
        let mut tokens = Vec::new();
        for text in texts {
            tokens.extend(self.tokenizer.encode_fast(text.as_str(), false)?.get_ids());
        }
        Ok(tokens)
    }
}

/// Returns the fraction of drawings that are pictures in which the perceptron recognises the requested digit.
///
/// # Errors
/// The errors of candle.
pub fn recognised(drawings: &[(u8, String)], judge: &Mlp) -> candle_core::Result<f64> {
    let mut right = 0;
    for (digit, text) in drawings {
        let Some(pixels) = alphabet::pixels(text) else {
            continue;
        };
        let seen = classes(
            &judge
                .logits(&pixels.map(scaled))
                .map_err(candle_core::Error::wrap)?,
        );
        right += usize::from(seen.first() == Some(digit));
    }
    Ok(right as f64 / drawings.len().max(1) as f64)
}

fn choose(logits: &[f32], choice: Choice, random: &mut Random) -> u32 {
    let largest = logits.iter().copied().fold(f32::MIN, f32::max);
    let weight = |logit: &f32| ((logit - largest) / choice.temperature).exp();
    let mut weights: Vec<(u32, f32)> = (0..).zip(logits.iter().map(weight)).collect();
    weights.sort_by(|a, b| b.1.total_cmp(&a.1));
    let enough = choice.top_p * weights.iter().map(|(_, weight)| weight).sum::<f32>();
    let mut reached = 0.0;
    let kept = weights.iter().take_while(|(_, weight)| {
        let before = reached;
        reached += weight;
        before < enough
    });
    let kept: Vec<(u32, f32)> = kept.copied().collect();
    let sum: f32 = kept.iter().map(|(_, weight)| weight).sum();
    let mut left = sum * (random.signed() + 1.0) / 2.0;
    for (token, weight) in &kept {
        left -= weight;
        if left <= 0.0 {
            return *token;
        }
    }
    kept.first().map(|(token, _)| *token).unwrap_or_default()
}
