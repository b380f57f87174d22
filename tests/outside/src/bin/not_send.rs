//! A state that is not `Send`, such as a handle of a C library, in every place.
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use selvedge::prelude::*;

struct Window {
    title: Rc<Cell<u32>>,
    shown: Rc<Cell<u32>>,
}

#[actor]
impl Window {
    pub fn new() -> Self {
        let title = Rc::new(Cell::new(0));
        Window { shown: Rc::clone(&title), title }
    }

    pub fn show(&mut self, x: u32) -> u32 {
        self.title.set(self.shown.get() + x);
        self.shown.get()
    }
}

fn main() -> selvedge::Result<()> {
    let runtime = Runtime::new();
    for place in [Placement::Inline, Placement::Thread, Placement::Process] {
        let window = runtime.spawn::<Window>("window", ()).place(place)?;
        let graph = Arc::new(runtime.compile(|x: Edge<u32>| window.show(&x))?);
        assert_eq!((graph.run(1)?, graph.run(2)?), (1, 3));
        let other = Arc::clone(&graph);
        let elsewhere = std::thread::spawn(move || other.run(1).map_err(|e| e.to_string())).join().unwrap();
        match place {
            Placement::Inline => assert!(elsewhere.unwrap_err().contains("is not `Send`")),
            _ => assert_eq!(elsewhere?, 4),
        }
    }
    Ok(())
}
