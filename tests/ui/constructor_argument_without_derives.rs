use selvedge::prelude::*;

pub struct Config {
    pub scale: u32,
}

struct Scale(Config);

#[actor]
impl Scale {
    pub fn new(config: Config) -> Self {
        Scale(config)
    }

    pub fn scale(&mut self, x: u32) -> u32 {
        x * self.0.scale
    }
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let scale = runtime.spawn::<Scale>("scale", (Config { scale: 3 },)).in_thread()?;
    let graph = runtime.compile(|x: Edge<u32>| scale.scale(&x))?;
    println!("{}", graph.run(1)?);
    Ok(())
}
