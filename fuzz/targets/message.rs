//! Any packet: as a request, and as a message that is read, built again and read again.
#![no_main]

libfuzzer_sys::fuzz_target!(|packet: &[u8]| nodens_wire::fuzzing::message(packet));
