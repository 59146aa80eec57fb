//! What a paper claims, so that nothing of it is left out unsaid.

use ackwise_report::Experiment;

/// An experiment of a paper, or a conclusion. `docs/papers/README.md` has a line for each.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// Unique in the paper; a part of an id.
    pub id: &'static str,
    /// Where in the paper: `Fig. 4`.
    pub part: &'static str,
    /// What it says, in a few words.
    pub says: &'static str,
    /// Rows that answer it: their ids begin with one of these.
    pub rows: &'static [&'static str],
    /// Why a run may have no such row.
    pub missing: &'static str,
}

impl Claim {
    fn is_answered(&self, rows: &[Experiment]) -> bool {
        let answers = |id: &str| self.rows.iter().any(|prefix| id.starts_with(prefix));
        rows.iter().any(|row| answers(&row.id))
    }

    fn not_run(&self, paper: &str) -> Experiment {
        let id = format!("{paper}/not-run/{}", self.id);
        Experiment::not_run(id, self.says, self.missing)
            .part(self.part)
            .published(self.says)
    }
}

/// A row for each claim that no row answers.
pub(crate) fn not_run(paper: &str, claims: &[Claim], rows: &[Experiment]) -> Vec<Experiment> {
    let open = claims.iter().filter(|claim| !claim.is_answered(rows));
    open.map(|claim| claim.not_run(paper)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ackwise_report::Verdict;

    use super::*;

    const CLAIMS: [Claim; 2] = [
        Claim {
            id: "fig1",
            part: "Fig. 1",
            says: "it gains",
            rows: &["x/fig1/"],
            missing: "needs a radio",
        },
        Claim {
            id: "fig2",
            part: "Fig. 2",
            says: "it saves",
            rows: &["x/fig2/", "x/virtual/fig2/"],
            missing: "needs a router",
        },
    ];

    #[test]
    fn what_no_row_answers_becomes_a_row() {
        let rows = [Experiment::new("x/virtual/fig2/load", "load", 1.0)];
        let added = not_run("x", &CLAIMS, &rows);
        assert_eq!(added.len(), 1);
        assert_eq!(added[0].id, "x/not-run/fig1");
        assert_eq!(added[0].verdict(), Verdict::NotRun);
        assert_eq!(added[0].reason(), "needs a radio");
        assert_eq!(not_run("x", &CLAIMS, &[]).len(), 2);
    }

    #[test]
    fn the_table_of_claims_has_a_line_for_each() {
        const TABLE: &str = include_str!("../../../../docs/papers/README.md");
        for paper in crate::papers() {
            let claims = paper.claims();
            let ids: BTreeSet<&str> = claims.iter().map(|claim| claim.id).collect();
            assert_eq!(ids.len(), claims.len(), "{}", paper.name());
            for claim in claims {
                let line = format!("| {} | {} |", claim.part, claim.says);
                assert!(TABLE.contains(&line), "{}: {line}", paper.name());
                assert!(
                    !claim.missing.is_empty() && !claim.rows.is_empty(),
                    "{line}"
                );
            }
        }
    }
}
