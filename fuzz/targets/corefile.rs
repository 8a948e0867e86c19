//! Any text as a Corefile, which may import itself.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| nodens::fuzzing::corefile(text));
