//! `docs/papers/README.md` says of each claim what the verdicts of its rows say, and lists the
//! tolerances of the code. The verdicts are in `docs/papers/verdicts.csv`, which
//! `scripts/papers-verdicts` makes from the output of `ackwise-lab reproduce`.

use std::collections::BTreeMap;

use ackwise_reproduce::{Claim, papers, tolerances_table};

const README: &str = include_str!("../../../../docs/papers/README.md");
const VERDICTS: &str = include_str!("../../../../docs/papers/verdicts.csv");

/// A row with a verdict.
struct Row {
    id: &'static str,
    source: &'static str,
    basis: &'static str,
    verdict: &'static str,
}

fn rows() -> Vec<Row> {
    let mut lines = VERDICTS.lines();
    assert_eq!(lines.next(), Some("id,source,basis,verdict"));
    let row = |line: &'static str| match line.split(',').collect::<Vec<_>>()[..] {
        [id, source, basis, verdict] => Row {
            id,
            source,
            basis,
            verdict,
        },
        _ => panic!("not four columns: {line}"),
    };
    lines.map(row).collect()
}

impl Row {
    /// The engine that the row's id names, as in `pavilanskas/slow/…` and `saldana/virtual/…`.
    fn engine(&self) -> &'static str {
        let second = self.id.split('/').nth(1);
        second
            .filter(|it| ["virtual", "slow"].contains(it))
            .unwrap_or_default()
    }

    fn is_own(&self, verdict: &str) -> bool {
        self.basis == "measured" && self.verdict == verdict
    }
}

/// The word for a claim's verdicts. Rows of the paper's own set-up decide; what the paper leaves open
/// can only show that a claim comes out with one of several settings. A claim with a part that cannot
/// be compared, where other parts are within, comes out in part only; a row that another engine
/// cannot compare does not count. A claim that was run in another set-up only (`beside`) cannot be tested.
fn word(rows: &[&Row], beside: bool) -> &'static str {
    let has = |basis: &str, verdict: &str| {
        let one = |row: &&Row| row.basis == basis && row.verdict == verdict;
        rows.iter().any(one)
    };
    let [within, outside, undecided] =
        ["within", "outside", "undecided"].map(|verdict| has("measured", verdict));
    let with_a_variant = has("variant", "within");
    let open = |row: &&Row| {
        let of_engine = |other: &&Row| other.is_own("within") && other.engine() == row.engine();
        row.is_own("not-comparable") && rows.iter().any(of_engine)
    };
    let all_compared = !rows.iter().any(open);
    match (within, outside, undecided) {
        (true, false, false) if all_compared => "comes out",
        (true, _, _) => "in part",
        (false, _, _) if with_a_variant => "in part",
        (false, true, _) => "does not",
        (false, false, true) => "undecided",
        _ if has("variant", "outside") => "does not",
        _ if rows.iter().any(|row| row.verdict == "not-comparable") => "cannot be tested",
        _ if beside => "cannot be tested",
        _ => "not run",
    }
}

/// The cell of the table of claims that has the word for a claim.
fn cell(claim: &Claim) -> &'static str {
    let start = format!("| {} | {} | ", claim.part, claim.says);
    let line = README.lines().find_map(|line| line.strip_prefix(&start));
    let line = line.unwrap_or_else(|| panic!("docs/papers/README.md has no line {start}"));
    line.split(" | ").next().unwrap()
}

#[test]
fn the_table_of_claims_says_what_the_verdicts_say() {
    let rows = rows();
    let mut wrong = Vec::new();
    for paper in papers() {
        for claim in paper.claims() {
            let own: Vec<&Row> = rows
                .iter()
                .filter(|row| claim.is_answered_by(row.id))
                .collect();
            let beside = rows.iter().any(|row| claim.has_beside(row.id));
            let (expected, printed) = (word(&own, beside), cell(claim));
            // Only what was measured before records existed is marked as earlier.
            let earlier = own.is_empty() && printed.starts_with("earlier: ");
            if printed != expected && !earlier {
                wrong.push(format!(
                    "{}, {}: \"{printed}\", but its rows say \"{expected}\"",
                    paper.name(),
                    claim.id
                ));
            }
        }
    }
    assert_eq!(wrong, [""; 0], "see docs/papers/README.md");
}

const WORDS: [&str; 7] = [
    "does not",
    "undecided",
    "in part",
    "comes out",
    "cannot be tested",
    "not run",
    "of these earlier",
];
const JUDGED: [&str; 4] = ["outside", "undecided", "within", "not-comparable"];

/// The two tables of counts: claims by their word, and rows of the paper's own set-up
/// beside a published value by their verdict.
fn counts() -> String {
    let line = |name: &str, cells: &[usize]| {
        let cells: Vec<String> = cells.iter().map(usize::to_string).collect();
        format!("| {name} | {} |\n", cells.join(" | "))
    };
    let table = |title: &str, heads: &[&str], of: &dyn Fn(&str) -> Vec<usize>| {
        let mut sums = vec![0; heads.len()];
        let mut text = format!(
            "| {title} | {} |\n|{}\n",
            heads.join(" | "),
            "---|".repeat(heads.len() + 1)
        );
        for paper in papers() {
            let cells = of(paper.name());
            if cells.iter().sum::<usize>() == 0 {
                continue; // what is nobody's paper
            }
            sums.iter_mut().zip(&cells).for_each(|(sum, n)| *sum += n);
            text += &line(paper.name(), &cells);
        }
        text + &line("**all**", &sums)
    };
    let claims = |name: &str| -> Vec<usize> {
        let paper = papers().iter().find(|paper| paper.name() == name);
        let printed: Vec<&str> = paper.iter().flat_map(|p| p.claims()).map(cell).collect();
        let count = |word: &str| match word {
            "of these earlier" => printed
                .iter()
                .filter(|cell| cell.starts_with("earlier: "))
                .count(),
            _ => printed
                .iter()
                .filter(|cell| cell.trim_start_matches("earlier: ") == word)
                .count(),
        };
        WORDS.iter().map(|word| count(word)).collect()
    };
    let rows = |name: &str| -> Vec<usize> {
        let own = |row: &&Row, verdict: &str| {
            row.id.split('/').next() == Some(name)
                && row.source == "published"
                && row.basis == "measured"
                && row.verdict == verdict
        };
        JUDGED
            .iter()
            .map(|verdict| rows().iter().filter(|row| own(row, verdict)).count())
            .collect()
    };
    table("claims", &WORDS, &claims) + "\n" + &table("rows", &JUDGED, &rows)
}

#[test]
fn the_counts_are_those_of_the_table_and_of_the_record() {
    let counts = counts();
    assert!(
        README.contains(&counts),
        "docs/papers/README.md has other counts; they have to be:\n{counts}"
    );
}

#[test]
fn words_are_those_of_the_verdicts() {
    let with_ids = |rows: &[(&'static str, &'static str, &'static str)]| {
        let row = |(id, basis, verdict)| Row {
            id,
            source: "published",
            basis,
            verdict,
        };
        let rows: Vec<Row> = rows.iter().copied().map(row).collect();
        word(&rows.iter().collect::<Vec<_>>(), false)
    };
    let of = |rows: &[(&'static str, &'static str)]| {
        let rows: Vec<_> = rows.iter().map(|&(basis, it)| ("x/y", basis, it)).collect();
        with_ids(&rows)
    };
    let (own, open) = ("measured", "variant");
    assert_eq!(of(&[]), "not run");
    assert_eq!(of(&[(own, "within"), (own, "within")]), "comes out");
    assert_eq!(of(&[(own, "within"), (own, "undecided")]), "in part");
    assert_eq!(of(&[(own, "within"), (open, "outside")]), "comes out");
    assert_eq!(of(&[(own, "outside"), (open, "within")]), "in part");
    assert_eq!(of(&[(own, "outside"), (own, "undecided")]), "does not");
    assert_eq!(of(&[(own, "undecided"), (open, "outside")]), "undecided");
    assert_eq!(of(&[(open, "outside")]), "does not");
    let none = [(own, "not-comparable"), ("calculated", "not-comparable")];
    assert_eq!(of(&none), "cannot be tested");
    assert_eq!(of(&[(own, "within"), (own, "not-comparable")]), "in part");
    assert_eq!(
        of(&[(own, "within"), (open, "not-comparable")]),
        "comes out"
    );
    assert_eq!(word(&[], true), "cannot be tested");
    let elsewhere = |other| with_ids(&[("x/y", own, "within"), (other, own, "not-comparable")]);
    assert_eq!(elsewhere("x/virtual/y"), "comes out");
    assert_eq!(elsewhere("x/z"), "in part");
}

/// Where a second flow causes the losses, the set-up is known not to be the paper's.
#[test]
fn rows_of_another_set_up_answer_no_claim() {
    let is_staged = |id: &str| {
        let names = ["drop-", "fig8-after", "fig18-"];
        names
            .iter()
            .any(|name| id.starts_with(&format!("statkus/{name}")))
    };
    let rows = rows();
    let staged: Vec<&Row> = rows.iter().filter(|row| is_staged(row.id)).collect();
    assert!(!staged.is_empty());
    let claims = || papers().iter().flat_map(|paper| paper.claims());
    for row in staged {
        assert_eq!(row.basis, "variant", "{}", row.id);
        assert!(
            !claims().any(|claim| claim.is_answered_by(row.id)),
            "{}",
            row.id
        );
        assert!(claims().any(|claim| claim.has_beside(row.id)), "{}", row.id);
    }
}

#[test]
fn the_list_of_tolerances_is_that_of_the_code() {
    let table = tolerances_table();
    assert!(
        README.contains(&table),
        "docs/papers/README.md has another list of tolerances; it has to be:\n{table}"
    );
}

#[test]
fn each_row_of_the_record_is_there_once() {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows() {
        *counts.entry(row.id).or_default() += 1;
    }
    counts.retain(|_, count| *count > 1);
    assert!(counts.is_empty(), "{counts:?}");
}
