//! Devices and their primary contexts, and the current context of a thread.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::code::{Cu, INVALID_CONTEXT, INVALID_DEVICE, NO_DEVICE, NOT_INITIALIZED};
use crate::memory::Kind;
use crate::{engine, settings, space};

/// The handle of the context of device 0; the handles of the others follow.
const FIRST_CONTEXT: u64 = 0xc0de_0000;

static INITIALIZED: AtomicBool = AtomicBool::new(false);

/// How often each device's primary context is retained.
static PRIMARIES: LazyLock<Mutex<HashMap<u32, u32>>> = LazyLock::new(Mutex::default);

thread_local! {
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

/// Initialises the driver.
pub(crate) fn initialize() -> Cu {
    if settings::get().devices == 0 {
        return Err(NO_DEVICE);
    }
    INITIALIZED.store(true, Ordering::Relaxed);
    Ok(())
}

/// Refuses calls before the driver was initialised.
pub(crate) fn initialized() -> Cu {
    INITIALIZED
        .load(Ordering::Relaxed)
        .then_some(())
        .ok_or(NOT_INITIALIZED)
}

/// Returns the device with this number.
pub(crate) fn device(ordinal: i32) -> Cu<u32> {
    initialized()?;
    let device = u32::try_from(ordinal).map_err(|_| INVALID_DEVICE)?;
    (device < settings::get().devices)
        .then_some(device)
        .ok_or(INVALID_DEVICE)
}

/// Returns the handle of a device's context.
pub(crate) fn handle_of(device: u32) -> u64 {
    FIRST_CONTEXT + u64::from(device) * 16
}

/// Returns the device of a retained context.
pub(crate) fn device_of(context: u64) -> Cu<u32> {
    let primaries = PRIMARIES.lock();
    let of = |(device, retained): (&u32, &u32)| {
        (handle_of(*device) == context && *retained > 0).then_some(*device)
    };
    primaries.iter().find_map(of).ok_or(INVALID_CONTEXT)
}

/// Retains a device's primary context.
pub(crate) fn retain(device: u32) -> u64 {
    *PRIMARIES.lock().entry(device).or_default() += 1;
    handle_of(device)
}

/// Releases a device's primary context. The last release destroys its streams and its memory.
pub(crate) fn release(device: u32) -> Cu {
    {
        let mut primaries = PRIMARIES.lock();
        let retained = primaries
            .get_mut(&device)
            .filter(|retained| **retained > 0)
            .ok_or(INVALID_CONTEXT)?;
        *retained -= 1;
        if *retained > 0 {
            return Ok(());
        }
    }
    engine::destroy_all(device);
    let of_context = |kind| matches!(kind, Kind::Plain | Kind::Pool | Kind::Imported);
    space::space().forget(|region| region.allocation.device == device && of_context(region.allocation.kind));
    Ok(())
}

/// Returns the current context of this thread; 0 for none.
pub(crate) fn current() -> u64 {
    CURRENT.get()
}

/// Returns the device of this thread's current context.
pub(crate) fn current_device() -> Cu<u32> {
    initialized()?;
    device_of(current())
}

/// Makes a context the current one of this thread; 0 for none.
pub(crate) fn set_current(context: u64) -> Cu {
    initialized()?;
    if context != 0 {
        device_of(context)?;
    }
    CURRENT.set(context);
    Ok(())
}

/// Returns the stream that a handle names for this thread: 0, 1 and 2 are the default stream of its context. The
/// per-thread default stream is therefore the legacy one, which waits for more than necessary.
pub(crate) fn stream(handle: u64) -> Cu<u64> {
    initialized()?;
    match handle {
        0..=2 => engine::default_of(current_device()?),
        named => engine::about(named).map(|_| named),
    }
}
