//! The functions that C calls. They convert arguments to values and errors to codes; other modules implement their
//! behaviour.
#![allow(non_snake_case)] // the names are the driver's and NCCL's

mod context;
mod copy;
mod device;
mod event;
mod interprocess;
mod memory;
mod module;
mod nccl;
mod stream;
mod test;
mod virtual_memory;

/// Defines exported functions that return a code of the driver.
macro_rules! exported {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$about])*
            // SAFETY: no other library of the process may export the name: this library replaces the one that does.
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name($($argument: $type),*) -> u32 {
                $crate::ffi::call(stringify!($name), move || $body)
            }
        )*
    };
}
use exported;
