#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| selvedge_objects::fuzzing::requests(bytes));
