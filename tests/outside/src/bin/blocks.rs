//! Operations in several blocks and modules, all methods of one handle.
use selvedge::prelude::*;

struct Words(Vec<String>);

#[actor]
impl Words {
    pub fn new() -> Self {
        Words(Vec::new())
    }

    pub fn add(&mut self, word: &str) -> usize {
        self.0.push(word.to_owned());
        self.0.len()
    }
}

mod report {
    use selvedge::prelude::*;

    #[actor(more)]
    impl super::Words {
        pub fn joined(&self, by: &str) -> String {
            self.0.join(by)
        }
    }
}

fn main() -> selvedge::Result<()> {
    let runtime = Runtime::new();
    let words = runtime.spawn::<Words>("words", ()).in_process()?;
    let graph = runtime.compile(|word: Edge<String>| (words.add(&word), words.joined(&word)))?;
    graph.run("a".into())?;
    assert_eq!(graph.run("b".into())?, (2, "abb".to_owned()));
    Ok(())
}
