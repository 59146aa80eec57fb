//! Claims of the papers, which ensure that none is left out silently.

use ackwise_report::Experiment;

use crate::Engine;

/// An experiment or a conclusion of a paper. `docs/papers/README.md` has a line for each.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// Identifier, unique within the paper; it becomes a part of a row's id.
    pub id: &'static str,
    /// Place in the paper, e.g. `Fig. 4`.
    pub part: &'static str,
    /// What the paper says, in a few words.
    pub says: &'static str,
    /// Prefixes of the ids of the rows that answer the claim. Without any, it was run in another set-up
    /// only, and cannot be tested.
    pub rows: &'static [&'static str],
    /// Prefixes of rows that measure the same in a set-up that is known not to be the paper's. They
    /// answer nothing: where such a row is within, the claim still has not come out.
    pub beside: &'static [&'static str],
    /// Why a run may have no such row.
    pub missing: &'static str,
    /// An engine on which there is another reason, and that reason.
    pub elsewhere: Option<(Engine, &'static str)>,
}

impl Claim {
    pub(crate) const fn new(
        id: &'static str,
        part: &'static str,
        says: &'static str,
        rows: &'static [&'static str],
        missing: &'static str,
    ) -> Claim {
        Claim {
            id,
            part,
            says,
            rows,
            beside: &[],
            missing,
            elsewhere: None,
        }
    }

    /// Sets prefixes of rows that measure the same in another set-up than the paper's.
    pub(crate) const fn beside(mut self, rows: &'static [&'static str]) -> Claim {
        self.beside = rows;
        self
    }

    /// Sets another reason for this engine.
    pub(crate) const fn elsewhere(mut self, engine: Engine, missing: &'static str) -> Claim {
        self.elsewhere = Some((engine, missing));
        self
    }

    /// Whether the row with this id answers the claim.
    pub fn is_answered_by(&self, id: &str) -> bool {
        self.rows.iter().any(|prefix| id.starts_with(prefix))
    }

    /// Whether the row with this id measures the same in another set-up than the paper's.
    pub fn has_beside(&self, id: &str) -> bool {
        self.beside.iter().any(|prefix| id.starts_with(prefix))
    }

    /// Whether a row says something of the claim, be it in another set-up.
    fn is_looked_at(&self, rows: &[Experiment]) -> bool {
        rows.iter()
            .any(|row| self.is_answered_by(&row.id) || self.has_beside(&row.id))
    }

    fn not_run(&self, paper: &str, engine: Engine) -> Experiment {
        let id = format!("{paper}/not-run/{}", self.id);
        let why = match self.elsewhere {
            Some((other, why)) if other == engine => why,
            _ => self.missing,
        };
        Experiment::not_run(id, self.says, why)
            .part(self.part)
            .published(self.says)
    }
}

/// Makes a row for each claim of which no row says anything.
pub(crate) fn not_run(
    paper: &str,
    engine: Engine,
    claims: &[Claim],
    rows: &[Experiment],
) -> Vec<Experiment> {
    let open = claims.iter().filter(|claim| !claim.is_looked_at(rows));
    open.map(|claim| claim.not_run(paper, engine)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ackwise_report::Verdict;

    use super::*;

    const CLAIMS: [Claim; 2] = [
        Claim::new("fig1", "Fig. 1", "it gains", &["x/fig1/"], "needs a radio")
            .elsewhere(Engine::Live, "radios are simulated only"),
        Claim::new(
            "fig2",
            "Fig. 2",
            "it saves",
            &["x/fig2/", "x/virtual/fig2/"],
            "needs a router",
        ),
    ];

    #[test]
    fn what_no_row_answers_becomes_a_row() {
        let rows = [Experiment::new("x/virtual/fig2/load", "load", 1.0)];
        let added = not_run("x", Engine::Virtual, &CLAIMS, &rows);
        assert_eq!(added.len(), 1);
        assert_eq!(added[0].id, "x/not-run/fig1");
        assert_eq!(added[0].verdict(), Verdict::NotRun);
        assert_eq!(added[0].reason(), "needs a radio");
        let live = not_run("x", Engine::Live, &CLAIMS, &[]);
        let why = live.iter().map(Experiment::reason);
        assert!(why.eq(["radios are simulated only", "needs a router"]));
    }

    #[test]
    fn a_row_beside_a_claim_is_no_answer() {
        let claim = CLAIMS[0].beside(&["x/virtual/fig1/"]);
        let id = "x/virtual/fig1/gain";
        assert!(!claim.is_answered_by(id));
        let rows = [Experiment::new(id, "gain", 1.0)];
        assert_eq!(not_run("x", Engine::Virtual, &[claim], &rows), []);
        assert_eq!(not_run("x", Engine::Virtual, &[claim], &[]).len(), 1);
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
                let rows = claim.rows.len() + claim.beside.len();
                assert!(!claim.missing.is_empty() && rows > 0, "{line}");
            }
        }
    }
}
