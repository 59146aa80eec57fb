//! Turns records into tables, JSON and one self-contained HTML page.
//!
//! [`compare`] groups the runs of a [`Report`] and compares each arm with the baseline; [`table`]
//! prints that for a terminal, [`html`] as a page with plots that opens without a network.
//! [`expectations`] checks whether the scenario's expectations are met, [`agreements`] whether two
//! engines agree. Other crates build tables and pages in the same style from [`parts`]. JSON and
//! CSV are [`Report::to_json`], [`Report::runs_csv`] and [`Report::series_csv`].

mod compare;
mod draws;
mod draws_html;
mod draws_sheets;
mod draws_text;
mod expect;
mod experiment;
mod experiments;
mod experiments_html;
mod figure;
mod findings;
mod format;
mod frame;
mod html;
mod mean;
mod nodes;
mod page_data;
mod summary;
mod table;
mod value;
mod verdict;

pub use ackwise_scenario::record::Report;
pub use compare::{Comparison, Group, Row, Stat, compare};
pub use draws_text::{DRAWS_CSV, draws_csv};
pub use expect::{
    AgreementResult, ExpectationResult, agreements, agreements_text, expectations,
    expectations_text,
};
pub use experiment::{Experiment, Spread};
pub use experiments::{PaperReport, experiments_json, experiments_table};
pub use experiments_html::{experiments_html, papers_index_html};
pub use figure::{Axis, Figure, Line, Style};
pub use findings::{Finding, Tone, findings};
pub use html::html;
pub use mean::Mean;
pub use nodes::nodes_table;
pub use summary::{Counts, Summary};
pub use table::{TableOptions, table};
pub use value::Value;
pub use verdict::{Basis, Source, Tolerance, Verdict};

/// The parts from which other crates build tables and pages in the same style.
pub mod parts {
    pub use crate::experiments_html::{SCRIPT, STYLE};
    pub use crate::format::{escape, short};
    pub use crate::frame::{Page, Plots};
    pub use crate::page_data::embed;
}
