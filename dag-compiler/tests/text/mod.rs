//! Graphs without actors: a small text form, and a generator from numbers.
//!
//! ```text
//! actor a on 1            # lane 1 of the driver's process
//! actor b on 2@1          # lane 2 of process 1
//! actor c on 3 commutes   # in any order
//! input x y
//! u = a.f(x, #)           # `#` is a constant
//! v = b.g(!u)             # `!` asks for a rendezvous
//! w = b.sum[0](v)         # a rank of collective 0
//! p q = b.pair(u)         # the parts of a tuple
//! return p, q, y
//! ```
//! Line n of the text is line n of the file `graph.txt` in diagnostics.
#![allow(dead_code, unreachable_pub)] // each test file uses only a part

use std::collections::BTreeMap;
use std::fmt::Write;

use selvedge_channels::Waiting;
use selvedge_compiler::SourceLocation;
use selvedge_compiler::ir::{
    ActorIr, ArgIr, BindIndex, BufferIr, CollectiveId, GraphIr, Lanes, OpKind, Operation, Origin, Plan,
    Settings, TaskId, TaskIr, TensorsIr, ValueId, ValueIr,
};
use selvedge_core::{ActorId, Address, LaneId, ProcessId};

pub fn at(line: usize) -> SourceLocation {
    SourceLocation {
        file: "graph.txt".into(),
        line: line as u32,
        column: 1,
    }
}

pub fn settings(slots: u32) -> Settings {
    Settings {
        max_inflight: slots,
        slots,
        auto_slots: false,
        slot_bytes: 1000,
        max_bytes: 1 << 20,
        waiting: Waiting::Park,
        trace_events: 0,
        overlap: true,
        lanes: Lanes::Spawned,
        cores: 4,
        communicator: None,
    }
}

/// A graph under construction.
#[derive(Default)]
pub struct Sketch {
    pub graph: GraphIr,
    binds: BTreeMap<ActorId, BindIndex>,
    labels: BTreeMap<String, u32>,
}

impl Sketch {
    pub fn new() -> Self {
        let mut sketch = Sketch::default();
        sketch.graph.name = "test".into();
        sketch.graph.compiled_at = at(1);
        sketch
    }

    pub fn actor(&mut self, name: &str, lane: u32, process: u32) -> ActorId {
        let id = ActorId(self.graph.actors.len() as u32);
        let placement = match (lane, process) {
            (0, _) => "inline".to_owned(),
            (_, 0) => "thread".to_owned(),
            (_, process) => format!("process {}", 4000 + process),
        };
        self.graph.actors.push(ActorIr {
            id,
            name: name.into(),
            type_name: "Test".into(),
            lane: LaneId(lane),
            home: Address::of(ProcessId(process + 1), LaneId(lane)),
            placement,
            device: None,
            core: None,
            concurrency: 1,
            pinned: false,
            commutes: false,
        });
        id
    }

    pub fn value(&mut self, origin: Origin, part: Option<u16>) -> ValueId {
        let id = ValueId(self.graph.values.len() as u32);
        self.graph.values.push(ValueIr {
            origin,
            part,
            type_name: "i64".into(),
            signal: false,
            traits: Default::default(),
            tensors: TensorsIr::default(),
            buffer: BufferIr::default(),
        });
        id
    }

    pub fn input(&mut self) -> ValueId {
        let value = self.value(Origin::Input(self.graph.inputs.len() as u32), None);
        self.graph.inputs.push(value);
        value
    }

    pub fn task(&mut self, actor: ActorId, method: &str, args: &[Option<ValueId>], line: usize) -> ValueId {
        let id = TaskId(self.graph.tasks.len() as u32);
        let bind_index = *self
            .binds
            .entry(actor)
            .and_modify(|binds| binds.0 += 1)
            .or_default();
        let name = self.graph.actors[actor.0 as usize].name.clone();
        let label = format!("{name}.{method}");
        let count = *self
            .labels
            .entry(label.clone())
            .and_modify(|count| *count += 1)
            .or_insert(1);
        let label = if count > 1 {
            format!("{label}#{count}")
        } else {
            label
        };
        let args = args
            .iter()
            .map(|arg| arg.map_or(ArgIr::Constant(vec![7]), ArgIr::Value))
            .collect();
        let method_name = method.to_owned().into();
        self.graph.tasks.push(TaskIr {
            actor,
            method: 0,
            extension: None,
            method_name,
            label,
            args,
            groups: Vec::new(),
            meets: Vec::new(),
            collective: None,
            duration_ns: None,
            bound_at: at(line),
            bind_index,
        });
        self.value(Origin::Task(id), None)
    }

    /// Returns the graph; every unused value becomes an output.
    pub fn finish(mut self) -> GraphIr {
        let mut used = vec![false; self.graph.values.len()];
        let reads = self
            .graph
            .tasks
            .iter()
            .flat_map(|task| GraphIr::reads(task).map(|(_, value)| value));
        reads.for_each(|value| used[value.0 as usize] = true);
        let unused = used
            .iter()
            .enumerate()
            .filter(|(_, used)| !**used)
            .map(|(index, _)| ValueId(index as u32));
        self.graph.outputs.extend(unused);
        self.graph
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', ',']).filter(|word| !word.is_empty())
}

/// Reads the text form.
pub fn graph(text: &str) -> GraphIr {
    let mut sketch = Sketch::new();
    let mut actors: BTreeMap<String, ActorId> = BTreeMap::new();
    let mut values: BTreeMap<String, ValueId> = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split(" # ").next().unwrap().trim();
        match words(line).next() {
            None => {}
            Some("actor") => {
                let parts: Vec<&str> = words(line).collect();
                let (lane, process) = parts[3].split_once('@').unwrap_or((parts[3], "0"));
                let id = sketch.actor(parts[1], lane.parse().unwrap(), process.parse().unwrap());
                sketch.graph.actors[id.0 as usize].commutes = parts.get(4) == Some(&"commutes");
                actors.insert(parts[1].into(), id);
            }
            Some("input") => words(line).skip(1).for_each(|name| {
                values.insert(name.into(), sketch.input());
            }),
            Some("return") => {
                let outputs: Vec<ValueId> = words(line).skip(1).map(|name| values[name]).collect();
                sketch.graph.outputs.extend(outputs);
            }
            Some(_) => {
                let (names, call) = line.split_once(" = ").unwrap();
                let (callee, args) = call.trim_end_matches(')').split_once('(').unwrap();
                let (actor, method) = callee.trim().split_once('.').unwrap();
                let (method, rank) = method.split_once('[').map_or((method, None), |(method, rank)| {
                    (method, Some(rank.trim_end_matches(']')))
                });
                let found: Vec<Option<ValueId>> = words(args)
                    .map(|arg| (arg != "#").then(|| values[arg.trim_start_matches('!')]))
                    .collect();
                let whole = sketch.task(actors[actor], method, &found, index + 1);
                let task = sketch.graph.tasks.last_mut().unwrap();
                let met = words(args).enumerate().filter(|(_, arg)| arg.starts_with('!'));
                task.meets = met.map(|(position, _)| position as u32).collect();
                task.collective = rank.map(|rank| CollectiveId(rank.parse().unwrap()));
                let names: Vec<&str> = words(names).collect();
                if let [name] = names.as_slice() {
                    values.insert((*name).into(), whole);
                    continue;
                }
                let origin = sketch.graph.values[whole.0 as usize].origin;
                for (part, name) in names.into_iter().enumerate() {
                    values.insert(name.into(), sketch.value(origin, Some(part as u16)));
                }
            }
        }
    }
    sketch.graph
}

/// The description of a random graph: actors by lane and process, and tasks as actor and arguments; indices wrap
/// around.
pub type Numbers = (Vec<(u32, u32)>, Vec<(usize, Vec<usize>)>);

pub fn from_numbers((actors, tasks): &Numbers) -> GraphIr {
    let mut sketch = Sketch::new();
    let ids: Vec<ActorId> = actors
        .iter()
        .enumerate()
        // A lane lives in one process: lanes 0 to 2 in the driver's, and the others two to a process.
        .map(|(index, (lane, _))| sketch.actor(&format!("a{index}"), *lane, (lane.saturating_sub(1)) / 2))
        .collect();
    let mut values = vec![sketch.input()];
    for (index, (actor, args)) in tasks.iter().enumerate() {
        let args: Vec<_> = args.iter().map(|arg| Some(values[arg % values.len()])).collect();
        values.push(sketch.task(ids[actor % ids.len()], "f", &args, index + 1));
    }
    sketch.finish()
}

/// A lane's operations as text, READs without their argument number: `R C W`.
pub fn lane(plan: &Plan, lane: u32) -> String {
    let program = plan
        .lanes
        .iter()
        .find(|program| program.address.lane == LaneId(lane))
        .unwrap();
    let mut text = String::new();
    for Operation { task, kind } in &program.steps {
        let letter = match kind {
            OpKind::Read { .. } => "R",
            OpKind::Compute => "C",
            OpKind::Collective => "X",
            OpKind::Write => "W",
        };
        let _ = write!(text, "{letter}({}) ", plan.ir.tasks[task.0 as usize].label);
    }
    text.trim_end().to_owned()
}

/// Compares `found` with a file under `tests/golden`; `BLESS=1` writes the file instead.
pub fn golden(name: &str, found: &str) {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("BLESS").is_some() {
        return std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        expected, found,
        "{name} differs; look at it, then run again with BLESS=1"
    );
}
