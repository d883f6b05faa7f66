//! Runs `fermata_fuzz::messages` under cargo-fuzz.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fermata_fuzz::messages(data));
