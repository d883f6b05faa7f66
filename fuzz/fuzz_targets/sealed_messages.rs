//! Runs `fermata_fuzz::letters` under cargo-fuzz.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fermata_fuzz::letters(data));
