//! Tests of managers, by theme.

mod commands;
mod escalation;
mod life;
mod machines;
mod output;
