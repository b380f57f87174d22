//! The round-trip time of a tensor between the streams of two processes, by events and by values:
//!
//! `cargo run --release -p selvedge-channels --features cuda --example device_ping_pong [ROUNDS [BYTES_MAX]]`
//!
//! A round fills a tensor on the device and sends it; the other process sends four bytes of it back, and the host
//! checks them. Only the first and the last step make a host wait for a device. The table also gives the time of the
//! same fill alone. Over the simulated driver the times mean nothing.

#[cfg(feature = "cuda")]
mod ping_pong {
    use std::error::Error;
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    use selvedge_channels::device::{
        DeviceChannelError, DeviceChannelOptions, DeviceDescriptor, DeviceMemory, Gpu, SharedDeviceChannel,
        Signals, Stream, TensorLayout,
    };
    use selvedge_channels::{ChannelError, DType, End};

    type Result<T> = std::result::Result<T, Box<dyn Error>>;

    const PATIENCE: Duration = Duration::from_secs(20);
    /// The number of bytes of the tensor that comes back.
    const ECHO: usize = 4;

    /// The child process, killed on drop, so that it does not outlive a parent that fails.
    struct Other(Child);

    impl Drop for Other {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn options(bytes: usize, signals: Signals) -> DeviceChannelOptions {
        DeviceChannelOptions::new(bytes)
            .slots(2)
            .static_shape(true)
            .signals(signals)
            .timeout(PATIENCE)
    }

    fn layout(bytes: usize) -> Result<[TensorLayout; 1]> {
        Ok([TensorLayout::new(DType::U8, [bytes])?])
    }

    /// The child: sends four bytes of each message back, by the device alone.
    pub(super) fn echo(there: &str, back: &str) -> Result<()> {
        let gpu = Gpu::open(0)?;
        let open = |descriptor: &str| -> Result<SharedDeviceChannel> {
            let descriptor: DeviceDescriptor = descriptor.parse()?;
            Ok(SharedDeviceChannel::open(
                &gpu,
                &descriptor,
                &options(0, Signals::Events),
            )?)
        };
        let (there, back) = (open(there)?, open(back)?);
        let (mut reader, mut writer) = (there.reader(0)?, back.writer()?);
        let stream = Stream::compute(&gpu)?;
        let echo = layout(ECHO)?;
        loop {
            let view = match reader.recv(&stream) {
                Ok(view) => view.map_err(|fault| fault.to_string())?,
                Err(DeviceChannelError::Channel(ChannelError::Closed)) => break,
                Err(error) => return Err(error.into()),
            };
            let mut loan = writer.reserve(&stream, &echo)?;
            stream.copy(loan.span(0)?, view.span(0)?.part(0, ECHO)?)?;
            loan.publish()?;
        }
        stream.wait(PATIENCE)?;
        Ok(())
    }

    /// Sorted times, for medians and 99th percentiles in microseconds.
    struct Times(Vec<Duration>);

    impl Times {
        fn at(&self, percent: usize) -> f64 {
            let rank = (self.0.len() * percent).div_ceil(100).saturating_sub(1);
            self.0.get(rank).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
        }

        fn of(rounds: usize, mut round: impl FnMut(u8) -> Result<()>) -> Result<Times> {
            // Warm-up rounds create contexts, mappings and the first message's layout.
            (0..3).try_for_each(&mut round)?;
            let mut times = Vec::with_capacity(rounds);
            for number in 0..rounds {
                let begin = Instant::now();
                round(number as u8)?;
                times.push(begin.elapsed());
            }
            times.sort_unstable();
            Ok(Times(times))
        }
    }

    /// Times the same fill without a second process.
    fn alone(gpu: &Gpu, stream: &Stream, bytes: usize, rounds: usize) -> Result<Times> {
        let mut memory = DeviceMemory::new(gpu, bytes)?;
        Times::of(rounds, |number| {
            stream.fill(memory.span_mut(0, bytes)?, number)?;
            Ok(stream.wait(PATIENCE)?)
        })
    }

    fn there_and_back(
        gpu: &Gpu,
        stream: &Stream,
        bytes: usize,
        signals: Signals,
        rounds: usize,
    ) -> Result<Times> {
        let there = options(bytes, signals).shared(gpu)?;
        let back = options(ECHO, signals).shared(gpu)?;
        let (mut writer, mut reader) = (there.writer()?, back.reader(0)?);
        let mut child = Command::new(std::env::current_exe()?)
            .args([
                "echo".to_owned(),
                there.descriptor().to_string(),
                back.descriptor().to_string(),
            ])
            .spawn()
            .map(Other)?;
        there.expect(End::Reader(0), child.0.id())?;
        back.expect(End::Writer, child.0.id())?;
        let layouts = layout(bytes)?;
        let times = Times::of(rounds, |number| {
            let mut loan = writer.reserve(stream, &layouts)?;
            loan.fill(0, number)?;
            loan.publish()?;
            let mut view = reader.recv(stream)?.map_err(|fault| fault.to_string())?;
            let found = view.download(0, PATIENCE)?;
            if found.bytes() != [number; ECHO] {
                return Err(format!("{:?} came back of {number}", found.bytes()).into());
            }
            Ok(())
        })?;
        drop(writer);
        if !child.0.wait()?.success() {
            return Err("the other process failed".into());
        }
        Ok(times)
    }

    pub(super) fn measure(rounds: usize, bytes_max: usize) -> Result<()> {
        let gpu = Gpu::open(0)?;
        let stream = Stream::compute(&gpu)?;
        println!("there and back between two processes on {gpu:?}, in microseconds");
        println!("| bytes | rounds | fill alone p50 | events p50 | p99 | values p50 | p99 |");
        println!("|--:|--:|--:|--:|--:|--:|--:|");
        let sizes = (12..=28).step_by(2).map(|power| 1_usize << power);
        for bytes in sizes.take_while(|bytes| *bytes <= bytes_max) {
            let rounds = if bytes > 1 << 24 {
                rounds.div_ceil(10)
            } else {
                rounds
            };
            let alone = alone(&gpu, &stream, bytes, rounds)?;
            let events = there_and_back(&gpu, &stream, bytes, Signals::Events, rounds)?;
            let values = there_and_back(&gpu, &stream, bytes, Signals::Values, rounds)?;
            println!(
                "| {bytes} | {rounds} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
                alone.at(50),
                events.at(50),
                events.at(99),
                values.at(50),
                values.at(99)
            );
        }
        Ok(())
    }
}

#[cfg(feature = "cuda")]
fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let number = |text: Option<&&str>, default: usize| text.map_or(Ok(default), |text| text.parse());
    let done = match words.as_slice() {
        ["echo", there, back] => ping_pong::echo(there, back),
        words => match (number(words.first(), 1000), number(words.get(1), 1 << 28)) {
            (Ok(rounds), Ok(bytes_max)) => ping_pong::measure(rounds.max(1), bytes_max),
            _ => Err("usage: device_ping_pong [ROUNDS [BYTES_MAX]]".into()),
        },
    };
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(not(feature = "cuda"))]
fn main() {
    println!("build with `--features cuda`");
}
