//! Runs `fermata_fuzz::mcp_output` under cargo-fuzz.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fermata_fuzz::mcp_output(data));
