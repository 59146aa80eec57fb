//! The interface of a paper.

use ackwise_report::{Experiment, Figure};

use crate::{Claim, Engine, Error, Held, Lab};

/// A paper whose experiments can be reproduced.
pub trait Paper: Sync {
    /// Unique name on the command line; also the stem of its page's file name.
    fn name(&self) -> &'static str;

    /// Title of the paper.
    fn title(&self) -> &'static str;

    /// Authors, venue and year.
    fn source(&self) -> &'static str;

    /// What the paper asks and claims, and which part of it is reproduced.
    fn about(&self) -> &'static str;

    /// The engines that its experiments run on; the first is the default.
    fn engines(&self) -> &'static [Engine];

    /// The paper's claims. Each is answered by a row, or a row says that it was not run. An entry
    /// that is no paper has none.
    fn claims(&self) -> &'static [Claim] {
        &[]
    }

    /// The tolerances of its rows.
    fn tolerances(&self) -> Vec<Held> {
        Vec::new()
    }

    /// Checks whether this machine has what the engine needs.
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
    /// A run fails, or a value that a row needs is missing.
    fn reproduce(&self, lab: &Lab<'_>) -> Result<Reproduced, Error>;
}

/// The results of a paper's experiments.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reproduced {
    /// Experiments in the order of the paper.
    pub experiments: Vec<Experiment>,
    /// Figures in the order of the paper.
    pub figures: Vec<Figure>,
    /// Notes for the reader, in sentences.
    pub notes: Vec<String>,
    /// What could not be run here, and why.
    pub missing: Vec<String>,
}
