//! Resources: what a call needs while it runs, and what a worker offers.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Numbers of cpus, gpus and things with a name. A call needs some while it runs, and a worker offers some.
///
/// ```
/// # use selvedge_core as selvedge;
/// use selvedge::Resources;
/// let offered = Resources::cpus(8).gpus(1).and("licence", 2);
/// assert!(offered.covers(&Resources::cpus(2).and("licence", 1)));
/// assert!(!offered.covers(&Resources::cpus(1).gpus(2)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Resources {
    cpus: u32,
    gpus: u32,
    named: BTreeMap<String, u32>,
}

impl Resources {
    /// Creates this number of cpus and nothing else.
    #[must_use]
    pub fn cpus(cpus: u32) -> Self {
        Resources {
            cpus,
            ..Resources::default()
        }
    }

    /// Sets the number of gpus.
    #[must_use]
    pub fn gpus(self, gpus: u32) -> Self {
        Resources { gpus, ..self }
    }

    /// Sets the number of things with this name. A number of 0 is none.
    #[must_use]
    pub fn and(mut self, name: &str, number: u32) -> Self {
        match number {
            0 => self.named.remove(name),
            number => self.named.insert(name.to_owned(), number),
        };
        self
    }

    /// Whether these are enough for what is needed.
    #[must_use]
    pub fn covers(&self, needs: &Resources) -> bool {
        let has = |(name, number): (&String, &u32)| self.named.get(name).is_some_and(|has| has >= number);
        self.cpus >= needs.cpus && self.gpus >= needs.gpus && needs.named.iter().all(has)
    }

    /// The number of cpus.
    pub(crate) fn cpu_count(&self) -> u32 {
        self.cpus
    }

    /// Sets the number of cpus.
    pub(crate) fn with_cpus(self, cpus: u32) -> Self {
        Resources { cpus, ..self }
    }

    /// Whether this is one cpu and nothing else.
    pub(crate) fn is_one_cpu(&self) -> bool {
        self.cpus == 1 && self.is_only_cpus()
    }

    /// Whether there is nothing but cpus.
    pub(crate) fn is_only_cpus(&self) -> bool {
        self.gpus == 0 && self.named.is_empty()
    }

    /// Whether others take something of this that a call keeps while it waits: gpus, or a thing with a name.
    pub(super) fn keeps_from(&self, others: &Resources) -> bool {
        let is_taken = |name: &String| others.named.contains_key(name);
        (self.gpus > 0 && others.gpus > 0) || self.named.keys().any(is_taken)
    }

    /// Adds others.
    pub(crate) fn add(&mut self, other: &Resources) {
        self.cpus = self.cpus.saturating_add(other.cpus);
        self.gpus = self.gpus.saturating_add(other.gpus);
        for (name, number) in &other.named {
            let sum = self.named.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*number);
        }
    }

    /// Takes others away; what there is not stays at 0.
    pub(crate) fn remove(&mut self, other: &Resources) {
        self.cpus = self.cpus.saturating_sub(other.cpus);
        self.gpus = self.gpus.saturating_sub(other.gpus);
        for (name, number) in &other.named {
            if let Some(left) = self.named.get_mut(name) {
                *left = left.saturating_sub(*number);
            }
        }
        self.named.retain(|_, number| *number > 0);
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cpus", self.cpus)?;
        if self.gpus > 0 {
            write!(f, ", {} gpus", self.gpus)?;
        }
        self.named
            .iter()
            .try_for_each(|(name, number)| write!(f, ", {number} `{name}`"))
    }
}
