//! Options from the environment.

use std::time::Duration;

use super::Options;

const TEARDOWN: &str = "SELVEDGE_TEARDOWN_TIMEOUT_MS";

/// A source of variables.
struct Lookup<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Lookup<'_> {
    /// Returns the number in a variable; `None` if the variable is unset or empty, `off` if it says that.
    fn number(&self, name: &str, off: i64) -> Result<Option<i64>, String> {
        match (self.0)(name).as_deref().map(str::trim) {
            None | Some("") => Ok(None),
            Some("false" | "off") => Ok(Some(off)),
            Some(text) => match text.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(format!("{name} is `{text}`, which is not a number")),
            },
        }
    }

    fn size(&self, name: &str, default: usize) -> Result<usize, String> {
        let Some(value) = self.number(name, 0)? else {
            return Ok(default);
        };
        usize::try_from(value).map_err(|_| format!("{name} is {value}, which is negative"))
    }

    fn time(&self, name: &str, default: Option<Duration>) -> Result<Option<Duration>, String> {
        match self.number(name, -1)? {
            None => Ok(default),
            Some(-1) => Ok(None),
            Some(ms) => match u64::try_from(ms) {
                Ok(ms) => Ok(Some(Duration::from_millis(ms))),
                Err(_) => Err(format!(
                    "{name} is {ms}, which is no time: give milliseconds, or `off` for without end"
                )),
            },
        }
    }
}

impl Options {
    /// Returns the default options, overridden by the environment:
    ///
    /// | variable | option |
    /// |---|---|
    /// | `SELVEDGE_MAX_INFLIGHT`, `SELVEDGE_MAX_BUFFERED` | the option of the same name |
    /// | `SELVEDGE_BUFFER_BYTES`, `SELVEDGE_MAX_PAYLOAD_BYTES` | the option of the same name |
    /// | `SELVEDGE_TIMEOUT_MS`, `SELVEDGE_SUBMIT_TIMEOUT_MS` | the timeouts; `-1`, `off`, `false`: no limit; `0`: one poll |
    /// | `SELVEDGE_TEARDOWN_TIMEOUT_MS` | the option of the same name; a tear-down always has a limit |
    /// | `SELVEDGE_TRACE` | events per lane; `0`, `off` and `false` disable tracing |
    ///
    /// # Errors
    /// A text with the name and value of a variable that is not a number, or out of its range.
    pub fn from_env() -> Result<Self, String> {
        Options::from_lookup(|name| Some(std::env::var_os(name)?.to_string_lossy().into_owned()))
    }

    /// Returns the options of [`from_env`](Self::from_env), with variables from any source.
    ///
    /// # Errors
    /// The errors of [`from_env`](Self::from_env).
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let read = Lookup(&lookup);
        let base = Options::new();
        Ok(Options {
            max_inflight: read.size("SELVEDGE_MAX_INFLIGHT", base.max_inflight)?,
            max_buffered: read.size("SELVEDGE_MAX_BUFFERED", base.max_buffered)?,
            buffer_bytes: read.size("SELVEDGE_BUFFER_BYTES", base.buffer_bytes)?,
            max_payload_bytes: read.size("SELVEDGE_MAX_PAYLOAD_BYTES", base.max_payload_bytes)?,
            trace: read.size("SELVEDGE_TRACE", base.trace)?,
            timeout: read.time("SELVEDGE_TIMEOUT_MS", base.timeout)?,
            submit_timeout: read.time("SELVEDGE_SUBMIT_TIMEOUT_MS", base.submit_timeout)?,
            teardown_timeout: read.time(TEARDOWN, Some(base.teardown_timeout))?.ok_or_else(|| {
                format!("{TEARDOWN} is without end, and a tear-down has one: give milliseconds")
            })?,
            ..base
        })
    }
}
