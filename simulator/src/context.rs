//! Devices and their primary contexts, and the current context of a thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::code::{Cu, INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, NO_DEVICE, NOT_INITIALIZED};
use crate::memory::Kind;
use crate::{engine, settings, space};

/// The handle of the context of device 0; the handles of the others follow.
const FIRST_CONTEXT: u64 = 0xc0de_0000;

static INITIALIZED: AtomicBool = AtomicBool::new(false);

/// A primary context.
#[derive(Clone, Copy, Debug, Default)]
struct Primary {
    retained: u32,
    flags: u32,
}

static PRIMARIES: LazyLock<Mutex<HashMap<u32, Primary>>> = LazyLock::new(Mutex::default);

thread_local! {
    static CURRENT: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
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
    let of = |(device, primary): (&u32, &Primary)| {
        (handle_of(*device) == context && primary.retained > 0).then_some(*device)
    };
    primaries.iter().find_map(of).ok_or(INVALID_CONTEXT)
}

/// Retains a device's primary context.
pub(crate) fn retain(device: u32) -> u64 {
    PRIMARIES.lock().entry(device).or_default().retained += 1;
    handle_of(device)
}

/// Releases a device's primary context. The last release destroys its streams and its memory.
pub(crate) fn release(device: u32) -> Cu {
    {
        let mut primaries = PRIMARIES.lock();
        let primary = primaries
            .get_mut(&device)
            .filter(|primary| primary.retained > 0)
            .ok_or(INVALID_CONTEXT)?;
        primary.retained -= 1;
        if primary.retained > 0 {
            return Ok(());
        }
    }
    reset(device);
    Ok(())
}

/// Destroys all objects in a device's context.
pub(crate) fn reset(device: u32) {
    engine::destroy_all(device);
    let of_context = |kind| matches!(kind, Kind::Plain | Kind::Pool | Kind::Imported);
    space::space().forget(|region| region.allocation.device == device && of_context(region.allocation.kind));
}

/// Returns the flags of a device's primary context, and whether it is retained.
pub(crate) fn state(device: u32) -> (u32, bool) {
    let primary = PRIMARIES.lock().get(&device).copied().unwrap_or_default();
    (primary.flags, primary.retained > 0)
}

/// Sets the flags of a device's primary context.
pub(crate) fn set_flags(device: u32, flags: u32) {
    PRIMARIES.lock().entry(device).or_default().flags = flags;
}

/// Returns the current context of this thread; 0 for none.
pub(crate) fn current() -> u64 {
    CURRENT
        .try_with(|stack| stack.borrow().last().copied().unwrap_or(0))
        .unwrap_or(0)
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
    let set = |stack: &RefCell<Vec<u64>>| {
        let mut stack = stack.borrow_mut();
        stack.pop();
        if context != 0 {
            stack.push(context);
        }
    };
    CURRENT.try_with(set).map_err(|_| INVALID_CONTEXT)
}

/// Makes a context the current one of this thread until the next [`pop`].
pub(crate) fn push(context: u64) -> Cu {
    initialized()?;
    device_of(context)?;
    CURRENT
        .try_with(|stack| stack.borrow_mut().push(context))
        .map_err(|_| INVALID_CONTEXT)
}

/// Restores the previous context.
pub(crate) fn pop() -> Cu<u64> {
    initialized()?;
    let popped = CURRENT
        .try_with(|stack| stack.borrow_mut().pop())
        .map_err(|_| INVALID_CONTEXT)?;
    popped.ok_or(INVALID_CONTEXT)
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

/// Checks context flags: those of host waiting, mapped host memory and local memory are accepted.
pub(crate) fn check_flags(flags: u32) -> Cu {
    (flags & !0xff == 0).then_some(()).ok_or(INVALID_VALUE)
}
