//! The life of a process that a manager has launched, of which the manager is told, and the tunnel to the process.

#[cfg(feature = "hosts")]
pub(crate) use with_manager::Hosted;

/// A child has nothing beside it.
#[cfg(not(feature = "hosts"))]
pub(crate) struct Hosted;

#[cfg(not(feature = "hosts"))]
impl Hosted {
    pub(super) fn launched(
        _: &crate::worker::record::WorkerRecord,
        _: &std::sync::Arc<dyn crate::worker::launch::Launcher>,
    ) -> Self {
        Hosted
    }

    pub(super) fn failed(&mut self) {}

    pub(super) fn is_announced(&self) -> bool {
        false
    }

    pub(super) fn joined(&mut self) {}

    pub(super) fn left(&mut self) {}

    #[expect(clippy::unused_async, reason = "the end of a tunnel is awaited")]
    pub(super) async fn end(self) {}
}

#[cfg(feature = "hosts")]
mod with_manager {
    use std::sync::Arc;

    use selvedge_cluster::manager::{OutOfTurn, SetUpAction, WorkerSetUp};
    use selvedge_cluster::peer::ProcessId;

    use super::super::tunnel::Tunnel;
    use crate::worker::launch::Launcher;
    use crate::worker::record::WorkerRecord;

    /// The life of one process, and its tunnel. The drop is its end: whatever was not told before is told then, so that each
    /// process that was launched is deregistered once and finalized once.
    pub(crate) struct Hosted {
        worker: ProcessId,
        launcher: Arc<dyn Launcher>,
        set_up: WorkerSetUp,
        tunnel: Option<Tunnel>,
        is_announced: bool,
    }

    impl Hosted {
        /// A process was launched.
        pub(in crate::control) fn launched(record: &WorkerRecord, launcher: &Arc<dyn Launcher>) -> Self {
            Hosted {
                worker: record.id().among_peers(),
                launcher: Arc::clone(launcher),
                set_up: WorkerSetUp::launched(),
                tunnel: None,
                is_announced: false,
            }
        }

        /// The process has said where it listens.
        pub(in crate::control) fn announced(&mut self) {
            self.is_announced = true;
            let announced = self.set_up.announced();
            self.tell(announced.map(|()| Vec::new()));
        }

        /// Whether the process has said where it listens: it may be one that leads to the worker, such as `ssh`.
        pub(in crate::control) fn is_announced(&self) -> bool {
            self.is_announced
        }

        /// The process is reached through a tunnel. Returns the tunnel.
        pub(in crate::control) fn through(&mut self, tunnel: Tunnel) -> &Tunnel {
            self.tunnel.insert(tunnel)
        }

        /// The process has joined.
        pub(in crate::control) fn joined(&mut self) {
            let actions = self.set_up.connected();
            self.tell(actions);
        }

        /// The process will not join.
        pub(in crate::control) fn failed(&mut self) {
            let actions = self.set_up.failed(());
            self.tell(actions);
        }

        /// The process is no member any more.
        pub(in crate::control) fn left(&mut self) {
            let actions = self.set_up.remove();
            self.tell(actions);
        }

        /// The process has ended.
        pub(in crate::control) async fn end(mut self) {
            if let Some(tunnel) = self.tunnel.take() {
                tunnel.end().await;
            }
        }

        /// Tells the launcher. The kills and the errors among the actions are the control thread's own matter.
        fn tell(&self, actions: Result<Vec<SetUpAction<()>>, OutOfTurn>) {
            // A step out of turn is no event.
            for action in actions.unwrap_or_default() {
                if let SetUpAction::Manage(event) = action {
                    self.launcher.tell(self.worker, event);
                }
            }
        }
    }

    impl Drop for Hosted {
        fn drop(&mut self) {
            let actions = self.set_up.exited(|| ());
            self.tell(actions);
        }
    }
}
