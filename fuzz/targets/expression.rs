//! Any text as an expression of `view`, evaluated for a few queries.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| nodens::fuzzing::expression(text));
