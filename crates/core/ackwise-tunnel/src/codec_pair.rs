//! The two codecs of a session.

use crate::{Decoder, Encoder, Variant};

/// One codec for each direction.
#[derive(Debug)]
pub(crate) struct Codecs {
    pub encoder: Encoder,
    pub decoder: Decoder,
}

impl Codecs {
    /// Makes the codecs. `ours` and `theirs` are the flows whose state each end keeps.
    pub fn new(variant: Variant, ours: u16, theirs: u16) -> Codecs {
        Codecs {
            encoder: Encoder::new(variant, ours.min(theirs)),
            decoder: Decoder::new(ours),
        }
    }
}
