//! See `codec.rs`.
#![allow(unexpected_cfgs, reason = "set by wrapper.sh")]
#![cfg_attr(fuzzing, no_main)]

mod codec;
#[macro_use]
mod entry;
mod input;

entry!(codec::run);
