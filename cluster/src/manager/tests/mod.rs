//! Tests of managers, by theme.

mod machines;
