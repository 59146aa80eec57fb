//! Times of IEEE 802.15.4 at 2.4 GHz: 250 kbit/s, 62 500 symbols per second.

use ackwise_queue::Nanos;

/// Duration of a symbol, which is four bits.
pub const SYMBOL: Nanos = 16_000;
/// Duration of a byte.
pub const BYTE: Nanos = 2 * SYMBOL;
/// aUnitBackoffPeriod.
pub const UNIT_BACKOFF_PERIOD: Nanos = 20 * SYMBOL;
/// Duration of a clear channel assessment (CCA).
pub const CCA: Nanos = 8 * SYMBOL;
/// aTurnaroundTime, from receiving to sending or back.
pub const TURNAROUND: Nanos = 12 * SYMBOL;
/// macAckWaitDuration.
pub const ACK_WAIT_DURATION: Nanos = 54 * SYMBOL;
/// How long a sleeping radio is on for a channel check: the time in which a CC2420 gets a
/// stable reading (t_r of Dunkels 2011).
pub const CHECK: Nanos = 192_000;
/// Time off between the two checks of a wake-up (t_c). It is longer than the gap between two
/// copies of a frame, so that one of the checks hits a copy.
pub const CHECK_SPACING: Nanos = 500_000;
/// Time from the end of a copy to the beginning of the next (t_i); the acknowledgment begins in it.
pub const GAP: Nanos = 400_000;
/// Bytes of preamble, delimiter and length before each frame.
pub const PHY_BYTES: u32 = 6;
/// Bytes of an acknowledgment frame.
pub const ACK_BYTES: u32 = 5;
/// aMaxSIFSFrameSize: the pause after longer frames is longer.
const MAX_SIFS_FRAME_BYTES: u32 = 18;
const SIFS: Nanos = 12 * SYMBOL;
const LIFS: Nanos = 40 * SYMBOL;

/// How long a frame of this many bytes is on the air.
pub fn air(bytes: u32) -> Nanos {
    Nanos::from(bytes + PHY_BYTES) * BYTE
}

/// The pause after a frame of this many bytes.
pub fn pause(bytes: u32) -> Nanos {
    if bytes <= MAX_SIFS_FRAME_BYTES {
        SIFS
    } else {
        LIFS
    }
}
