use selvedge::prelude::*;

struct Payload {
    text: String,
}

struct A;

#[actor]
impl A {
    pub fn new() -> Self {
        A
    }

    pub fn make(&mut self, length: usize) -> Payload {
        Payload { text: "a".repeat(length) }
    }

    pub fn all(&mut self, payloads: &[Payload]) -> Result<Vec<Payload>> {
        Ok(payloads.iter().map(|it| Payload { text: it.text.clone() }).collect())
    }

    pub async fn length(&self, payload: &Payload) -> usize {
        payload.text.len()
    }
}

fn main() {
    let runtime = Runtime::new();
    let a = runtime.spawn::<A>("a", ()).in_thread().unwrap();
    let _graph = runtime.compile(|x: Edge<usize>| {
        let payload = a.make(&x);
        a.length(&a.make(&a.length(&payload)))
    });
}
