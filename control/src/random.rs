//! Numbers that nobody can foresee.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};

use rand::TryRng as _;
use rand::rngs::SysRng;

/// What a worker's generator begins with: all that it makes of it is to be as hard to foresee.
///
/// # Errors
/// The kernel has none to give.
pub fn seed() -> std::io::Result<[u8; 32]> {
    let mut seed = [0; 32];
    SysRng
        .try_fill_bytes(&mut seed)
        .map_err(|error| std::io::Error::other(format!("no random numbers from the kernel: {error}")))?;
    Ok(seed)
}

/// One of them, for what is no secret.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
