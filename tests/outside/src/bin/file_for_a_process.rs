//! A file goes from thread to thread. For a process `compile` refuses the edge, at the line that asks for it.
use std::fs::File;

use selvedge::prelude::*;

struct Disk;

#[actor]
impl Disk {
    pub fn new() -> Self {
        Disk
    }
    pub fn open(&mut self, path: &str) -> Result<File> {
        Ok(File::open(path)?)
    }
    pub fn read(&mut self, file: File) -> Result<String> {
        Ok(std::io::read_to_string(file)?)
    }
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let disk = runtime.spawn::<Disk>("disk", ()).in_thread()?;
    let reader = runtime.spawn::<Disk>("reader", ()).in_thread()?;
    let graph = runtime.compile(|path: Edge<String>| reader.read(&disk.open(&path)))?;
    assert_eq!(graph.run("/proc/sys/kernel/ostype".into())?, "Linux\n");

    let far = runtime.spawn::<Disk>("far", ()).in_process()?;
    let (line, bind) = (line!(), |path: Edge<String>| far.read(&disk.open(&path)));
    let refused = runtime.compile(bind).unwrap_err();
    let [mistake] = &refused.diagnostics[..] else { panic!("{refused}") };
    assert_eq!((mistake.code.as_str(), mistake.location.line), ("D0120", line));
    let text = refused.to_string();
    assert!(text.contains("disk.open") && text.contains("derive(Clone, Serialize, Deserialize)"));
    Ok(())
}
