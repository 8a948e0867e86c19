//! Tests of the whole, in one binary.

mod cases; // every scenario of `cases/` against the binary, on both back ends
