//! Runs `fermata_fuzz::provider_streams` under cargo-fuzz.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fermata_fuzz::provider_streams(data));
