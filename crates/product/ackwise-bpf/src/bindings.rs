//! The bindings of `bpf/*_shared.h`. `scripts/bindings` generates the files below this
//! one; `scripts/bindings --check` finds those that are stale.
#![allow(
    missing_docs,
    dead_code,
    unused_imports,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks
)]

pub mod ack_rate;
pub mod datapath;
pub mod delay;
pub mod echo;
pub mod gateway;
pub mod inject;
#[cfg(feature = "selftest")]
pub mod selftest;
pub mod silence;
pub mod tunnel;
