//! nodens
