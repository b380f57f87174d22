//! The functions that the fuzz targets run (`channels/fuzz`), and, for a short time, every `cargo test`. Bytes of any
//! content must decode to a value or an error, without a panic and without a read outside their memory.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};

use crate::memory::segment::{Provider, SEGMENT_HEADER_BYTES, Segment};
use crate::payload::{Shared, Tensor, Wire, decode, encode, view_slice, view_str};
use crate::shared::{SharedReader, SharedSpec, SharedWriter, format};
use crate::{ChannelError, Descriptor, Doorbell, Fault};

/// A value with all the shapes of serde's data model, and tensors inside.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// A small number.
    pub small: u8,
    /// Nested values.
    pub children: Vec<Sample>,
    /// Text.
    pub name: Option<String>,
    /// Values that travel out of band.
    pub tensors: Vec<Tensor>,
    /// An enum.
    pub kind: VariantKind,
}

/// All kinds of variants in serde's data model.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub enum VariantKind {
    /// A variant without content.
    #[default]
    Unit,
    /// A variant with fields in order.
    Tuple(i64, char),
    /// A variant with named fields.
    Struct {
        /// Numbers.
        floats: Vec<f32>,
    },
}

/// A value that is encoded by name: with optional fields, fields of any name, and values of any kind.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Loose {
    /// A field that is left out if it is `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// All other fields.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Any>,
}

/// A value of any kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Any {
    /// A number.
    Number(i32),
    /// Nested options.
    Deep(Option<Option<bool>>),
    /// A character.
    Letter(char),
    /// A variant.
    Kind(VariantKind),
    /// A tensor.
    Tensor(Tensor),
    /// A list.
    List(Vec<Any>),
    /// A value with fields of any name.
    Loose(Box<Loose>),
}

/// A value with shared values of two types, one of which holds others.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Web {
    /// A shared text.
    pub name: Shared<String>,
    /// Shared values that hold such values.
    pub links: Vec<Shared<Web>>,
    /// A shared tensor.
    pub tensor: Option<Shared<Tensor>>,
}

/// A stream of bytes that a fuzz target takes its decisions from.
struct Script<'a>(std::slice::Iter<'a, u8>);

impl Script<'_> {
    fn byte(&mut self) -> Option<u8> {
        self.0.next().copied()
    }

    fn word(&mut self) -> Option<u64> {
        let mut word = 0;
        for _ in 0..8 {
            word = word << 8 | u64::from(self.byte()?);
        }
        Some(word)
    }
}

/// Checks that a decoded value, encoded and decoded again, stays the same.
fn decode_as<T: Wire + Debug>(bytes: &[u8]) {
    if let Ok(value) = decode::<T>(bytes)
        && let Ok(encoded) = encode(&value)
    {
        let bytes = encoded.to_vec();
        let again = decode::<T>(&bytes);
        let again = again.as_ref().ok().and_then(|again| encode(again).ok());
        assert_eq!(again.map(|again| again.to_vec()), Some(bytes), "{value:?}");
    }
}

fn decode_as_all(bytes: &[u8]) {
    decode_as::<()>(bytes);
    decode_as::<u64>(bytes);
    decode_as::<String>(bytes);
    decode_as::<Vec<u8>>(bytes);
    decode_as::<Vec<f64>>(bytes);
    decode_as::<Vec<String>>(bytes);
    decode_as::<Tensor>(bytes);
    decode_as::<Sample>(bytes);
    decode_as::<Loose>(bytes);
    decode_as::<Web>(bytes);
    if let Ok(Some(slice)) = view_slice::<u32>(bytes) {
        assert!(size_of_val(slice) <= bytes.len());
    }
    if let Ok(text) = view_str(bytes) {
        assert!(text.len() <= bytes.len());
    }
}

/// Decodes bytes as values of every kind, both unchanged and with a prefix that claims each kind of value.
pub fn decoders(bytes: &[u8]) {
    decode_as_all(bytes);
    for form in [0, 1, 2, 0x10, 0x12, 0x19] {
        let mut claimed = bytes.to_vec();
        if let Some(claim) = claimed.get_mut(6..8) {
            claim.copy_from_slice(&[form, 1]);
        }
        decode_as_all(&claimed);
    }
}

/// Parses bytes as the text of a descriptor, both unchanged and after the word that a descriptor begins with.
pub fn descriptors(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    for text in [text.to_owned(), format!("selvedge-channel-1:{text}")] {
        match text.parse::<Descriptor>() {
            Ok(descriptor) => assert_eq!(descriptor.to_string().parse(), Ok(descriptor)),
            Err(refused) => assert!(!refused.to_string().is_empty()),
        }
    }
}

/// Runs two readers and a writer on memory that is overwritten at random, as a script says.
pub fn shared_memory(script: &[u8]) {
    // An error means that there was no memory; then there is nothing to test.
    let _ = run(script);
}

fn run(script: &[u8]) -> Result<(), ChannelError> {
    let spec = SharedSpec {
        slots: 3,
        slot_bytes: 1000,
        readers: 2,
        max_bytes: 5000,
    };
    let size = spec.size_bytes()?;
    let segment = Segment::create(Provider::Heap, SEGMENT_HEADER_BYTES + size)?;
    let region = segment.part(SEGMENT_HEADER_BYTES, size)?;
    format(&region, &spec)?;
    let bell = Doorbell::heap();
    let mut writer = SharedWriter::attach(region.clone(), &spec, vec![bell.clone(), bell.clone()])?;
    let mut readers = [
        SharedReader::attach(region.clone(), &spec, 0, bell.clone())?,
        SharedReader::attach(region.clone(), &spec, 1, bell)?,
    ];
    // The control line, two tails and three headers.
    let words = 6 * 8;
    let mut script = Script(script.iter());
    let mut step = || -> Option<()> {
        match script.byte()? {
            op @ 0..=1 => read(readers.get_mut(usize::from(op))?),
            2 => drop(writer.try_write_bytes(&vec![7; usize::from(script.byte()?)])),
            3 => drop(writer.try_write_bytes(&vec![7; 16 * usize::from(script.byte()?)])),
            4 => drop(writer.try_write_fault(&Fault::failed(vec![1; usize::from(script.byte()?)], None))),
            5 => writer.close(),
            6 => drop(SharedReader::attach(region.clone(), &spec, 0, Doorbell::heap())),
            // A value of one byte, the more likely corruption.
            op @ 7..=127 => poke(&region, usize::from(op) % words, u64::from(script.byte()?)),
            op => poke(&region, usize::from(op) % words, script.word()?),
        }
        Some(())
    };
    while step().is_some() {}
    Ok(())
}

fn poke(region: &crate::Region, word: usize, value: u64) {
    if cfg!(miri) && word >= 24 && word % 8 >= 3 {
        // Miri does not support an atomic write over a payload's plain bytes (it aborts).
        return;
    }
    // Only every second cache line is used.
    if let Ok(word) = region.atomic_u64(word / 8 * 128 + word % 8 * 8) {
        // Relaxed: one thread.
        word.store(value, Ordering::Relaxed);
    }
}

fn read(reader: &mut SharedReader) {
    if let Ok(Some(Ok(payload))) = reader.current() {
        assert!(payload.len() <= 8192, "longer than any slot");
        std::hint::black_box(payload.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
        decode_as::<Sample>(payload);
    }
    let _ = reader.release();
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUNDS: u64 = if cfg!(miri) { 20 } else { 3_000 };

    /// xorshift64*: a seed gives the same bytes on every machine.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
        }

        fn below(&mut self, end: usize) -> usize {
            (self.next() % end.max(1) as u64) as usize
        }

        fn bytes(&mut self, len_max: usize) -> Vec<u8> {
            let len = self.below(len_max);
            (0..len).map(|_| (self.next() >> 56) as u8).collect()
        }
    }

    fn sample() -> Sample {
        let tensor = |len: usize| Tensor::from_slice(&vec![1.5f32; len], &[1, len]).unwrap();
        let leaf = Sample {
            small: 200,
            tensors: vec![tensor(3), tensor(0)],
            kind: VariantKind::Tuple(-5, 'ß'),
            ..Sample::default()
        };
        Sample {
            name: Some("sample".repeat(9)),
            children: vec![leaf.clone(), leaf],
            tensors: vec![tensor(40)],
            kind: VariantKind::Struct { floats: vec![0.5; 7] },
            ..Sample::default()
        }
    }

    fn loose() -> Loose {
        let tensor = Tensor::from_slice(&[1u8; 9], &[3, 3]).unwrap();
        let inner = Loose {
            name: Some("inner".to_owned()),
            rest: BTreeMap::from([("tensor".to_owned(), Any::Tensor(tensor))]),
        };
        let list = vec![Any::Number(7), Any::Deep(Some(None)), Any::Kind(sample().kind)];
        let rest = [
            ("list", Any::List(list)),
            ("loose", Any::Loose(Box::new(inner))),
            ("letter", Any::Letter('ß')),
        ];
        Loose {
            name: None,
            rest: rest.map(|(name, any)| (name.to_owned(), any)).into(),
        }
    }

    fn web() -> Web {
        let tensor = Tensor::from_slice(&[1u8; 9], &[3, 3]).unwrap();
        let leaf = Web {
            name: Shared::new("leaf".to_owned()),
            tensor: Some(Shared::new(tensor)),
            ..Web::default()
        };
        let shared = Shared::new(leaf.clone());
        Web {
            links: vec![shared.clone(), shared, Shared::new(leaf.clone())],
            ..leaf
        }
    }

    #[test]
    fn rser_10_mutated_descriptors_are_one_or_an_error() {
        let valid = "selvedge-channel-1:8:4096:1:1073741824:4121:7:1234567890123456789:65536";
        descriptors(valid.as_bytes());
        assert!(valid.parse::<Descriptor>().is_ok());
        for seed in 1..ROUNDS {
            let mut random = Random(seed);
            let mut bytes = valid.as_bytes().to_vec();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len());
                bytes[at] = b"0123456789:-+ e\n"[random.below(16)];
            }
            descriptors(&bytes);
        }
    }

    /// Reads the kept inputs of a target (see `scripts/fuzz-corpus`), and the inputs that made it crash.
    fn kept(target: &str) -> Vec<Vec<u8>> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
        let lines = std::fs::read_to_string(folder.join(format!("corpus/{target}.hex"))).unwrap();
        let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
        let inputs = lines
            .lines()
            .map(|line| line.as_bytes().chunks(2).map(byte).collect());
        let crashes = std::fs::read_dir(folder.join("crashes").join(target))
            .into_iter()
            .flatten();
        inputs
            .chain(crashes.map(|file| std::fs::read(file.unwrap().path()).unwrap()))
            .collect()
    }

    /// Runs the inputs that fuzzing has found and that were kept.
    #[test]
    #[cfg_attr(miri, ignore = "thousands of inputs; the rounds above are for Miri")]
    fn rser_10_the_kept_corpus_is_clean() {
        type Target = fn(&[u8]);
        let targets: [(&str, Target); 3] = [
            ("decoders", decoders),
            ("descriptors", descriptors),
            ("shared_memory", shared_memory),
        ];
        for (name, target) in targets {
            let inputs = kept(name);
            assert!(inputs.len() > 100, "{name}: {} inputs", inputs.len());
            inputs.iter().for_each(|input| target(input));
        }
    }

    #[test]
    fn rser_10_random_bytes_are_a_value_or_an_error() {
        for seed in 1..ROUNDS {
            decoders(&Random(seed).bytes(300));
        }
    }

    #[test]
    fn rser_10_mutated_payloads_are_a_value_or_an_error() {
        let valid = [
            encode(&sample()).unwrap().to_vec(),
            encode(&Tensor::from_slice(&[1u16; 30], &[5, 6]).unwrap())
                .unwrap()
                .to_vec(),
            encode(&loose()).unwrap().to_vec(),
            encode(&web()).unwrap().to_vec(),
            encode(&vec![1.0f64; 5]).unwrap().to_vec(),
            encode(&"text".to_owned()).unwrap().to_vec(),
        ];
        for seed in 1..ROUNDS {
            let mut random = Random(seed);
            let mut bytes = valid[random.below(valid.len())].clone();
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len());
                bytes[at] = match random.below(3) {
                    0 => 0xff,
                    1 => bytes[at].wrapping_add(1),
                    _ => random.next() as u8,
                };
            }
            bytes.truncate(if random.below(4) == 0 {
                random.below(bytes.len())
            } else {
                bytes.len()
            });
            decoders(&bytes);
        }
    }

    #[test]
    fn chan_22_a_segment_of_any_content_gives_messages_or_errors() {
        for seed in 1..ROUNDS {
            let mut random = Random(seed);
            // Mostly reads and small writes, with an overwritten word now and then.
            let mut script = Vec::new();
            while script.len() < 120 {
                match random.below(8) {
                    0..=2 => script.push(random.below(2) as u8),
                    3..=5 => script.extend([2, random.next() as u8]),
                    6 if !cfg!(miri) => script.extend([3, random.next() as u8]),
                    _ => script.extend([random.next() as u8, random.next() as u8]),
                }
            }
            run(&script).unwrap();
        }
    }
}
