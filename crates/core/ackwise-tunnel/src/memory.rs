//! Accounts for the memory of codecs, and frees it.
//!
//! A peer decides how many flows there are, and which of their states are never needed again. So
//! all sessions with a peer share one budget. When it is exceeded, what costs least goes first:
//! states that only a late bundle could refer to; then the encoders' states of the least recently
//! used flows, which start again with an uncompressed packet; then the decoders' states of these
//! flows.

use std::collections::VecDeque;
use std::mem::size_of;

use crate::Variant;
use crate::bundle::{MAX_ACKS, MAX_RECEIVER_VERSIONS, MAX_VERSIONS};
use crate::entropy::Models;
use crate::flow_state::State;

/// The states of a flow, by the number of the bundle after which they hold.
pub(crate) type Versions = VecDeque<(u64, State)>;

/// The number of bundles per round trip, each of which adds a state to a flow.
const VERSIONS_IN_FLIGHT: usize = 8;
/// The bytes per flow in addition to its states: its key, and its entries in tables.
const FLOW_BYTES: usize = 384;

/// The bytes that `capacity` elements take.
pub(crate) const fn bytes_of<T>(capacity: usize) -> usize {
    capacity * size_of::<T>()
}

/// The bytes of the models that a codec keeps, and of those kept for reuse.
pub(crate) fn models(kept: &VecDeque<(u64, Box<Models>)>, spare: &[Box<Models>]) -> usize {
    bytes_of::<(u64, Box<Models>)>(kept.capacity()) + bytes_of::<Models>(kept.len() + spare.len())
}

/// The bytes that an honest peer may need: the current session with all its flows, and the session
/// before it, in which the last bundles arrive.
pub(crate) fn needed(variant: Variant, max_flows: u16) -> usize {
    let of_flow = FLOW_BYTES + 2 * bytes_of::<(u64, State)>(VERSIONS_IN_FLIGHT);
    let of_bundles = bytes_of::<(u64, State)>(MAX_ACKS) + (1 << 20);
    let of_models = match variant {
        Variant::Aligned => 0,
        Variant::Entropy => bytes_of::<Models>(MAX_VERSIONS + MAX_RECEIVER_VERSIONS + 4),
    };
    2 * (usize::from(max_flows) * of_flow + of_bundles + of_models)
}

/// Frees the memory of all versions of a flow, and returns how many bytes that were.
pub(crate) fn forget(versions: &mut Versions) -> usize {
    bytes_of::<(u64, State)>(std::mem::take(versions).capacity())
}

/// Returns the flows that may be forgotten, the least recently used first. `last_use` returns the
/// number of the last bundle that contained a flow, or `None` if it must stay.
pub(crate) fn least_recently_used<T>(
    flows: &[T],
    last_use: impl Fn(&T) -> Option<u64>,
) -> Vec<usize> {
    let known = flows.iter().enumerate();
    let known = known.filter_map(|(at, flow)| Some((last_use(flow)?, at)));
    let mut known: Vec<_> = known.collect();
    known.sort_unstable();
    known.into_iter().map(|(_, at)| at).collect()
}
