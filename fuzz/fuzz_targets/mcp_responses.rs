//! Runs `fermata_fuzz::mcp_responses` under cargo-fuzz.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fermata_fuzz::mcp_responses(data));
