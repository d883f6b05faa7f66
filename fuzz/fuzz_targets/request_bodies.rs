//! Runs `fermata_fuzz::request_bodies` under cargo-fuzz.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fermata_fuzz::request_bodies(data));
