//! The contract of transports, as tests that any implementation can run.
//!
//! The line `transport_contract!(make);` in a test file tests a user-defined type. `make` is a function that returns a
//! transport. Every promise is a test of its own.

mod links;
mod streams;

pub use links::*;
pub use streams::*;

/// Tests that transports keep the promises of [`Transport`](crate::net::Transport). The argument is a function that returns a
/// transport whose listeners and dialers are in this process.
#[macro_export]
macro_rules! transport_contract {
    ($make:expr) => {
        $crate::transport_contract!(@tests $make;
            bytes_arrive_completely_and_in_order
            both_directions_carry_bytes_at_once
            a_byte_arrives_with_nothing_behind_it
            the_end_of_one_direction_leaves_the_other
            a_death_ends_every_wait_of_the_peer
            a_listener_that_is_gone_is_an_error
            links_are_authenticated
            many_links_leave_no_descriptor
        );
    };
    (@tests $make:expr; $($promise:ident)+) => {$(
        #[test]
        fn $promise() {
            $crate::net::contract::$promise(&$make);
        }
    )+};
}
