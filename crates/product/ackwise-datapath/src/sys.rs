//! The types that the programs and their loader share: those of `bpf/ackwise_shared.h`, and those
//! of `policy/` that they contain.

pub use ackwise_bpf::datapath::*;
pub use ackwise_policy::sys::*;
