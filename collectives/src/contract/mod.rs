//! The contract of communicators, as tests that any implementation can run.
//!
//! The line `communicator_contract!(group);` in a test file tests a user-defined type. `group` is a function from a
//! number of ranks to one communicator for each. Every promise is a test of its own, with every rank on a thread of its
//! own. `examples/toy.rs` is such a type.

mod cases;
mod failures;
mod reference;
mod results;

pub use cases::{operations, sample, together};
pub use failures::*;
pub use reference::{expected, refused};
pub use results::*;

/// Tests that communicators keep the promises of [`Communicator`](crate::Communicator). The argument is a function that
/// gets a number of ranks and returns one communicator for each, in order.
/// With `communicator_contract!(group, when there)`, the tests run only if the function `there` returns `true`: it
/// checks that the communicators have all they need.
#[macro_export]
macro_rules! communicator_contract {
    ($make:expr) => {
        $crate::communicator_contract!($make, when || true);
    };
    ($make:expr, when $there:expr) => {
        $crate::communicator_contract!(@tests $make, $there;
            every_operation_equals_the_reference
            results_are_equal_bit_for_bit_in_every_run
            several_tensors_of_several_types_go_at_once
            sizes_from_nothing_to_large
            results_can_be_kept
            a_mismatch_is_told_to_everybody_and_the_group_goes_on
            a_failure_is_told_to_everybody_and_the_group_goes_on
            what_is_undefined_is_refused_alike
            one_operation_at_a_time
            a_wait_ends_in_time_and_can_go_on
            an_abort_wakes_everybody
            who_leaves_is_not_waited_for
            a_close_brings_to_an_end
            messages_come_in_order_and_whole
        );
    };
    (@tests $make:expr, $there:expr; $($promise:ident)+) => {$(
        #[test]
        fn $promise() {
            if $there() {
                $crate::contract::$promise(&$make);
            }
        }
    )+};
}
