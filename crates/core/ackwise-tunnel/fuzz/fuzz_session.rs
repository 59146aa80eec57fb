//! See `session.rs`.
#![allow(unexpected_cfgs, reason = "set by wrapper.sh")]
#![cfg_attr(fuzzing, no_main)]

mod session;
#[macro_use]
mod entry;
mod input;

entry!(session::run);
