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

    /// Forgets everything that bundles refer to. Waiting packets stay.
    pub fn forget_all(&mut self) {
        self.encoder.forget_all();
        self.decoder.forget_all();
    }

    /// Returns the bytes that both take.
    pub fn memory(&self) -> usize {
        self.encoder.memory() + self.decoder.memory()
    }
}
