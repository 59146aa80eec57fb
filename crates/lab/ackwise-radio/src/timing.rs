//! Times of IEEE 802.15.4 at 2.4 GHz: 250 kbit/s, 62 500 symbols a second.

use ackwise_queue::Nanos;

/// A symbol: four bits.
pub const SYMBOL: Nanos = 16_000;
/// A byte.
pub const BYTE: Nanos = 2 * SYMBOL;
/// aUnitBackoffPeriod.
pub const BACKOFF: Nanos = 20 * SYMBOL;
/// A look whether the channel is clear.
pub const CCA: Nanos = 8 * SYMBOL;
/// aTurnaroundTime, from receiving to sending or back.
pub const TURNAROUND: Nanos = 12 * SYMBOL;
/// macAckWaitDuration.
pub const ACK_WAIT: Nanos = 54 * SYMBOL;
/// How long a sleeping radio is on for a check of the channel: what a CC2420 takes for a
/// stable reading (t_r of Dunkels 2011).
pub const CHECK: Nanos = 192_000;
/// Off between the two checks of a wake-up (t_c): longer than the gap between two copies of a
/// frame, so that one of the two falls into a copy.
pub const BETWEEN: Nanos = 500_000;
/// From the end of a copy to the beginning of the next (t_i): the acknowledgment begins within.
pub const GAP: Nanos = 400_000;
/// Preamble, delimiter and length before each frame.
pub const PHY_BYTES: u32 = 6;
/// An acknowledgment frame.
pub const ACK_BYTES: u32 = 5;
/// aMaxSIFSFrameSize: after longer frames the pause is longer.
const SHORT_BYTES: u32 = 18;
const SIFS: Nanos = 12 * SYMBOL;
const LIFS: Nanos = 40 * SYMBOL;

/// How long a frame of so many bytes is on the air.
pub fn air(bytes: u32) -> Nanos {
    Nanos::from(bytes + PHY_BYTES) * BYTE
}

/// The pause after a frame of so many bytes.
pub fn pause(bytes: u32) -> Nanos {
    if bytes <= SHORT_BYTES { SIFS } else { LIFS }
}
