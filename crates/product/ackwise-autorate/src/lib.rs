//! Drives the rate of the kernel's cake by what the link behind it carries.
//!
//! ```text
//!   flows ──► cake (ac40:) ──► packet socket's filter ──► driver, modem, … ──► far end
//!               ▲                    │ round trips by timestamps       │
//!               │ rate               ▼                                 │
//!            guard ◄── pipe ── this thread: Estimator ◄── echoes ──────┘
//! ```
//!
//! The rate is changed by rtnetlink in place: no packet is lost, and a root that is not the one of ackwise
//! is never touched. [`Measured`] says what is going on.

mod delay;
mod driver;

pub use ackwise_bandwidth::Bounds;
pub use delay::Delay;
pub use driver::{Autorate, Halted, Handle, Measured, State};
