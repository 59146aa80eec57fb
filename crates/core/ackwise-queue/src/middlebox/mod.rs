//! Middleboxes of a link: policer, shaper, multiplexer and ACK reconstructor.

mod bucket;
mod mux;
mod police;
mod reconstruct;
mod shape;

pub use bucket::{LengthMode, TokenBucket};
pub use mux::{BundleSizes, MuxConfig, MuxStats, Release};
pub use police::{PoliceConfig, PoliceMode, PoliceStats};
pub use reconstruct::{ReconstructConfig, ReconstructStats, Spacing};
pub use shape::{ShapeConfig, ShapeStats};

pub(crate) use mux::Mux;
pub(crate) use police::Policer;
pub(crate) use reconstruct::Reconstructor;
pub(crate) use shape::Shaper;
