//! An `Arc` that two threads get along one edge is one `Arc`: what one changes, the other sees.
use std::sync::{Arc, Mutex};

use selvedge::prelude::*;

type Log = Mutex<Vec<String>>;

struct Author {
    name: String,
}

#[actor]
impl Author {
    pub fn new(name: String) -> Self {
        Author { name }
    }
    pub fn sign(&mut self, log: Arc<Log>, page: u32) -> usize {
        let mut log = log.lock().unwrap();
        log.push(format!("{} {page}", self.name));
        log.len()
    }
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let ann = runtime.spawn::<Author>("ann", ("ann".into(),)).in_thread()?;
    let bob = runtime.spawn::<Author>("bob", ("bob".into(),)).in_thread()?;
    let graph = runtime.compile(|(log, page): (Edge<Arc<Log>>, Edge<u32>)| {
        let first = ann.sign(&log, &page);
        (bob.sign(&log, &page).after(&first), log) // and the driver, which gets it back
    })?;
    let log = Arc::new(Log::default());
    let (length, same) = graph.run((Arc::clone(&log), 3))?;
    assert!(length == 2 && Arc::ptr_eq(&log, &same));
    assert_eq!(*log.lock().unwrap(), ["ann 3", "bob 3"]);
    drop((graph, same));
    assert_eq!(Arc::strong_count(&log), 1);
    Ok(())
}
