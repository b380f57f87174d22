//! Generates text with a Llama-architecture model, cut into a pipeline of stages, each of which may be cut into ranks.
//!
//! `cargo run --release -p selvedge-llama -- --prompt TEXT [--model DIR] [--pipeline P] [--tensor T] [--placement PLACE]`
//!
//! The text goes to standard output as it is generated, everything else to standard error.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use indicatif::ProgressBar;
use selvedge::prelude::*;
use selvedge_llama::deployment::{Deployment, Layout};
use selvedge_llama::folder::shipped;
use selvedge_llama::report::Report;
use selvedge_llama::step::{Batch, Part, Sampling};
use selvedge_llama::text::Text;
use selvedge_training::one_thread::keep_candle_to_one_thread;

/// Generates text with a Llama-architecture model.
#[derive(Parser)]
#[command(name = "llama")]
struct Arguments {
    /// A directory with the model files as Hugging Face lays them out
    #[arg(long, value_name = "DIR", default_value_os_t = shipped())]
    model: PathBuf,
    /// The text to continue
    #[arg(long, value_name = "TEXT")]
    prompt: String,
    /// How many stages the layers are cut into
    #[arg(long, value_name = "P", default_value_t = 1)]
    pipeline: usize,
    /// How many ranks share every layer
    #[arg(long, value_name = "T", default_value_t = 1)]
    tensor: usize,
    /// The place of stages and ranks: inline, thread or process
    #[arg(long, default_value_t = Placement::Process)]
    placement: Placement,
    /// Keep every stage and rank to a core of its own
    #[arg(long)]
    pin: bool,
    /// The most tokens to generate
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_tokens: usize,
    /// 0 takes the likeliest token, 1 what the model believes
    #[arg(long, default_value_t = 0.0, value_parser = within::<0>)]
    temperature: f32,
    /// Choose among the likeliest tokens that together have this probability
    #[arg(long, default_value_t = 1.0, value_parser = within::<1>)]
    top_p: f32,
    /// Equal seeds give equal texts
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Tokens of one step at most; a longer prompt is cut
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    step_tokens: u32,
    /// The longest prompt and text together; else what the model was made for
    #[arg(long, value_name = "N")]
    positions: Option<usize>,
    /// How many seconds a step may take
    #[arg(long, value_name = "S", default_value_t = 120)]
    step_time: u64,
    /// Print how long every task took
    #[arg(long)]
    stats: bool,
}

/// Parses a number of at least 0, and of at most `MOST` unless that is 0.
fn within<const MOST: u8>(text: &str) -> Result<f32, String> {
    let number: f32 = text.parse().map_err(|_| "not a number".to_owned())?;
    let most = if MOST == 0 { f32::MAX } else { f32::from(MOST) };
    if (0.0..=most).contains(&number) {
        return Ok(number);
    }
    Err(match MOST {
        0 => "must be 0 or more".into(),
        most => format!("must be from 0 to {most}"),
    })
}

/// The numbers and times of generated tokens.
struct Generated {
    prompt: usize,
    tokens: usize,
    first: Duration,
    all: Duration,
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error + Send + Sync>> {
    let runtime = Runtime::new();
    let layout = Layout {
        pipeline: arguments.pipeline,
        tensor: arguments.tensor,
        placement: arguments.placement,
        pinned: arguments.pin,
        positions: arguments.positions,
        step_time: Duration::from_secs(arguments.step_time),
        trace: 1 << 15,
        ..Layout::default()
    };
    // The bar is drawn only if standard error is a terminal.
    let bar = ProgressBar::new(0);
    let model = Deployment::load_with(&runtime, &arguments.model, &layout, |loaded, all| {
        bar.set_length(all as u64);
        bar.set_position(loaded as u64);
    });
    bar.finish_and_clear();
    let model = model?;
    let text = Text::open(&arguments.model)?;
    let generated = generate(&model, &text, arguments)?;
    let report = Report::of(&model.graph().trace());
    let (count, seconds) = (generated.tokens, generated.all.as_secs_f64());
    let rate = count as f64 / seconds.max(f64::MIN_POSITIVE);
    eprintln!(
        "tokens       {count} in {:.1?}, {rate:.0} a second",
        generated.all
    );
    eprintln!(
        "first token  {:.1?}, after a prompt of {}",
        generated.first, generated.prompt
    );
    eprint!("{report}");
    if arguments.stats {
        eprint!("{}", model.profile());
    }
    Ok(())
}

/// Feeds the prompt, and then every generated token, until one ends the text.
fn generate(
    model: &Deployment,
    text: &Text,
    arguments: &Arguments,
) -> Result<Generated, Box<dyn Error + Send + Sync>> {
    let sampling = Some(Sampling {
        temperature: arguments.temperature,
        top_p: arguments.top_p,
        seed: arguments.seed,
    });
    let mut out = std::io::stdout().lock();
    let mut tokens = text.encode(&arguments.prompt)?;
    if tokens.is_empty() {
        tokens.extend(model.config().begin);
    }
    let (prompt, room) = (tokens.len(), model.room().positions);
    if prompt > room {
        return Err(format!("the prompt has {prompt} tokens, the model has room for {room}").into());
    }
    let (mut start, mut stream, mut count) = (0, text.stream(), 0);
    let began = Instant::now();
    let mut first = Duration::ZERO;
    while count < arguments.max_tokens && start + tokens.len() <= room {
        let next = start + tokens.len();
        let part = Part {
            slot: 0,
            start: start as u32,
            tokens,
            sampling,
        };
        let token = last_token(model, part, arguments.step_tokens)?;
        count += 1;
        if count == 1 {
            first = began.elapsed();
        }
        if model.config().end.contains(&token) {
            break;
        }
        write!(out, "{}", stream.push(token)?)?;
        out.flush()?;
        (start, tokens) = (next, vec![token]);
    }
    writeln!(out, "{}", stream.finish()?)?;
    let all = began.elapsed();
    Ok(Generated {
        prompt,
        tokens: count,
        first,
        all,
    })
}

/// Returns the token that follows a part. The part goes through the model in pieces, so that in a pipeline each stage
/// has a piece of its own.
fn last_token(model: &Deployment, part: Part, step_tokens: u32) -> Result<u32, Box<dyn Error + Send + Sync>> {
    let pieces = part.pieces(step_tokens as usize);
    let steps = pieces.map(|piece| Batch { parts: vec![piece] });
    let mut last = None;
    for sampled in model.graph().map(steps) {
        let sampled = sampled.map_err(|error| match error {
            ExecError::Timeout(_) => {
                format!("{error}\nwith a longer --step-time or fewer --step-tokens it may end in time").into()
            }
            error => Box::<dyn Error + Send + Sync>::from(error),
        })?;
        last = sampled.first().map(|sampled| sampled.token);
    }
    Ok(last.ok_or("the model gave no token")?)
}

fn main() -> ExitCode {
    selvedge::init();
    keep_candle_to_one_thread();
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
