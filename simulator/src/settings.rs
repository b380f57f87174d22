//! The settings from the environment. They are read once, at the first call.

use std::collections::HashMap;
use std::env;
use std::path::PathBuf;
use std::sync::LazyLock;

use parking_lot::Mutex;

/// The default number of bytes of a device's memory.
const MEMORY_BYTES: u64 = 8 << 30;

/// The settings of this process.
pub(crate) struct Settings {
    /// The number of devices.
    pub(crate) devices: u32,
    /// The bytes of memory of each device.
    pub(crate) memory_bytes: u64,
    /// Whether memory can be exported as descriptors.
    pub(crate) descriptors: bool,
    /// The seed of random delays: if set, stream threads sleep a random time before each operation.
    pub(crate) seed: Option<u64>,
    /// The file to which violations are written.
    pub(crate) report: Option<PathBuf>,
    /// The file to which every executed operation is written.
    pub(crate) timeline: Option<PathBuf>,
    /// The code that NCCL returns as soon as the process of another rank begins to end.
    pub(crate) lost: Option<u32>,
    failures: Vec<Failure>,
    calls: Mutex<HashMap<&'static str, u64>>,
}

/// A call that is to fail.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    symbol: String,
    nth: u64,
    code: u32,
}

static SETTINGS: LazyLock<Settings> = LazyLock::new(Settings::read);

/// The settings of this process.
pub(crate) fn get() -> &'static Settings {
    &SETTINGS
}

impl Settings {
    fn read() -> Self {
        let number = |name| {
            env::var(name)
                .ok()
                .and_then(|value| value.trim().parse::<u64>().ok())
        };
        let path = |name| {
            env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        Settings {
            devices: number("SELVEDGE_SIM_DEVICES")
                .map_or(1, |count| u32::try_from(count).unwrap_or(u32::MAX).min(64)),
            memory_bytes: number("SELVEDGE_SIM_MEMORY").unwrap_or(MEMORY_BYTES),
            descriptors: number("SELVEDGE_SIM_DESCRIPTORS") != Some(0),
            seed: number("SELVEDGE_SIM_SEED"),
            report: path("SELVEDGE_SIM_REPORT"),
            timeline: path("SELVEDGE_SIM_TIMELINE"),
            lost: number("SELVEDGE_SIM_LOST").and_then(|code| u32::try_from(code).ok()),
            failures: failures(&env::var("SELVEDGE_SIM_FAIL").unwrap_or_default()),
            calls: Mutex::new(HashMap::new()),
        }
    }

    /// Counts a call of this function; returns the code that it must return at once, if a failure is due.
    pub(crate) fn failure(&self, symbol: &'static str) -> Option<u32> {
        if self.failures.is_empty() {
            return None;
        }
        let mut calls = self.calls.lock();
        let count = calls.entry(symbol).or_default();
        *count += 1;
        self.failures
            .iter()
            .find(|failure| failure.symbol == symbol && failure.nth == *count)
            .map(|failure| failure.code)
    }
}

/// Parses `symbol:nth:code`, separated by commas. Parts of another form are ignored.
fn failures(text: &str) -> Vec<Failure> {
    let one = |part: &str| {
        let mut fields = part.trim().split(':');
        let symbol = fields.next()?.to_owned();
        let nth = fields.next()?.parse().ok()?;
        let code = fields.next()?.parse().ok()?;
        Some(Failure { symbol, nth, code })
    };
    text.split(',').filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_call_fails_and_no_other() {
        let found = failures("cuMemAlloc_v2:2:2, cuInit:1:100,nonsense,x:y:z");
        assert_eq!(found.len(), 2);
        let settings = Settings {
            failures: found,
            ..Settings::read()
        };
        let told: Vec<_> = (0..3).map(|_| settings.failure("cuMemAlloc_v2")).collect();
        assert_eq!(told, [None, Some(2), None]);
        assert_eq!(settings.failure("cuInit"), Some(100));
        assert_eq!(settings.failure("cuDeviceGet"), None);
    }
}
