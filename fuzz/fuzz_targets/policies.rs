//! Runs `fermata_fuzz::policies` under cargo-fuzz.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fermata_fuzz::policies(data));
