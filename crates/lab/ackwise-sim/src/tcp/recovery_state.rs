//! State of the loss recovery.

/// The states of loss recovery, as `icsk_ca_state` in Linux. Congestion controls
/// compare them: a later state is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum RecoveryState {
    /// No loss is being repaired.
    #[default]
    Open,
    /// The window is being reduced for an ECN echo or a lost tail.
    Reduced,
    /// Losses are being repaired.
    Recovery,
    /// The retransmission timer has fired.
    Loss,
}
