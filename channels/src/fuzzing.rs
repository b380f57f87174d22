//! What the fuzz targets run: hostile bytes in every decoder and in a channel's memory. Nothing may crash, loop or
//! read out of bounds; errors and garbage values are fine.
//!
//! The targets in `fuzz/` call these functions; `cargo test` runs them on random bytes for a moment.

use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};

use crate::{
    Doorbell, Provider, SEGMENT_HEADER_BYTES, Segment, SharedReader, SharedSpec, SharedWriter, Tensor,
    decode, format, view_slice, view_str,
};

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Nested {
    Empty,
    Batch {
        name: String,
        tensors: Vec<Tensor>,
        scale: f32,
    },
    Deep(Vec<Option<(u16, String)>>),
}

/// Bytes as every kind of payload.
pub fn decoders(bytes: &[u8]) {
    let _ = decode::<Vec<u8>>(bytes);
    let _ = decode::<Vec<f64>>(bytes);
    let _ = decode::<Vec<String>>(bytes);
    let _ = decode::<String>(bytes);
    let _ = decode::<Tensor>(bytes).map(|tensor| tensor.bytes().len());
    let _ = decode::<Nested>(bytes).map(|nested| format!("{nested:?}"));
    let _ = decode::<(u32, Option<Vec<i16>>)>(bytes);
    let _ = view_slice::<u16>(bytes);
    let _ = view_str(bytes);
}

/// Bytes scribbled over a channel's memory, three at a time (where, what), between reads and writes.
pub fn shared_memory(bytes: &[u8]) {
    let spec = SharedSpec {
        slots: 2,
        slot_bytes: 1000,
        readers: 2,
        max_bytes: 4000,
    };
    let Ok(size) = spec.size_bytes() else { return };
    let Ok(segment) = Segment::create(Provider::Heap, SEGMENT_HEADER_BYTES + size) else {
        return;
    };
    let Ok(region) = segment.region(SEGMENT_HEADER_BYTES, size) else {
        return;
    };
    if format(&region, &spec).is_err() {
        return;
    }
    let bell = Doorbell::heap;
    let Ok(mut writer) = SharedWriter::attach(region.clone(), &spec, bell(), vec![bell(), bell()]) else {
        return;
    };
    let mut readers: Vec<SharedReader> = (0..2)
        .filter_map(|index| SharedReader::attach(region.clone(), &spec, index, bell()).ok())
        .collect();
    for chunk in bytes.chunks_exact(10) {
        let (Some(place), Some(value)) = (chunk.first_chunk::<2>(), chunk.last_chunk::<8>()) else {
            continue;
        };
        let (place, value) = (u16::from_le_bytes(*place), u64::from_le_bytes(*value));
        // Control, cursors and slot headers: the words that somebody believes.
        if let Ok(word) = region.atomic_u64(usize::from(place % 40) * 8) {
            word.store(value, Ordering::Relaxed);
        }
        let _ = writer.try_write(&value);
        let _ = writer.try_write(&vec![1u8; usize::from(place % 1500)]);
        for reader in &mut readers {
            let _ = reader
                .current()
                .map(|message| message.map(|message| message.map(decoders)));
            let _ = reader.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 2000 }, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn rser_10_decoders_survive_hostile_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            super::decoders(&bytes);
        }

        // Plain and atomic accesses of different sizes to one word are what a hostile peer does; Miri has no model of it.
        #[cfg_attr(miri, ignore)]
        #[test]
        fn chan_22_channels_survive_scribbled_memory(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            super::shared_memory(&bytes);
        }
    }
}
