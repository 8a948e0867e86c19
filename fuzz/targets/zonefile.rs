//! Any text as a zone file, which may include itself.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &[u8]| nodens_sources::fuzzing::zonefile(text));
