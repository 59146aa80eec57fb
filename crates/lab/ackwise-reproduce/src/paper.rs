//! What a paper has to offer.

use ackwise_report::{Experiment, Figure};

use crate::{Claim, Engine, Error, Held, Lab};

/// A paper whose experiments can be run again.
pub trait Paper: Sync {
    /// Name on the command line, unique; also the stem of its page's file.
    fn name(&self) -> &'static str;

    /// Title of the paper.
    fn title(&self) -> &'static str;

    /// Authors, where, when.
    fn source(&self) -> &'static str;

    /// What the paper asks and claims, and what is reproduced of it.
    fn about(&self) -> &'static str;

    /// What its experiments run on; the first is the default.
    fn engines(&self) -> &'static [Engine];

    /// What it claims: each is answered by a row, or a row says that it was not run. Nothing for
    /// what is no paper.
    fn claims(&self) -> &'static [Claim] {
        &[]
    }

    /// What its rows are held to.
    fn tolerances(&self) -> Vec<Held> {
        Vec::new()
    }

    /// Whether this machine has what that engine needs; else what is missing and how to get it.
    ///
    /// # Errors
    ///
    /// What is missing and how to get it.
    fn available(&self, _engine: Engine) -> Result<(), String> {
        Ok(())
    }

    /// Runs its experiments.
    ///
    /// # Errors
    ///
    /// A run fails, or a value that a row needs is not there.
    fn reproduce(&self, lab: &Lab<'_>) -> Result<Reproduced, Error>;
}

/// What came out of a paper's experiments.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reproduced {
    /// In the order of the paper.
    pub experiments: Vec<Experiment>,
    /// In the order of the paper.
    pub figures: Vec<Figure>,
    /// What a reader should know, in sentences.
    pub notes: Vec<String>,
    /// What could not be run here, and why.
    pub missing: Vec<String>,
}
