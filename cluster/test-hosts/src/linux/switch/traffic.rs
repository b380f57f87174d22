//! What lines have done.

/// The packets that one host has sent to another, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// The packets that the sender has sent.
    pub sent: u64,
    /// The packets that have arrived, with repetitions.
    pub packets: u64,
    /// The bytes of these.
    pub bytes: u64,
    /// The packets that met a cut.
    pub cut: u64,
    /// The packets that chance has lost.
    pub lost: u64,
    /// The packets that found the line full.
    pub crowded_out: u64,
    /// The packets that arrived a second time.
    pub repeated: u64,
    /// The packets that arrived after one that was sent later.
    pub overtaken: u64,
    /// The packets that the receiver's kernel refused.
    pub refused: u64,
}
