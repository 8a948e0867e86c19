//! Any bytes as a name: in wire form, inside a message, as text.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nodens_wire::fuzzing::name(bytes));
