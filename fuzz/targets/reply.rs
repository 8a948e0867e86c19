//! Anything that an upstream may say: as a datagram and over a stream, with the right id and question or without.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nodens_engine::fuzzing::reply(bytes));
