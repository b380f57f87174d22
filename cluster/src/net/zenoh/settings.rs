//! The configuration of a session or a router, as zenoh has it.

use ::zenoh::Config;

use super::error::ZenohError;

/// Entries that sessions and routers have alike. Whoever is reached is named: nothing is found by multicast or gossip.
///
/// A queue to the network that is full drops a packet at once, since the thread that sends has other work, and the stream sends it
/// again. It holds the fragments of a whole stream.
const ENTRIES: [(&str, &str); 6] = [
    ("scouting/multicast/enabled", "false"),
    ("scouting/gossip/enabled", "false"),
    ("adminspace/enabled", "false"),
    ("transport/link/tx/queue/size/data", "16"),
    ("transport/link/tx/queue/size/interactive_high", "4"),
    (
        "transport/link/tx/queue/congestion_control/drop/wait_before_drop",
        "0",
    ),
];

/// Entries of a session: it knows its routers alone, and connects again soon when they are back.
const OF_SESSION: [(&str, &str); 4] = [
    ("mode", "\"client\""),
    // One try at each router; the caller tries again.
    ("connect/timeout_ms", "0"),
    ("connect/exit_on_failure", "true"),
    (
        "connect/retry",
        "{ period_init_ms: 100, period_max_ms: 500, period_increase_factor: 2 }",
    ),
];

/// Entries of a router.
const OF_ROUTER: [(&str, &str); 3] = [
    ("mode", "\"router\""),
    ("listen/timeout_ms", "0"),
    ("listen/exit_on_failure", "true"),
];

/// The routers of a cluster, its name, and other entries of zenoh's configuration.
///
/// ```
/// use selvedge_cluster::net::ZenohSettings;
///
/// let settings = ZenohSettings::routers(["tcp/10.0.0.1:7447"]).cluster("lab");
/// # let _ = settings;
/// ```
#[derive(Clone, Debug)]
pub struct ZenohSettings {
    routers: Vec<String>,
    cluster: String,
    entries: Vec<(String, String)>,
}

impl ZenohSettings {
    /// A session with the first of these routers that answers, each an endpoint of zenoh such as `tcp/10.0.0.1:7447`.
    pub fn routers<E: ToString>(endpoints: impl IntoIterator<Item = E>) -> Self {
        ZenohSettings {
            routers: endpoints
                .into_iter()
                .map(|endpoint| endpoint.to_string())
                .collect(),
            cluster: "default".to_owned(),
            entries: Vec::new(),
        }
    }

    /// The name of the cluster, of letters, digits, `-`, `_` and `.`: a router may serve several. All processes of a cluster give the
    /// same one; without it, it is `default`. The messages of a cluster have keys below `selvedge/NAME`, which rules of access may name.
    #[must_use]
    pub fn cluster(mut self, name: impl Into<String>) -> Self {
        self.cluster = name.into();
        self
    }

    /// Sets an entry of zenoh's configuration: its path, and its value in JSON5; see the file `DEFAULT_CONFIG.json5` of zenoh. Entries of
    /// features that this build of zenoh lacks (it has TCP alone) are of no effect.
    ///
    /// ```
    /// # use selvedge_cluster::net::ZenohSettings;
    /// let settings = ZenohSettings::routers(["tcp/10.0.0.1:7447"])
    ///     .entry("transport/link/tx/lease", "5000");
    /// # let _ = settings;
    /// ```
    #[must_use]
    pub fn entry(mut self, path: impl Into<String>, value: impl Into<String>) -> Self {
        self.entries.push((path.into(), value.into()));
        self
    }

    /// The key under which the nodes of the cluster are.
    ///
    /// # Errors
    /// [`ZenohError::Cluster`].
    pub(super) fn prefix(&self) -> Result<String, ZenohError> {
        let is_fine = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        match !self.cluster.is_empty() && self.cluster.chars().all(is_fine) {
            true => Ok(format!("selvedge/{}", self.cluster)),
            false => Err(ZenohError::Cluster {
                cluster: self.cluster.clone(),
            }),
        }
    }

    /// The names of the routers, for errors.
    pub(super) fn named(&self) -> String {
        self.routers.join(", ")
    }

    pub(super) fn config(&self) -> Result<Config, ZenohError> {
        if self.routers.is_empty() {
            return Err(ZenohError::NoRouter);
        }
        let config = config(&OF_SESSION, ("connect/endpoints", &self.routers), &self.entries)?;
        Ok(config)
    }
}

/// The configuration of a router that listens at these endpoints.
///
/// # Errors
/// Those of [`ZenohSettings::config`].
pub(super) fn of_router(endpoints: &[String], entries: &[(String, String)]) -> Result<Config, ZenohError> {
    config(&OF_ROUTER, ("listen/endpoints", endpoints), entries)
}

fn config(
    base: &[(&str, &str)],
    (path, endpoints): (&str, &[String]),
    entries: &[(String, String)],
) -> Result<Config, ZenohError> {
    let list = list(endpoints)?;
    let mut config = Config::default();
    let given = entries
        .iter()
        .map(|(path, value)| (path.as_str(), value.as_str()));
    let own = base.iter().chain(&ENTRIES).copied();
    for (path, value) in own.chain([(path, list.as_str())]).chain(given) {
        let inserted = config.insert_json5(path, value);
        inserted.map_err(|error| ZenohError::Entry {
            key: path.to_owned(),
            text: error.to_string(),
        })?;
    }
    Ok(config)
}

/// A list of endpoints in JSON.
fn list(endpoints: &[String]) -> Result<String, ZenohError> {
    let is_fine = |letter: char| letter.is_ascii_graphic() && !"\"\\".contains(letter);
    for endpoint in endpoints {
        if !endpoint.contains('/') || !endpoint.chars().all(is_fine) {
            let endpoint = endpoint.clone();
            return Err(ZenohError::Endpoint { endpoint });
        }
    }
    let quoted: Vec<_> = endpoints
        .iter()
        .map(|endpoint| format!("\"{endpoint}\""))
        .collect();
    Ok(format!("[{}]", quoted.join(", ")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use super::*;

    #[test]
    fn settings_that_zenoh_cannot_have_are_refused_by_name() {
        let of = |settings: ZenohSettings| settings.config().err();
        assert_eq!(of(ZenohSettings::routers([""; 0])), Some(ZenohError::NoRouter));
        for wrong in ["10.0.0.1:7447", "tcp/\"", "tcp/a b:1", ""] {
            let endpoint = wrong.to_owned();
            assert_eq!(
                of(ZenohSettings::routers([wrong])),
                Some(ZenohError::Endpoint { endpoint })
            );
        }
        let entry = ZenohSettings::routers(["tcp/127.0.0.1:1"]).entry("no/such/entry", "1");
        assert!(matches!(of(entry), Some(ZenohError::Entry { key, .. }) if key == "no/such/entry"));
        for wrong in ["", "a/b", "*", "a b"] {
            let settings = ZenohSettings::routers(["tcp/127.0.0.1:1"]).cluster(wrong);
            assert!(matches!(settings.prefix(), Err(ZenohError::Cluster { .. })));
        }
    }

    #[test]
    fn nobody_is_looked_for_and_a_full_queue_drops_at_once() {
        let session = ZenohSettings::routers(["tcp/127.0.0.1:1"]).config();
        let router = of_router(&["tcp/127.0.0.1:1".to_owned()], &[]);
        for config in [session, router] {
            let config = config.unwrap();
            for (path, value) in ENTRIES {
                assert_eq!(config.get_json(path).unwrap(), value, "{path}");
            }
        }
    }
}
