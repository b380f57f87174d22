use selvedge::prelude::*;

struct Keep<T>(T);

#[actor]
impl<T: Wire> Keep<T> {
    pub fn new(x: T) -> Self {
        Keep(x)
    }

    pub fn text(&mut self, _: u32) -> String
    where
        T: ToString,
    {
        self.0.to_string()
    }
}

fn main() {
    let runtime = Runtime::new();
    let keep = runtime.spawn::<Keep<u32>>("keep", (1,)).inline().unwrap();
    let _graph = runtime.compile(|x: Edge<u32>| keep.text(&x));
}
