//! A channel between two processes: one builds frames in shared memory, and the other reads them there.
//!
//! ```text
//! cargo run -p selvedge-channels --example two_processes
//! ```

use std::error::Error;
use std::process::{Command, ExitCode};
use std::time::Duration;

use selvedge_channels::{ChannelError, ChannelOptions, End, SharedChannel};

/// The number of pixels of a frame.
const PIXELS: usize = 640 * 480;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let done = match args.get(1) {
        Some(descriptor) => camera(descriptor),
        None => viewer(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The child: builds frames in the memory where the parent reads them.
fn camera(descriptor: &str) -> Result<(), Box<dyn Error>> {
    let channel = SharedChannel::<Vec<u8>>::open(&descriptor.parse()?, ChannelOptions::new())?;
    let mut writer = channel.writer()?;
    for brightness in 0..100_u8 {
        let mut frame = writer.reserve(PIXELS)?;
        frame.fill(brightness);
        frame.publish()?;
    }
    // The camera ends without closing its channel, as a real one may.
    std::process::abort()
}

/// The parent: reads frames in place, until it learns that the camera has died.
fn viewer() -> Result<(), Box<dyn Error>> {
    let options = ChannelOptions::new().slots(4).buffer_bytes(PIXELS as u64 + 64);
    let channel = options.timeout(Duration::from_secs(5)).shared::<Vec<u8>>()?;
    let mut reader = channel.reader(0)?;
    let mut child = Command::new(std::env::current_exe()?)
        .arg(channel.descriptor().to_string())
        .spawn()?;
    channel.expect(End::Writer, child.id())?;

    let (mut frames, mut sum) = (0, 0_u64);
    let error = loop {
        match reader.view() {
            Ok(frame) => {
                frames += 1;
                sum += frame.slice()?.iter().map(|pixel| u64::from(*pixel)).sum::<u64>();
            }
            Err(error) => break error,
        }
    };
    println!(
        "{frames} frames, mean brightness {:.1}",
        sum as f64 / (frames * PIXELS) as f64
    );
    println!("{error}");
    child.wait()?;
    match error {
        ChannelError::Poisoned { .. } => Ok(()),
        other => Err(other.into()),
    }
}
