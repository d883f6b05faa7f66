//! Runs `fermata_fuzz::sealed_messages` under cargo-fuzz.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fermata_fuzz::sealed_messages(data));
