//! Plans as JSON: writing and reading.

use crate::ir::Plan;

/// The error of a text that is not a plan.
#[derive(thiserror::Error)]
#[error("not a plan: {0}")]
pub struct BadPlan(serde_json::Error);

selvedge_channels::debug_is_report!(BadPlan);

impl From<serde_json::Error> for BadPlan {
    fn from(error: serde_json::Error) -> Self {
        BadPlan(error)
    }
}

impl Plan {
    /// Returns the whole plan as JSON, for [`from_json`](Self::from_json), `selvedge explain` and other programs.
    pub fn to_json(&self) -> String {
        // A plan contains only numbers, texts and lists, which JSON can always represent.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Reads a plan from its JSON. The plan is not checked; [`prove`](crate::prove::prove) checks it.
    ///
    /// # Errors
    /// [`BadPlan`] with the line and column of the error.
    // Code to read each type of a plan: it is compiled for programs that call this.
    #[inline]
    pub fn from_json(text: &str) -> Result<Plan, BadPlan> {
        Ok(serde_json::from_str(text)?)
    }
}
