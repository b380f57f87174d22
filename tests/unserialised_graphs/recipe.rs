//! Random graphs as plain data: how they are made, which of them `compile` must refuse, and what they compute.

use std::collections::BTreeSet;

use super::worker::Fate;

/// A generator of random numbers (SplitMix64, Steele, Lea and Flood 2014).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % n as u64) as usize
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Number,
    Mail,
    Handle,
    Job,
    Tally,
    Shared,
    Both,
    Mixed,
}

/// The kinds for which the worker has every kind of task.
const PLAIN: [Kind; 5] = [Kind::Mail, Kind::Handle, Kind::Job, Kind::Tally, Kind::Shared];

impl Kind {
    fn is_clone(self) -> bool {
        !matches!(self, Kind::Handle | Kind::Job | Kind::Both)
    }

    /// Whether readers on several lanes may share a value.
    fn is_shared(self) -> bool {
        matches!(self, Kind::Number | Kind::Mail | Kind::Shared)
    }

    fn is_wire(self) -> bool {
        self == Kind::Number
    }
}

/// Where an actor lives: its lane, 0 for the driver's, and whether the lane is in another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    lane: usize,
    far: bool,
}

const DRIVER: Place = Place { lane: 0, far: false };

/// The places of the actors, in the order in which the test spawns them.
pub const PLACES: [Place; 7] = [
    DRIVER,
    DRIVER,
    Place { lane: 1, far: false },
    Place { lane: 2, far: false },
    Place { lane: 3, far: false },
    Place { lane: 3, far: false },
    Place { lane: 4, far: true },
];

impl Place {
    /// Whether tasks at this place may wait at the gate, which is a word of this process; a task that is inline would
    /// keep the driver from opening it.
    fn may_hold(self) -> bool {
        self != DRIVER && !self.far
    }
}

/// The inputs and outputs of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One input of each of five kinds; every value that nobody reads is an output.
    Wide,
    /// A number in, a number out.
    Narrow,
    /// A closure in, a closure out.
    Closure,
    /// A number in; a number, a closure and a handle out, each with a handle of its own.
    Parts,
}

pub type ValueIx = usize;

#[derive(Clone, Copy, Debug)]
pub enum Origin {
    Input,
    Task,
    Part(ValueIx, u64),
}

#[derive(Debug)]
pub struct ValueSpec {
    pub kind: Kind,
    pub origin: Origin,
    made_at: Place,
    readers: Vec<Place>,
}

#[derive(Clone, Copy, Debug)]
pub enum Arg {
    Value(ValueIx),
    Constant(Kind, u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Mix,
    /// A list of numbers.
    Sum,
    Fold,
    Both,
    Mixed,
    TakeBoth,
    ViewMixed,
    Make(Kind),
    Pass(Kind),
    View(Kind),
    Take(Kind),
    Later(Kind),
    All(Kind),
    See(Kind),
}

#[derive(Debug)]
pub struct TaskSpec {
    pub op: Op,
    pub actor: usize,
    pub args: Vec<Arg>,
    pub after: Option<ValueIx>,
    pub fate: Fate,
    pub result: ValueIx,
    /// Whether the result, a tuple, is split.
    pub split: bool,
}

#[derive(Debug)]
pub struct Recipe {
    pub shape: Shape,
    pub values: Vec<ValueSpec>,
    pub tasks: Vec<TaskSpec>,
    pub outputs: Vec<ValueIx>,
    /// The codes of the mistakes that `compile` must find.
    pub mistakes: BTreeSet<&'static str>,
    actors: Vec<usize>,
    reckless: bool,
    holds: bool,
    fails: bool,
}

/// The mistake in the use of a value, if there is one.
fn mistake(kind: Kind, made_at: Place, readers: &[Place], copies: usize) -> Option<&'static str> {
    let lanes: BTreeSet<_> = readers.iter().collect();
    if !kind.is_wire() && readers.iter().any(|reader| reader.far != made_at.far) {
        return Some("D0120");
    }
    if readers.len() + copies > 1 && !kind.is_clone() || lanes.len() > 1 && !kind.is_shared() {
        return Some("D0121");
    }
    None
}

impl Recipe {
    pub fn random(random: &mut Random) -> Self {
        let shapes = [
            Shape::Wide,
            Shape::Wide,
            Shape::Narrow,
            Shape::Closure,
            Shape::Parts,
        ];
        let far = random.once_in(10);
        let actors = (0..=random.below(4))
            .map(|_| random.below(if far { 7 } else { 6 }))
            .collect();
        let mut recipe = Recipe {
            shape: shapes[random.below(shapes.len())],
            values: Vec::new(),
            tasks: Vec::new(),
            outputs: Vec::new(),
            mistakes: BTreeSet::new(),
            actors,
            reckless: random.once_in(8),
            holds: random.once_in(3),
            fails: random.once_in(3),
        };
        let inputs: &[Kind] = match recipe.shape {
            Shape::Wide => &[Kind::Number, Kind::Mail, Kind::Handle, Kind::Job, Kind::Tally],
            Shape::Closure => &[Kind::Job],
            Shape::Narrow | Shape::Parts => &[Kind::Number],
        };
        for kind in inputs {
            recipe.value(*kind, Origin::Input, DRIVER);
        }
        if recipe.shape == Shape::Closure {
            recipe.consume(random, 0);
        }
        for _ in 0..=random.below(10) {
            recipe.add(random);
        }
        recipe.finish(random);
        recipe.judge();
        recipe
    }

    fn value(&mut self, kind: Kind, origin: Origin, made_at: Place) -> ValueIx {
        self.values.push(ValueSpec {
            kind,
            origin,
            made_at,
            readers: Vec::new(),
        });
        self.values.len() - 1
    }

    fn actor(&self, random: &mut Random) -> usize {
        self.actors[random.below(self.actors.len())]
    }

    /// A value of the kind that a task at `place` may read; one that it may not, if the recipe is reckless.
    fn pick(&mut self, random: &mut Random, kind: Kind, place: Place) -> Option<ValueIx> {
        let reckless = self.reckless && random.once_in(3);
        let fits = |value: &ValueSpec| {
            let mut readers = value.readers.clone();
            readers.push(place);
            value.kind == kind && (reckless || mistake(kind, value.made_at, &readers, 0).is_none())
        };
        let found: Vec<_> = (0..self.values.len())
            .filter(|value| fits(&self.values[*value]))
            .collect();
        let picked = *found.get(random.below(found.len().max(1)))?;
        self.values[picked].readers.push(place);
        Some(picked)
    }

    /// A task whose arguments have been picked; returns its result.
    fn task(&mut self, random: &mut Random, op: Op, actor: usize, args: Vec<Arg>) -> ValueIx {
        let place = PLACES[actor];
        let kind = match op {
            Op::Make(kind) | Op::Pass(kind) => kind,
            Op::Both => Kind::Both,
            Op::Mixed => Kind::Mixed,
            _ => Kind::Number,
        };
        let after = random.once_in(8).then(|| random.below(self.values.len()));
        // A part is not ordered after anything, and nothing after the whole of a tuple that is split.
        let after = after.filter(|value| !matches!(self.values[*value].kind, Kind::Both | Kind::Mixed));
        let fate = Fate {
            salt: (self.tasks.len() as u64 + 1) * 1000 + random.below(1000) as u64,
            fails: self.fails && random.once_in(2),
            holds: self.holds && place.may_hold() && random.once_in(3),
        };
        let result = self.value(kind, Origin::Task, place);
        self.tasks.push(TaskSpec {
            op,
            actor,
            args,
            after,
            fate,
            result,
            split: false,
        });
        result
    }

    /// Adds a task of any kind, or of the kind that makes what is missing for it.
    fn add(&mut self, random: &mut Random) {
        let actor = self.actor(random);
        let place = PLACES[actor];
        let kind = PLAIN[random.below(PLAIN.len())];
        let one = |op: Op, kind: Kind, recipe: &mut Self, random: &mut Random| {
            let value = recipe.pick(random, kind, place);
            value.map(|value| recipe.task(random, op, actor, vec![Arg::Value(value)]))
        };
        let made = match random.below(12) {
            0 => one(Op::Pass(kind), kind, self, random),
            1 => one(Op::View(kind), kind, self, random),
            2 => one(Op::Take(kind), kind, self, random),
            3 => one(Op::Later(kind), kind, self, random),
            4 => self.list(random, Op::All(kind), kind, actor),
            5 => self.list(random, Op::See(kind), kind, actor),
            6 => self.fold(random, actor),
            7 => one(Op::TakeBoth, Kind::Both, self, random),
            8 => one(Op::ViewMixed, Kind::Mixed, self, random),
            9 => self.tuple(random, actor),
            10 => one(Op::Mix, Kind::Number, self, random),
            _ => None,
        };
        if made.is_none()
            && (!place.far || self.reckless)
            && let Some(number) = self.pick(random, Kind::Number, place)
        {
            self.task(random, Op::Make(kind), actor, vec![Arg::Value(number)]);
        }
    }

    fn constant(&self, random: &mut Random, kind: Kind, place: Place) -> Option<Arg> {
        let may = kind.is_clone() && (kind.is_wire() || !place.far) || self.reckless;
        (may && random.once_in(4)).then(|| Arg::Constant(kind, random.below(100) as u64))
    }

    fn list(&mut self, random: &mut Random, op: Op, kind: Kind, actor: usize) -> Option<ValueIx> {
        let place = PLACES[actor];
        let first = self.pick(random, kind, place)?;
        let mut args = vec![Arg::Value(first)];
        for _ in 0..random.below(4) {
            let constant = self.constant(random, kind, place);
            args.extend(constant.or_else(|| self.pick(random, kind, place).map(Arg::Value)));
        }
        Some(self.task(random, op, actor, args))
    }

    fn fold(&mut self, random: &mut Random, actor: usize) -> Option<ValueIx> {
        let place = PLACES[actor];
        let mut args = Vec::new();
        for kind in [Kind::Job, Kind::Mail, Kind::Number, Kind::Handle] {
            let constant = match kind {
                Kind::Mail | Kind::Number => self.constant(random, kind, place),
                _ => None,
            };
            let value = constant.or_else(|| self.pick(random, kind, place).map(Arg::Value));
            let made = value.or_else(|| {
                let number = self.pick(random, Kind::Number, place)?;
                let made = self.task(random, Op::Make(kind), actor, vec![Arg::Value(number)]);
                self.values[made].readers.push(place);
                Some(Arg::Value(made))
            });
            args.push(made?);
        }
        Some(self.task(random, Op::Fold, actor, args))
    }

    /// A task with a tuple as its result, which is used whole or in parts. A reckless one does both.
    fn tuple(&mut self, random: &mut Random, actor: usize) -> Option<ValueIx> {
        let place = PLACES[actor];
        if place.far && !self.reckless {
            return None;
        }
        let number = self.pick(random, Kind::Number, place)?;
        let (op, parts) = match random.below(2) {
            0 => (Op::Both, [Kind::Job, Kind::Mail]),
            _ => (Op::Mixed, [Kind::Tally, Kind::Number]),
        };
        let whole = self.task(random, op, actor, vec![Arg::Value(number)]);
        if random.once_in(2) {
            let task = self.tasks.last_mut()?;
            task.split = true;
            for (part, kind) in (0..).zip(parts) {
                self.value(kind, Origin::Part(whole, part), place);
            }
            // The whole is used too, or else nobody picks it.
            let also = op == Op::Mixed && random.once_in(2) || self.reckless;
            if also && self.shape == Shape::Wide {
                self.values[whole].readers.push(DRIVER);
                self.outputs.push(whole);
            }
        }
        Some(whole)
    }

    /// Whether a value is the whole of a tuple that is split.
    fn is_split(&self, value: ValueIx) -> bool {
        self.tasks.iter().any(|task| task.result == value && task.split)
    }

    fn unread(&self) -> Vec<ValueIx> {
        let unread = |value: &ValueIx| self.values[*value].readers.is_empty() && !self.is_split(*value);
        (0..self.values.len()).filter(unread).collect()
    }

    /// Adds a task that makes a number of a value.
    fn consume(&mut self, random: &mut Random, value: ValueIx) -> ValueIx {
        let op = match self.values[value].kind {
            Kind::Number => Op::Mix,
            Kind::Both => Op::TakeBoth,
            Kind::Mixed => Op::ViewMixed,
            kind => Op::Take(kind),
        };
        let mut actor = self.actor(random);
        while PLACES[actor].far != self.values[value].made_at.far && op != Op::Mix {
            actor = if self.values[value].made_at.far {
                6
            } else {
                random.below(6)
            };
        }
        self.values[value].readers.push(PLACES[actor]);
        self.task(random, op, actor, vec![Arg::Value(value)])
    }

    /// Uses every value that nobody reads, in the way of the shape.
    fn finish(&mut self, random: &mut Random) {
        if self.shape != Shape::Wide {
            let mut numbers = Vec::new();
            for value in self.unread() {
                let is_number = self.values[value].kind == Kind::Number;
                numbers.push(if is_number {
                    value
                } else {
                    self.consume(random, value)
                });
            }
            let actor = self.actor(random);
            numbers
                .iter()
                .for_each(|number| self.values[*number].readers.push(PLACES[actor]));
            let args = numbers.into_iter().map(Arg::Value).collect();
            let sum = self.task(random, Op::Sum, actor, args);
            if self.shape != Shape::Narrow {
                self.make(random, sum, Kind::Job);
            }
            if self.shape == Shape::Parts {
                self.make(random, sum, Kind::Handle);
                self.values[sum].readers.push(DRIVER);
                self.outputs.push(sum);
            }
        }
        for value in self.unread() {
            self.values[value].readers.push(DRIVER);
            self.outputs.push(value);
        }
        self.outputs.sort_by_key(|output| self.values[*output].kind);
        if self.shape == Shape::Parts {
            let order = |kind| {
                [Kind::Number, Kind::Job, Kind::Handle]
                    .iter()
                    .position(|it| *it == kind)
            };
            self.outputs
                .sort_by_key(|output| order(self.values[*output].kind));
        }
    }

    /// Makes a value of a number, in this process.
    fn make(&mut self, random: &mut Random, number: ValueIx, kind: Kind) {
        let actor = random.below(6);
        self.values[number].readers.push(PLACES[actor]);
        self.task(random, Op::Make(kind), actor, vec![Arg::Value(number)]);
    }

    fn judge(&mut self) {
        for (index, value) in self.values.iter().enumerate() {
            let copies = usize::from(self.is_split(index) && !value.readers.is_empty());
            self.mistakes
                .extend(mistake(value.kind, value.made_at, &value.readers, copies));
        }
        for task in &self.tasks {
            for arg in &task.args {
                if let Arg::Constant(kind, _) = arg
                    && (!kind.is_clone() || PLACES[task.actor].far && !kind.is_wire())
                {
                    self.mistakes.insert("D0114");
                }
            }
        }
    }

    pub fn has_holds(&self) -> bool {
        self.tasks.iter().any(|task| task.fate.holds)
    }

    /// The most clones that an execution may make: one for each read of a value that can be cloned, and of a constant.
    pub fn clones_max(&self) -> usize {
        let reads = self.tasks.iter().map(|task| task.args.len()).sum::<usize>();
        reads + self.outputs.len() + self.tasks.iter().filter(|task| task.split).count()
    }

    /// The numbers of the outputs, in their order, or the salts of the tasks that may be told as the failure.
    pub fn interpret(&self, x: u64) -> Vec<Result<u64, BTreeSet<u64>>> {
        let mut found: Vec<Option<Result<u64, BTreeSet<u64>>>> = vec![None; self.values.len()];
        let inputs = self
            .values
            .iter()
            .take_while(|value| matches!(value.origin, Origin::Input));
        for (index, _) in inputs.enumerate() {
            found[index] = Some(Ok(x + index as u64));
        }
        for task in &self.tasks {
            let result = self.computed(task, &found);
            for (part, value) in self.values.iter().enumerate() {
                match value.origin {
                    Origin::Part(whole, at) if whole == task.result => {
                        found[part] = Some(result.clone().map(|number| number + at));
                    }
                    _ => {}
                }
            }
            let whole = |number: u64| match task.op {
                Op::Both | Op::Mixed => number ^ (number + 1).rotate_left(1),
                _ => number,
            };
            found[task.result] = Some(result.map(whole));
        }
        self.outputs
            .iter()
            .map(|output| found[*output].clone().unwrap())
            .collect()
    }

    fn computed(
        &self,
        task: &TaskSpec,
        found: &[Option<Result<u64, BTreeSet<u64>>>],
    ) -> Result<u64, BTreeSet<u64>> {
        let mut numbers = Vec::new();
        let mut faults = BTreeSet::new();
        let mut take = |value: ValueIx| match found[value].as_ref().unwrap() {
            Ok(number) => numbers.push(*number),
            Err(salts) => faults.extend(salts),
        };
        if let Some(before) = task.after {
            take(before);
        }
        for arg in &task.args {
            if let Arg::Value(value) = arg {
                take(*value);
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        numbers.clear();
        numbers.extend(task.args.iter().map(|arg| match arg {
            Arg::Value(value) => *found[*value].as_ref().unwrap().as_ref().unwrap(),
            Arg::Constant(_, number) => *number,
        }));
        let outcome = task.fate.outcome(&numbers);
        let number = outcome.map_err(|_| BTreeSet::from([task.fate.salt]))?;
        // A value that is passed on is the one that came.
        Ok(if matches!(task.op, Op::Pass(_)) {
            numbers[0]
        } else {
            number
        })
    }
}
