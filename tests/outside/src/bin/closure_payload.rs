//! A closure in a box is a value like any other: one actor makes it, another one calls it.
use selvedge::prelude::*;

type Filter = Box<dyn Fn(f64) -> bool + Send>;

struct Planner;

#[actor]
impl Planner {
    pub fn new() -> Self {
        Planner
    }
    pub fn at_least(&mut self, limit: f64) -> Filter {
        Box::new(move |level| level >= limit)
    }
}

struct Scanner(Vec<f64>);

#[actor]
impl Scanner {
    pub fn new(levels: Vec<f64>) -> Self {
        Scanner(levels)
    }
    pub fn count(&mut self, filter: Filter) -> usize {
        self.0.iter().filter(|&&level| filter(level)).count()
    }
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let planner = runtime.spawn::<Planner>("planner", ()).in_thread()?;
    let scanner = runtime.spawn::<Scanner>("scanner", (vec![0.1, 0.5, 0.9],)).in_thread()?;
    let graph = runtime.compile(|limit: Edge<f64>| scanner.count(&planner.at_least(&limit)))?;
    assert_eq!((graph.run(0.5)?, graph.run(0.6)?), (2, 1));
    assert_eq!(scanner.call().count(Box::new(|_| true)).wait()?, 3);
    Ok(())
}
