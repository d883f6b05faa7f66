//! Runs `fermata_fuzz::partial_json` under cargo-fuzz.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fermata_fuzz::partial_json(data));
