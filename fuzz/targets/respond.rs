//! Any packet to a responder over a fixed world: as a datagram, in a batch, over a stream.
#![no_main]

use std::cell::RefCell;

use nodens_engine::fuzzing::World;

thread_local! {
    static WORLD: RefCell<World> = RefCell::default();
}

libfuzzer_sys::fuzz_target!(|packet: &[u8]| WORLD.with_borrow_mut(|world| world.respond(packet)));
