//! Adjusts the rate of the kernel's cake to what the link behind it carries.
//!
//! ```text
//!   flows ──► cake (ac40:) ──► packet socket's filter ──► driver, modem, … ──► far end
//!               ▲                    │ round trips by timestamps       │
//!               │ rate               ▼                                 │
//!            guard ◄── pipe ── this thread: Estimator ◄── echoes ──────┘
//! ```
//!
//! The rate is changed in place by rtnetlink: no packet is lost, and a root that is not ackwise's
//! is never touched. [`Measured`] describes the current state.

mod delay;
mod driver;

pub use ackwise_bandwidth::Bounds;
pub use delay::Delay;
pub use driver::{Autorate, Halted, Handle, Measured, State};
