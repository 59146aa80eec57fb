//! The slow device: the kernel in an emulated machine whose CPU runs a fixed
//! number of instructions a second.
//!
//! Statkus 2021 measures a CPU that is the bottleneck. Neither virtual time (CPU costs nothing) nor
//! a busy host (CPU cost varies) can show that. Here QEMU interprets the machine (TCG, no KVM) and
//! its clock *is* the count of instructions (`-icount`): one instruction lasts 2^shift ns, idle
//! time is skipped, and devices and random numbers take no input from the host. The speed of the
//! CPU is thus a number in the [`Machine`], and a [`Record`] is the same on every host and under
//! any load.
//!
//! ```text
//!   one guest, one CPU, no offloads
//!   ┌ namespace `sender` ┐                     ┌ namespace `receiver` ┐
//!   │ write() ─ TCP ─ e1000 ──── QEMU's hub ──── e1000 ─ TCP ─ read()  │
//!   └────────────────────┘                     └──────────────────────┘
//! ```
//!
//! Both hosts share that CPU. The share of each is the CPU time of its application's thread and of
//! the NAPI thread of its interface. A job may ask for a router and a bridge on the path
//! ([`Between::Router`]); the share of the router is the time of its interfaces' threads.

mod guest;
mod image;
mod qemu;
mod record;

pub use guest::run_if_guest;
pub use qemu::{KERNEL_VARIABLE, Machine, kernel_image, qemu_version, run};
pub use record::{Between, First, Job, Record, Sample, Span};
