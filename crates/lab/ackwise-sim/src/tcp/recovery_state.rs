//! Where loss recovery stands.

/// The states of loss recovery, as `icsk_ca_state` of Linux has them. Congestion controls
/// compare them: a later one is a worse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum RecoveryState {
    /// No loss is being repaired.
    #[default]
    Open,
    /// The window comes down for an ECN echo or a lost tail.
    Reduced,
    /// Losses are being repaired.
    Recovery,
    /// The retransmission timer has fired.
    Loss,
}
