//! Records of messages between processes: each is taken over by its reader or taken back by its writer, whoever leaves when.
#![cfg(not(loom))]
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test may panic

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier, Mutex};

use selvedge_channels::{
    Arrival, ChannelError, Inlet, PayloadType, Provider, RECORD_BYTES, Record, RecordsIn, RecordsOut, Route,
    Routes, SharedReader, SharedWriter, TakenOver,
};
use support::{Bells, region, spec};

/// The fate of each record, by message and reader.
#[derive(Clone, Default)]
struct Fates(Arc<Mutex<BTreeMap<(u64, usize), Fate>>>);

#[derive(Debug, Default)]
struct Fate {
    taken_over: usize,
    dropped: usize,
    taken_back: usize,
}

impl Fates {
    fn note(&self, record: (u64, usize), what: impl Fn(&mut Fate)) {
        what(self.0.lock().unwrap().entry(record).or_default());
    }
}

/// Makes one record for each reader of each message.
struct Out {
    fates: Fates,
    readers: usize,
    sent: Vec<u64>,
}

impl RecordsOut for Out {
    fn pass(&mut self, number: u64, encode: &mut dyn FnMut() -> bool) -> Result<Vec<Record>, ChannelError> {
        assert!(encode());
        self.sent.push(number);
        let record = |reader| {
            self.fates.note((number, reader), |_| {});
            let mut record = [u8::try_from(reader).unwrap(); RECORD_BYTES];
            record[..8].copy_from_slice(&number.to_le_bytes());
            record
        };
        Ok((0..self.readers).map(record).collect())
    }

    fn take_back(&mut self, _: u64) {
        unreachable!("every message can be sent");
    }

    fn settle(&mut self, passed: u64, left: &[(u32, u64)]) {
        let (fates, settled) = (&self.fates, |number: &u64| *number < passed);
        for number in self.sent.extract_if(.., |number| settled(number)) {
            let meant = left.iter().filter(|(_, seen)| *seen <= number);
            meant.for_each(|(reader, _)| fates.note((number, *reader as usize), |fate| fate.taken_back += 1));
        }
    }
}

struct In {
    fates: Fates,
    reader: usize,
}

struct Taken(Fates, (u64, usize));

impl TakenOver for Taken {
    fn decode(&self, decode: &mut dyn FnMut()) {
        decode();
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.note(self.1, |fate| fate.dropped += 1);
    }
}

impl RecordsIn for In {
    fn take_over(&mut self, records: &[Record]) -> Result<Box<dyn TakenOver>, ChannelError> {
        let [record] = records else {
            panic!("{}", records.len())
        };
        assert_eq!(usize::from(record[8]), self.reader);
        let record = (u64::from_le_bytes(*record.first_chunk().unwrap()), self.reader);
        self.fates.note(record, |fate| fate.taken_over += 1);
        Ok(Box::new(Taken(self.fates.clone(), record)))
    }
}

/// Runs a writer of `many` messages beside readers that leave after some messages. Returns the fates of the records.
fn run(slots: usize, many: u64, leave_after: [u64; 2]) -> BTreeMap<(u64, usize), Fate> {
    let (bells, fates) = (Bells::new(leave_after.len()), Fates::default());
    let spec = spec(slots, leave_after.len());
    let (_segment, region) = region(Provider::Heap, &spec);
    let payload = PayloadType::of::<Vec<String>>();
    let mut writer = SharedWriter::attach(region.clone(), &spec, bells.readers.clone()).unwrap();
    writer.make_records(Box::new(Out {
        fates: fates.clone(),
        readers: leave_after.len(),
        sent: Vec::new(),
    }));
    let routes = Routes {
        local: None,
        channels: vec![Route::Shared(writer)],
    };
    let mut outlet = payload.outlet(routes).unwrap();
    let start = Arc::new(Barrier::new(3));
    let reading = (0..).zip(leave_after).map(|(reader, leave_after)| {
        let mut source = SharedReader::attach(region.clone(), &spec, reader, bells.writer.clone()).unwrap();
        let (fates, reader) = (fates.clone(), reader as usize);
        source.take_records(Box::new(In { fates, reader }));
        let mut value = payload.value(Inlet::Shared(source), 1).unwrap();
        let start = Arc::clone(&start);
        std::thread::spawn(move || {
            start.wait();
            let mut next = 0;
            while next < leave_after {
                match value.receive(next) {
                    Ok(Arrival::Nothing) => std::thread::yield_now(),
                    Ok(_) => {
                        let value = value.typed_mut::<Vec<String>>().unwrap();
                        assert_eq!(value.get().unwrap(), &[next.to_string()]);
                        value.read_done().unwrap();
                        next += 1;
                    }
                    // The writer has left, and has taken back the records of this message.
                    Err(ChannelError::Closed) => return,
                    Err(error) => panic!("{error}"),
                }
            }
        })
    });
    let reading: Vec<_> = reading.collect();
    start.wait();
    let mut written = 0;
    while written < many {
        if outlet.has_space().unwrap() {
            let typed = outlet.typed_mut::<Vec<String>>().unwrap();
            typed.stage(vec![written.to_string()]);
            outlet.publish(written, &mut []).unwrap();
            written += 1;
        } else {
            std::thread::yield_now();
        }
    }
    drop(outlet);
    reading.into_iter().for_each(|thread| thread.join().unwrap());
    std::mem::take(&mut *fates.0.lock().unwrap())
}

#[test]
fn every_record_is_taken_over_or_taken_back_whoever_leaves_first() {
    let rounds = if cfg!(miri) { 5 } else { 2000 };
    for round in 0..rounds {
        let many = 1 + round % 13;
        let leave_after = [round % 7, round % 5 + many / 2];
        let fates = run(1 + usize::try_from(round % 4).unwrap(), many, leave_after);
        assert_eq!(fates.len() as u64, 2 * many);
        for (record, fate) in fates {
            assert_eq!(fate.taken_over, fate.dropped, "{record:?}: {fate:?}");
            assert_eq!(
                fate.taken_over + fate.taken_back,
                1,
                "{record:?}: {fate:?} in {round}"
            );
        }
    }
}
