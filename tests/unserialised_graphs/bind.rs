//! From a recipe to the edges of a graph.

use selvedge::prelude::*;

use super::recipe::{Arg, Kind, Op, Origin, Recipe, TaskSpec};
use super::values::{Both, Handle, Job, Mail, Mixed, Shared, Tally, Value};
use super::worker::WorkerHandle;

/// Makes the type of an edge of any kind, with the ways to and from it.
macro_rules! edges {
    ($($kind:ident $type:ty,)+) => {
        #[derive(Clone)]
        pub enum AnyEdge {
            $($kind(Edge<$type>),)+
        }

        $(
            impl From<Edge<$type>> for AnyEdge {
                fn from(edge: Edge<$type>) -> Self {
                    AnyEdge::$kind(edge)
                }
            }

            impl From<AnyEdge> for Edge<$type> {
                fn from(edge: AnyEdge) -> Self {
                    match edge {
                        AnyEdge::$kind(edge) => edge,
                        _ => panic!("an edge of another kind"),
                    }
                }
            }
        )+

        fn after<T>(edge: Edge<T>, before: &AnyEdge) -> Edge<T> {
            match before {
                $(AnyEdge::$kind(before) => edge.after(before),)+
            }
        }

        impl AnyEdge {
            fn after(self, before: &AnyEdge) -> Self {
                match self {
                    $(AnyEdge::$kind(edge) => after(edge, before).into(),)+
                }
            }

            fn constant(kind: Kind, number: u64) -> Self {
                match kind {
                    $(Kind::$kind => constant(<$type as Value>::of(number)).into(),)+
                }
            }
        }
    };
}

edges! {
    Number u64,
    Mail Mail,
    Handle Handle,
    Job Job,
    Tally Tally,
    Shared Shared,
    Both Both,
    Mixed Mixed,
}

/// Makes the function that binds the tasks that every kind of value has.
macro_rules! tasks {
    ($($kind:ident $make:ident $pass:ident $view:ident $take:ident $later:ident $all:ident $see:ident,)+) => {
        /// Binds the task of a specification, with its arguments.
        fn task(worker: &WorkerHandle, spec: &TaskSpec, args: Vec<AnyEdge>) -> AnyEdge {
            let (fate, mut args) = (spec.fate, args.into_iter());
            let mut next = || args.next().unwrap();
            match spec.op {
                Op::Mix => worker.mix(&next().into(), fate).into(),
                Op::Sum => worker.sum(&list(args.map(Edge::from)), fate).into(),
                Op::Fold => {
                    let (job, mail) = (next().into(), next().into());
                    worker.fold(&job, &mail, &next().into(), &next().into(), fate).into()
                }
                Op::Both => worker.both(&next().into(), fate).into(),
                Op::Mixed => worker.mixed(&next().into(), fate).into(),
                Op::TakeBoth => worker.take_both(&next().into(), fate).into(),
                Op::ViewMixed => worker.view_mixed(&next().into(), fate).into(),
                $(
                    Op::Make(Kind::$kind) => worker.$make(&next().into(), fate).into(),
                    Op::Pass(Kind::$kind) => worker.$pass(&next().into(), fate).into(),
                    Op::View(Kind::$kind) => worker.$view(&next().into(), fate).into(),
                    Op::Take(Kind::$kind) => worker.$take(&next().into(), fate).into(),
                    Op::Later(Kind::$kind) => worker.$later(&next().into(), fate).into(),
                    Op::All(Kind::$kind) => worker.$all(&list(args.map(Edge::from)), fate).into(),
                    Op::See(Kind::$kind) => worker.$see(&list(args.map(Edge::from)), fate).into(),
                )+
                op => panic!("no task: {op:?}"),
            }
        }
    };
}

tasks! {
    Mail make_mail pass_mail view_mail take_mail later_mail all_mails see_mails,
    Handle make_handle pass_handle view_handle take_handle later_handle all_handles see_handles,
    Job make_job pass_job view_job take_job later_job all_jobs see_jobs,
    Tally make_tally pass_tally view_tally take_tally later_tally all_tallies see_tallies,
    Shared make_shared pass_shared view_shared take_shared later_shared all_shared see_shared,
}

/// Binds every task of a recipe; returns the edges of all values.
pub fn bind(recipe: &Recipe, actors: &[WorkerHandle], inputs: Vec<AnyEdge>) -> Vec<AnyEdge> {
    let mut edges: Vec<Option<AnyEdge>> = vec![None; recipe.values.len()];
    edges
        .iter_mut()
        .zip(inputs)
        .for_each(|(edge, input)| *edge = Some(input));
    for spec in &recipe.tasks {
        let arg = |arg: &Arg| match arg {
            Arg::Value(value) => edges[*value].clone().unwrap(),
            Arg::Constant(kind, number) => AnyEdge::constant(*kind, *number),
        };
        let args = spec.args.iter().map(arg).collect();
        let mut result = task(&actors[spec.actor], spec, args);
        if let Some(before) = spec.after {
            result = result.after(edges[before].as_ref().unwrap());
        }
        if spec.split {
            let parts: [AnyEdge; 2] = match result.clone() {
                AnyEdge::Both(both) => {
                    let (job, mail) = both.split();
                    [job.into(), mail.into()]
                }
                AnyEdge::Mixed(mixed) => {
                    let (tally, number) = mixed.split();
                    [tally.into(), number.into()]
                }
                _ => panic!("no tuple"),
            };
            for (index, value) in recipe.values.iter().enumerate() {
                match value.origin {
                    Origin::Part(whole, at) if whole == spec.result => {
                        edges[index] = Some(parts[at as usize].clone());
                    }
                    _ => {}
                }
            }
        }
        edges[spec.result] = Some(result);
    }
    edges.into_iter().map(Option::unwrap).collect()
}

/// The outputs of a graph, each kind for itself.
#[derive(Default)]
pub struct Outputs(
    pub Vec<Edge<u64>>,
    pub Vec<Edge<Mail>>,
    pub Vec<Edge<Handle>>,
    pub Vec<Edge<Job>>,
    pub Vec<Edge<Tally>>,
    pub Vec<Edge<Shared>>,
    pub Vec<Edge<Both>>,
    pub Vec<Edge<Mixed>>,
);

/// The outputs of a graph, as `compile` takes them.
type Wide = (
    Vec<Edge<u64>>,
    Vec<Edge<Mail>>,
    Vec<Edge<Handle>>,
    Vec<Edge<Job>>,
    Vec<Edge<Tally>>,
    Vec<Edge<Shared>>,
    Vec<Edge<Both>>,
    Vec<Edge<Mixed>>,
);

impl Outputs {
    pub fn wide(&mut self) -> Wide {
        let Outputs(a, b, c, d, e, f, g, h) = std::mem::take(self);
        (a, b, c, d, e, f, g, h)
    }
}

/// The outputs of a recipe among its edges.
pub fn bound(recipe: &Recipe, edges: Vec<AnyEdge>) -> Outputs {
    let mut outputs = Outputs::default();
    for output in &recipe.outputs {
        match edges[*output].clone() {
            AnyEdge::Number(edge) => outputs.0.push(edge),
            AnyEdge::Mail(edge) => outputs.1.push(edge),
            AnyEdge::Handle(edge) => outputs.2.push(edge),
            AnyEdge::Job(edge) => outputs.3.push(edge),
            AnyEdge::Tally(edge) => outputs.4.push(edge),
            AnyEdge::Shared(edge) => outputs.5.push(edge),
            AnyEdge::Both(edge) => outputs.6.push(edge),
            AnyEdge::Mixed(edge) => outputs.7.push(edge),
        }
    }
    outputs
}

/// The results of a graph of the widest shape.
pub type WideValues = (
    Vec<u64>,
    Vec<Mail>,
    Vec<Handle>,
    Vec<Job>,
    Vec<Tally>,
    Vec<Shared>,
    Vec<Both>,
    Vec<Mixed>,
);

/// The numbers of all results, in the order of the recipe's outputs.
pub fn numbers(values: WideValues) -> Vec<u64> {
    fn of<V: Value>(values: &[V]) -> impl Iterator<Item = u64> {
        values.iter().map(Value::number)
    }
    let (a, b, c, d, e, f, g, h) = &values;
    let all = of(a).chain(of(b)).chain(of(c)).chain(of(d));
    all.chain(of(e)).chain(of(f)).chain(of(g)).chain(of(h)).collect()
}
