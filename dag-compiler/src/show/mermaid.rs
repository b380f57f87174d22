//! Plans in Mermaid, which GitHub and many editors render in place.

use std::fmt::Write;

use crate::ir::{ChannelKind, Plan};

/// Quotes a text for Mermaid.
fn quoted(text: &str) -> String {
    let text = text.replace('#', "#35;").replace('"', "#quot;");
    format!("\"{}\"", text.replace('<', "#lt;").replace('\n', " "))
}

impl Plan {
    /// Returns the plan in Mermaid, drawn like [`to_dot`](Self::to_dot): a box per lane, a node per task, an edge per
    /// read. An edge is plain within a lane, thick within a process, and dotted between processes.
    pub fn to_mermaid(&self) -> String {
        let mut text = String::from("flowchart LR\n  input([input])\n");
        for lane in &self.lanes {
            let title = quoted(&format!(
                "lane {} in process {}",
                lane.address.lane.0, lane.address.process.0
            ));
            let _ = writeln!(text, "  subgraph lane{} [{title}]", lane.address.lane.0);
            for step in lane.steps.iter().filter(|step| step.kind.is_work()) {
                let label = self.ir.label(step.task);
                let _ = writeln!(text, "    t{}[{}]", step.task.0, quoted(label));
            }
            if lane.address.lane.0 == 0 {
                text.push_str("    output([output])\n");
            }
            text.push_str("  end\n");
        }
        for (from, way, to) in self.arrows() {
            let arrow = match way {
                ChannelKind::Local => "-->",
                ChannelKind::Ring => "==>",
                ChannelKind::Shared => "-.->",
            };
            let _ = writeln!(text, "  {from} {arrow} {to}");
        }
        text
    }
}
