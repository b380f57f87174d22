//! A temporary shortage of descriptors and of address space.

use std::time::{Duration, Instant};

use crate::alone::alone;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use selvedge::prelude::*;
use selvedge_channels::{ChannelError, ChannelOptions};

/// Removes all spare descriptors or address space from this process, or restores the limits.
fn starve(what: &str) {
    let soft = |resource, current| {
        let maximum = getrlimit(resource).maximum;
        setrlimit(resource, Rlimit { current, maximum }).unwrap();
    };
    match what {
        "descriptors" => soft(Resource::Nofile, Some(0)),
        "addresses" => {
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            let pages: u64 = statm.split_whitespace().next().unwrap().parse().unwrap();
            // Enough for every allocation but a large message.
            soft(Resource::As, Some(pages * 4096 + (4 << 20)));
        }
        _ => {
            soft(Resource::As, getrlimit(Resource::As).maximum);
            soft(Resource::Nofile, Some(1024));
        }
    }
}

struct Hungry;

#[actor]
impl Hungry {
    pub fn new() -> Self {
        Hungry
    }

    pub fn starve(&mut self, what: String) {
        starve(&what);
    }

    pub fn large(&mut self, len: usize) -> Vec<u8> {
        vec![7; len]
    }

    pub fn len(&mut self, bytes: &[u8]) -> usize {
        bytes.len()
    }

    pub fn referring(&mut self, object: Ref<u64>, len: usize) -> Referring {
        let bytes = vec![7; len];
        Referring { object, bytes }
    }

    pub fn referred(&mut self, it: &Referring) -> Result<usize> {
        Ok(it.bytes.len() + usize::from(it.object.is_ready()?))
    }
}

/// A value with a reference that may be too long for a slot.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Referring {
    object: Ref<u64>,
    bytes: Vec<u8>,
}

#[test]
fn chan_18_a_reader_without_descriptors_or_memory_fails_one_execution() -> Result<()> {
    alone(|| {
        for what in ["descriptors", "addresses"] {
            for reader_starves in [true, false] {
                let runtime = Runtime::new();
                let a = runtime.spawn::<Hungry>("a", ()).in_process()?;
                let b = runtime.spawn::<Hungry>("b", ()).in_process()?;
                let options = Options::new().timeout(Duration::from_secs(60));
                let graph = runtime.compile_with(options, |x: Edge<usize>| {
                    let large = a.large(&x);
                    (b.len(&large), large)
                })?;
                for len in [4 << 20, 16 << 20] {
                    assert_eq!(graph.run(10)?.0, 10);
                    if reader_starves {
                        b.call().starve(what.to_owned()).wait()?;
                    } else {
                        starve(what);
                    }
                    let failed = graph.run(len);
                    if reader_starves {
                        b.call().starve("no more".to_owned()).wait()?;
                    } else {
                        starve("no more");
                    }
                    let text = failed.unwrap_err().to_string();
                    assert!(text.contains("could not be received"), "{what}: {text}");
                    let (found, bytes) = graph.run(len)?;
                    assert_eq!((found, bytes.len()), (len, len), "{what}");
                    assert_eq!(graph.run(10)?.0, 10);
                }
            }
        }
        // A channel alone keeps the message after such a failure: another attempt succeeds.
        for what in ["descriptors", "addresses"] {
            let channel = ChannelOptions::new().shared::<Vec<u8>>().unwrap();
            let (mut writer, mut reader) = (channel.writer().unwrap(), channel.reader(0).unwrap());
            writer.send(vec![7; 4 << 20]).unwrap();
            starve(what);
            let refused = [reader.recv().map(drop), reader.try_recv().map(drop)];
            starve("no more");
            for refused in refused {
                assert!(matches!(refused, Err(ChannelError::Segment(_))), "{refused:?}");
            }
            assert_eq!(reader.recv().unwrap().len(), 4 << 20);
        }
        Ok(())
    })
}

#[test]
fn a_reader_without_descriptors_says_so_though_the_writer_has_closed_the_channel() {
    alone(|| {
        let channel = ChannelOptions::new().shared::<Vec<u8>>().unwrap();
        let (mut writer, mut reader) = (channel.writer().unwrap(), channel.reader(0).unwrap());
        writer.send(vec![7; 4 << 20]).unwrap();
        drop(writer);
        starve("descriptors");
        let refused = reader.try_recv().map(drop);
        starve("no more");
        let error = refused.unwrap_err();
        assert!(matches!(error, ChannelError::Segment(_)), "{error}");
        assert!(error.to_string().contains("RLIMIT_NOFILE"), "{error}");
        // The memory of the message has gone with the writer.
        assert!(matches!(reader.try_recv(), Err(ChannelError::Closed)));
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_message_with_references_that_cannot_be_mapped_ends_its_graph_and_leaves_no_reference() -> Result<()> {
    alone(|| {
        let runtime = Runtime::new();
        let a = runtime.spawn::<Hungry>("a", ()).in_process()?;
        let b = runtime.spawn::<Hungry>("b", ()).in_process()?;
        let options = Options::new().timeout(Duration::from_secs(60));
        let graph = runtime.compile_with(options, |(object, len): (Edge<Ref<u64>>, Edge<usize>)| {
            b.referred(&a.referring(&object, &len))
        })?;
        let object: Ref<u64> = runtime.unset();
        object.set(1)?;
        assert_eq!(graph.run((object.clone(), 10))?, 11);
        b.call().starve("addresses".to_owned()).wait()?;
        let failed = graph.run((object.clone(), 16 << 20)).unwrap_err();
        b.call().starve("no more".to_owned()).wait()?;
        assert!(failed.to_string().contains("must not be skipped"), "{failed}");
        // The reader would miss the references of a message that it skips, so it reads no other one.
        assert!(graph.run((object.clone(), 10)).is_err());
        drop((graph, object));
        let limit = Instant::now() + Duration::from_secs(60);
        while runtime.references().owned > 0 {
            assert!(Instant::now() < limit, "{:?}", runtime.references());
            b.call().len(Vec::new()).wait()?;
        }
        Ok(())
    })
}
