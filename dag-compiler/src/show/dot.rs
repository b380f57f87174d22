//! Plans and operation graphs in DOT, for `dot -Tsvg`, and plans in Mermaid, which GitHub and many editors render in place.

use std::fmt::Write;

use crate::ir::{ChannelKind, EdgeKind, GraphIr, Operation, OperationGraph, Plan, TaskIr, ValueId};
use selvedge_core::IdMap;

/// Quotes a string for DOT.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

impl Plan {
    /// Returns the plan in DOT: a box per lane, a node per task, an edge per read. An edge is solid within a lane, bold
    /// within a process, and dashed between processes.
    pub fn to_dot(&self) -> String {
        let mut dot = format!(
            "digraph {} {{\n  rankdir=LR;\n  input [shape=box];\n",
            quoted(&self.graph)
        );
        for lane in &self.lanes {
            let title = format!(
                "lane {} in process {}",
                lane.address.lane.0, lane.address.process.0
            );
            let _ = writeln!(
                dot,
                "  subgraph cluster_{} {{\n    label={};",
                lane.address.lane.0,
                quoted(&title)
            );
            for step in lane.steps.iter().filter(|step| step.kind.is_work()) {
                let label = self.ir.label(step.task);
                let _ = writeln!(dot, "    t{} [label={}];", step.task.0, quoted(label));
            }
            if lane.address.lane.0 == 0 {
                dot.push_str("    output [shape=box];\n");
            }
            dot.push_str("  }\n");
        }
        for (from, way, to) in self.arrows() {
            let style = match way {
                ChannelKind::Local => "solid",
                ChannelKind::Ring => "bold",
                ChannelKind::Shared => "dashed",
                ChannelKind::Mirror => "dotted",
            };
            let _ = writeln!(dot, "  {from} -> {to} [style={style}];");
        }
        dot.push_str("}\n");
        dot
    }

    /// Returns one arrow per read, lane by lane: the node that makes the value, the kind of channel, and the node that
    /// reads the value.
    pub(super) fn arrows(&self) -> Vec<(String, ChannelKind, String)> {
        let mut ways = IdMap::new();
        for channel in &self.channels {
            ways.extend(
                channel
                    .readers
                    .iter()
                    .map(|reader| ((reader.lane.0, channel.value), channel.kind)),
            );
        }
        let mut arrows = Vec::new();
        for lane in &self.lanes {
            let mut arrow = |value: ValueId, to: String| {
                let way = ways.get(&(lane.address.lane.0, value)).copied();
                arrows.push((self.maker(value), way.unwrap_or(ChannelKind::Local), to));
            };
            for step in lane.steps.iter().filter(|step| step.kind.is_work()) {
                for (_, value) in self.ir.task(step.task).into_iter().flat_map(GraphIr::reads) {
                    arrow(value, format!("t{}", step.task.0));
                }
            }
            if lane.address.lane.0 == 0 {
                let outputs = self.ir.outputs.iter();
                outputs.for_each(|value| arrow(*value, "output".to_owned()));
            }
        }
        arrows
    }

    /// Returns the name of the node that makes a value.
    fn maker(&self, value: ValueId) -> String {
        let maker = self.ir.maker(value);
        maker.map_or_else(|| "input".to_owned(), |task| format!("t{}", task.0))
    }
}

impl OperationGraph {
    /// Returns the operations in DOT: `[index] task operation original,moved`, a box per actor. Program edges are
    /// solid, control edges dotted, data edges dashed, rendezvous edges bold. The two numbers are the operation's
    /// positions on its lane of `plan`: in the global order, and after overlap has moved operations that may be posted
    /// early.
    pub fn to_dot(&self, plan: &Plan) -> String {
        let graph = &plan.ir;
        let mut places: IdMap<Operation, (u32, u32)> = IdMap::new();
        for lane in &plan.lanes {
            let places_of = lane.original.iter().copied().zip(0..);
            places.extend(lane.steps.iter().copied().zip(places_of));
        }
        let mut dot = String::from("digraph operations {\n  rankdir=LR;\n");
        let mut boxes: IdMap<u32, String> = IdMap::new();
        for (index, operation) in self.operations.iter().enumerate() {
            let task: Option<&TaskIr> = graph.task(operation.task);
            let mut label = format!("[{index}] {} {}", graph.label(operation.task), operation.kind);
            if let Some((original, moved)) = places.get(operation) {
                let _ = write!(label, " {original},{moved}");
            }
            let actor = task.map_or(u32::MAX, |task| task.actor.0);
            let nodes: &mut String = boxes.or_default(actor);
            let _ = writeln!(nodes, "    o{index} [label={}];", quoted(&label));
        }
        let names: IdMap<u32, &str> = graph
            .actors
            .iter()
            .map(|it| (it.id.0, it.name.as_str()))
            .collect();
        for (actor, nodes) in boxes {
            let name = quoted(names.get(&actor).copied().unwrap_or("?"));
            let _ = write!(
                dot,
                "  subgraph cluster_{actor} {{\n    label={name};\n{nodes}  }}\n"
            );
        }
        for edge in &self.edges {
            let style = match edge.kind {
                EdgeKind::Program => "solid",
                EdgeKind::Control => "dotted",
                EdgeKind::Data => "dashed",
                EdgeKind::Rendezvous => "bold",
            };
            let _ = writeln!(dot, "  o{} -> o{} [style={style}];", edge.from, edge.to);
        }
        dot.push_str("}\n");
        dot
    }
}

/// Quotes a text for Mermaid.
fn quoted_for_mermaid(text: &str) -> String {
    let text = text.replace('#', "#35;").replace('"', "#quot;");
    format!("\"{}\"", text.replace('<', "#lt;").replace('\n', " "))
}

impl Plan {
    /// Returns the plan in Mermaid, drawn like [`to_dot`](Self::to_dot): a box per lane, a node per task, an edge per
    /// read. An edge is plain within a lane, thick within a process, and dotted between processes.
    pub fn to_mermaid(&self) -> String {
        let mut text = String::from("flowchart LR\n  input([input])\n");
        for lane in &self.lanes {
            let title = quoted_for_mermaid(&format!(
                "lane {} in process {}",
                lane.address.lane.0, lane.address.process.0
            ));
            let _ = writeln!(text, "  subgraph lane{} [{title}]", lane.address.lane.0);
            for step in lane.steps.iter().filter(|step| step.kind.is_work()) {
                let label = self.ir.label(step.task);
                let _ = writeln!(text, "    t{}[{}]", step.task.0, quoted_for_mermaid(label));
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
                ChannelKind::Shared | ChannelKind::Mirror => "-.->",
            };
            let _ = writeln!(text, "  {from} {arrow} {to}");
        }
        text
    }
}
