//! Trains the model that comes with the repository and writes its folder: seeded, in minutes on two cores.
//!
//! `cargo run --release -p selvedge-llama --bin llama_train -- [--out DIR] [--seed N] [--steps N] [--validate]`
//!
//! The held-out rows are used once, at the end. Changes are compared with `--validate`, which learns from the first
//! 1 200 rows, measures on the other 238 rows for training, and writes nothing.

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use selvedge_examples::data::{Digits, TRAINING_ROWS};
use selvedge_examples::model::Mlp;
use selvedge_examples::weights::shipped_weights;
use selvedge_llama::alphabet;
use selvedge_llama::train::course::{Course, Losses, Plan};
use selvedge_llama::train::decoder::Decoder;
use selvedge_llama::train::exam::{Candidate, Choice, recognised};
use selvedge_llama::train::memory::keep_freed_memory;
use selvedge_llama::train::parameters::Parameters;
use selvedge_llama::train::{curve, folder, tokenizer};
use selvedge_training::one_thread::keep_candle_to_one_thread;
use sha2::{Digest, Sha256};

const COMMAND: &str = "cargo run --release -p selvedge-llama --bin llama_train";
/// The number of judged drawings of each digit.
const DRAWINGS: usize = 20;
const CHOICE: Choice = Choice {
    temperature: 0.8,
    top_p: 0.9,
};

#[derive(Parser)]
struct Arguments {
    /// The folder of the model; by default where the other programs look for it
    #[arg(long, default_value_os_t = selvedge_llama::folder::shipped())]
    out: PathBuf,
    /// Equal seeds give equal files on the same kind of processor
    #[arg(long, default_value_t = 20_261_122)]
    seed: u64,
    /// Steps of training
    #[arg(long, default_value_t = 4_000)]
    steps: usize,
    /// Learn from the first 1 200 rows and measure on the rest of the rows for training; nothing is written
    #[arg(long)]
    validate: bool,
    /// Show no progress bar; where standard error is no terminal there is none anyway
    #[arg(long)]
    no_progress: bool,
}

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    keep_freed_memory();
    keep_candle_to_one_thread();
    let arguments = Arguments::parse();
    let digits = Digits::load()?;
    let (rows, measured) = match arguments.validate {
        true => (0..1200, 1200..TRAINING_ROWS),
        false => (0..TRAINING_ROWS, digits.held_out()),
    };
    let plan = Plan::shipped(arguments.seed, arguments.steps, rows);
    let shape = plan.shape;
    let mut course = Course::new(plan)?;
    let losses = train(&mut course, arguments.steps, arguments.no_progress)?;
    // The rounded numbers are measured, because the file holds these.
    let tensors = folder::rounded(course.tensors())?;
    let decoder = Decoder::new(shape, &Parameters::from_tensors(&shape, &tensors)?)?;
    let candidate = Candidate {
        decoder: &decoder,
        tokenizer: &tokenizer::tokenizer()?,
    };
    let reading = candidate.reading(&digits, measured.clone())?;
    println!("reads    {reading:.4} of rows {measured:?}");
    let drawings = candidate.drawings(DRAWINGS, CHOICE, arguments.seed)?;
    let drawn = recognised(&drawings, &Mlp::load(&shipped_weights())?)?;
    println!(
        "draws    {drawn:.4} of {} digits so that the perceptron recognises them",
        drawings.len()
    );
    if let Some((digit, text)) = drawings.last() {
        println!("{}\n{text}", alphabet::draw(*digit));
    }
    if arguments.validate {
        return Ok(());
    }
    let out = &arguments.out;
    folder::write(out, &shape, &tensors)?;
    std::fs::write(out.join("loss.svg"), curve::svg(&losses))?;
    summary(out, &arguments)
}

fn train(course: &mut Course, steps: usize, hidden: bool) -> Outcome<Vec<Losses>> {
    let bar = if hidden {
        ProgressBar::hidden()
    } else {
        ProgressBar::new(steps as u64)
    };
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} {msg} {eta}")?);
    let mut losses = Vec::new();
    for _ in 0..steps {
        let step = course.step()?;
        losses.push(step);
        bar.set_message(format!("draw {:.3} read {:.3}", step.draw, step.read));
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(losses)
}

fn summary(out: &Path, arguments: &Arguments) -> Outcome<()> {
    let file = out.join("model.safetensors");
    let digest = Sha256::digest(std::fs::read(&file)?);
    println!("sha256   {digest:x}  {}", file.display());
    println!("seed     {}", arguments.seed);
    println!(
        "command  {COMMAND} -- --seed {} --steps {}",
        arguments.seed, arguments.steps
    );
    Ok(())
}
