//! Errors of opening a datagram.

/// Why a datagram was not opened. In this case nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum OpenError {
    /// The datagram does not belong to this protocol.
    #[error("the datagram is too short, or of an unknown type")]
    UnknownType,
    /// The datagram belongs to no session of this end.
    #[error("the datagram belongs to no known session")]
    UnknownSession,
    /// The datagram was forged, damaged, or sealed with other keys.
    #[error("the datagram is not authentic")]
    NotAuthentic,
    /// The datagram is authentic, but was received before, or is too old to check.
    #[error("the datagram was received before, or is too old")]
    Replayed,
    /// More handshakes arrived than are answered, or than there is room for.
    #[error("too many handshakes")]
    RateLimited,
}
