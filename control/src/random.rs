//! Numbers that nobody can foresee.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};

/// One of them.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
