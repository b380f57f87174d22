//! Mistakes that the model of the handshake has to find (`model.rs`).

/// A mistake of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum HandshakeMutant {
    #[default]
    None,
    /// Any proof is as good as the right one.
    BelievesAll,
    /// A proof does not cover the hello of the side that checks it, so it counts on any link.
    ForgetsNonces,
    /// The proof of a listener does not cover what it says.
    LeavesWelcomeOpen,
    /// A frame of any service is taken for a message of the handshake.
    TakesAnyService,
    /// A listener that has refused a dialer can still welcome it.
    WelcomesRefused,
}

impl HandshakeMutant {
    /// Leaves out of a transcript what the mistake does not cover.
    pub(super) fn leave_out(self, transcript: [&[u8]; 4]) -> [&[u8]; 4] {
        let [dialer, listener, binding, content] = transcript;
        match self {
            HandshakeMutant::ForgetsNonces => [&[], &[], binding, content],
            HandshakeMutant::LeavesWelcomeOpen => [dialer, listener, binding, &[]],
            _ => transcript,
        }
    }
}
