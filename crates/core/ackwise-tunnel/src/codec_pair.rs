//! The two codecs of a session.

use crate::{Decoder, Encoder, Variant};

/// One for each direction.
#[derive(Debug)]
pub(crate) struct Codecs {
    pub encoder: Encoder,
    pub decoder: Decoder,
}

impl Codecs {
    /// For so many flows as this side keeps; to the other goes what that keeps.
    pub fn new(variant: Variant, ours: u16, theirs: u16) -> Codecs {
        Codecs {
            encoder: Encoder::new(variant, ours.min(theirs)),
            decoder: Decoder::new(ours),
        }
    }
}
