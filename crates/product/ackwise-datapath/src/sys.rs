//! The types that the programs and the loader share, made from
//! `bpf/ackwise_shared.h`.
#![allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
include!(concat!(env!("OUT_DIR"), "/reasons.rs"));

const _: () = assert!(REASONS.len() == AW_REASON_COUNT as usize);

macro_rules! pod {
    ($($t:ty),+ $(,)?) => {
        $(
            // SAFETY: a C struct of integers without references; every bit pattern is a
            // value, and the kernel copies it whole.
            unsafe impl aya::Pod for $t {}
        )+
    };
}

pod!(
    aw_options,
    aw_control,
    aw_key,
    aw_entry,
    aw_handshake,
    aw_counters,
    aw_percpu,
    aw_replay
);
