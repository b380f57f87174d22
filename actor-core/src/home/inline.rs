//! The inline home: the actor has no thread, and each thread that calls it runs its methods.

use std::sync::Arc;
use std::time::Instant;

use crate::actor::arguments::ArgumentsKind;
use crate::call::request::{ActorCall, CALL_TIMEOUT, CallFault};
use crate::cancel::{Cancellation, Scope, within};
use crate::cell::async_driver::AsyncDriver;
use crate::cell::guarded::{Guarded, NoEntry};
use crate::cell::{ActorCell, Blueprint};
use crate::cores::CoreError;
use crate::failure::Failure;
use crate::home::placement::PlacementLabel;
use crate::home::{BuildReply, Home};
use crate::id::{ActorId, Address};
use crate::spawn_error::SpawnError;

/// The home of an inline actor, which contains the actor.
pub(crate) struct InlineHome {
    name: Arc<str>,
    cell: Arc<Guarded<ActorCell>>,
    driver: AsyncDriver,
}

impl InlineHome {
    /// Builds the actor, on the calling thread. `driver` runs its async constructor and the async methods of calls.
    pub(crate) fn new(blueprint: &Blueprint, driver: AsyncDriver) -> Result<Self, SpawnError> {
        let name = Arc::clone(&blueprint.name);
        let built = match blueprint.core {
            Some(core) => Err(Failure::from_error(CoreError::Inline { core })),
            None => blueprint.clone().build(driver.clone()),
        };
        match built {
            Ok(cell) => Ok(Self {
                name,
                cell: Arc::new(Guarded::new(cell)),
                driver,
            }),
            Err(failure) => Err(SpawnError::not_built(name.to_string(), failure)),
        }
    }

    /// Returns the failure of a call to the actor while it was in use.
    fn busy(&self, refused: NoEntry) -> Failure {
        let actor = &self.name;
        Failure::Busy(match refused {
            NoEntry::Reentered => format!(
                "inline actor `{actor}` was called by its own method; give it a thread, or call it from outside"
            ),
            NoEntry::OutOfTime => format!("inline actor `{actor}` was in use for {CALL_TIMEOUT:?}"),
        })
    }
}

impl Home for InlineHome {
    fn address(&self) -> Address {
        Address::DRIVER
    }

    fn label(&self) -> PlacementLabel {
        PlacementLabel::Inline
    }

    fn arguments(&self) -> ArgumentsKind {
        ArgumentsKind::Local
    }

    /// Does nothing, because the actor was built with its home.
    fn build(&self, _: &Blueprint, done: BuildReply) {
        done(Ok(()));
    }

    fn call(&self, call: ActorCall) {
        let deadline = || Some(Instant::now() + CALL_TIMEOUT);
        let driver = self.driver.clone().limited(CALL_TIMEOUT);
        let scope = Scope::Of(Cancellation::of_call(call.cancel));
        let (method, arguments) = (call.method, call.arguments);
        let used = self.cell.with(deadline, |cell| {
            within(&scope, || cell.call(method, arguments, &driver))
        });
        let result = used.unwrap_or_else(|refused| Err(self.busy(refused)));
        (call.reply)(result.map_err(CallFault::Failed));
    }

    /// Does nothing: the actor ends with the last reference to its record.
    fn remove(&self, _: ActorId) {}

    /// Does nothing: the thread that runs a method asks by itself.
    fn wake_async(&self) {}

    fn inline_cell(&self) -> Option<&Arc<Guarded<ActorCell>>> {
        Some(&self.cell)
    }
}
