//! The error of a method in another process comes back as itself: serde is all that it needs.
use selvedge::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Overdrawn {
    by: u64,
}

impl std::fmt::Display for Overdrawn {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "overdrawn: {self:?}")
    }
}
impl std::error::Error for Overdrawn {}

struct Account(u64);

#[actor]
impl Account {
    pub fn new(cents: u64) -> Self {
        Account(cents)
    }
    pub fn withdraw(&mut self, cents: u64) -> Result<u64, Overdrawn> {
        let by = cents.saturating_sub(self.0);
        self.0 = self.0.checked_sub(cents).ok_or(Overdrawn { by })?;
        Ok(self.0)
    }
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let account = runtime.spawn::<Account>("account", (100,)).in_process()?;
    let graph = runtime.compile(|cents: Edge<u64>| account.withdraw(&cents))?;
    let error = graph.run(130).unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&Overdrawn { by: 30 }));
    assert_eq!(graph.run(30)?, 70, "the graph goes on");
    Ok(())
}
