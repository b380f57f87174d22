//! A plan as JSON, there and back.

use crate::ir::Plan;

/// Why a text is no plan.
#[derive(thiserror::Error)]
#[error("not a plan: {0}")]
pub struct BadPlan(#[from] serde_json::Error);

selvedge_channels::debug_is_report!(BadPlan);

impl Plan {
    /// The whole plan, for [`from_json`](Self::from_json), `selvedge explain` and other programs.
    pub fn to_json(&self) -> String {
        // A plan holds numbers, texts and lists: nothing that JSON cannot say.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// A plan from its JSON. It is only read: [`prove`](crate::prove::prove) says whether it is any good.
    ///
    /// # Errors
    /// [`BadPlan`] with the line and column that are wrong.
    pub fn from_json(text: &str) -> Result<Plan, BadPlan> {
        Ok(serde_json::from_str(text)?)
    }
}
