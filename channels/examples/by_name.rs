//! A channel found by its name: one program builds tensors in shared memory, an unrelated one reads them there.
//!
//! ```text
//! cargo run -p selvedge-channels --example by_name -- sensor     # in one terminal
//! cargo run -p selvedge-channels --example by_name -- display    # in another, of the same user
//! ```
//!
//! Without an argument, the example starts both.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use selvedge_channels::{ChannelError, ChannelOptions, SharedChannel, Tensor};

const NAME: &str = "selvedge-example-sensor";
const FRAMES: usize = 50;

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("sensor") => sensor(),
        Some("display") => display(),
        Some(other) => Err(format!("`{other}` is neither `sensor` nor `display`").into()),
        None => both(),
    }
}

/// Publishes a channel and writes to it, until everything has been read.
fn sensor() -> Result<(), Box<dyn Error>> {
    let options = ChannelOptions::new().slots(4).timeout(Duration::from_secs(60));
    let channel = options.shared::<Tensor>()?;
    let mut writer = channel.writer()?;
    let _published = channel.publish(NAME)?;
    println!(
        "published, {} bytes of shared memory",
        options.memory_plan()?.bytes
    );
    for frame in 0..FRAMES {
        let mut loan = writer.reserve::<f32>(&[3, 8, 8])?;
        loan.fill(frame as f32);
        loan.publish()?;
    }
    writer.close();
    Ok(writer.flush()?)
}

/// Finds the channel and reads until its end.
fn display() -> Result<(), Box<dyn Error>> {
    let channel = SharedChannel::<Tensor>::find(NAME, ChannelOptions::new())?;
    let mut reader = channel.reader(0)?;
    let (mut frames, mut sum) = (0_usize, 0.0);
    loop {
        match reader.view() {
            Ok(view) => sum += view.get()?.as_slice::<f32>()?.iter().sum::<f32>(),
            Err(ChannelError::Closed) => break,
            Err(error) => return Err(error.into()),
        }
        frames += 1;
    }
    println!("{frames} frames, mean {:.2}", sum / (frames * 3 * 8 * 8) as f32);
    Ok(())
}

fn both() -> Result<(), Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let mut sensor = Command::new(&program)
        .arg("sensor")
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = String::new();
    BufReader::new(sensor.stdout.take().ok_or("no output")?).read_line(&mut said)?;
    print!("{said}");
    let shown = Command::new(&program).arg("display").status()?;
    let sent = sensor.wait()?;
    if !shown.success() || !sent.success() {
        return Err("one of them has failed".into());
    }
    Ok(())
}
