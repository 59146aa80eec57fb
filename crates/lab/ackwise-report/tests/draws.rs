//! The distributions of drawn points, with made-up numbers that can be checked by hand.

#[path = "support/golden.rs"]
mod golden;

use std::collections::{BTreeMap, BTreeSet};

use ackwise_report::{Group, TableOptions, compare, draws_csv, html, table};
use ackwise_scenario::Scenario;
use ackwise_scenario::record::{Completion, FlowRecord, Quantiles, Report, Run, Traffic};
use golden::golden;

const DRAWN: &str = r#"
[scenario]
name = "drawn"
duration = "5 s"
[[node]]
name = "server"
[[node]]
name = "client"
[[link]]
name = "wan"
between = ["server", "client"]
forward = { rate = "10 Mbit/s" }
reverse = { rate = "1 Mbit/s" }
[[flow]]
name = "down"
from = "server"
to = "client"
app = "bulk"
[[flow]]
name = "up"
from = "client"
to = "server"
app = "bulk"
[[flow]]
name = "video"
from = "server"
to = "client"
app = "chunks"
chunk = "100 kB"
period = "1 s"
[[arm]]
name = "baseline"
[[arm]]
name = "half"
policy = "adaptive"
at = "client"
link = "wan"
position = "receiver"
[[arm]]
name = "twice"
policy = "adaptive"
at = "client"
link = "wan"
position = "receiver"
[sweep.draw]
n = 20
group = ["upload"]
against = { best = ["*"], slow = ["half"] }
upload = { choice = [true, false] }
down = { log-uniform = ["5 Mbit/s", "20 Mbit/s"] }
link.wan.forward.rate = "down"
flow.up.connections = { case = "upload", true = 1, else = 0 }
"#;

/// `half` gets half of the baseline's download, and `twice` gets twice as much, except on the third
/// line, where it gets a tenth. All get the same upload. Of chunks, `half` has half in time, and as
/// many bytes as its download lacks.
fn report() -> Report {
    report_of(DRAWN, |_, _| 1.0)
}

/// The same report with the download of each run multiplied by `by` of its arm and repeat.
fn report_of(text: &str, by: fn(&str, u32) -> f64) -> Report {
    let scenario = Scenario::parse("drawn.toml", text).unwrap();
    let mut report = Report::new("sim", &scenario);
    for spec in scenario.runs() {
        let seen = scenario.at(&spec).unwrap();
        let number = spec.draw.unwrap();
        let factor = match spec.arm.as_str() {
            "half" => 0.5,
            "twice" if number == 3 => 0.1,
            "twice" => 2.0,
            _ => 1.0,
        };
        let repeat = spec.point.get("repeat").map_or(1, |n| n.parse().unwrap());
        let factor = factor * by(&spec.arm, repeat);
        let record = |name: &str, traffic: Traffic| FlowRecord {
            flow: name.to_owned(),
            cc: None,
            traffic,
        };
        let bulk = |goodput_bps: f64| Traffic {
            goodput_bps,
            ..Traffic::default()
        };
        let down = seen.links[0].forward.rate_bps.unwrap() as f64 / 4.0;
        // The video of `half` has what its download lacks.
        let video = Traffic {
            goodput_bps: if spec.arm == "half" { down * 0.5 } else { 0.0 },
            completion: Some(Completion {
                time_us: Quantiles::default(),
                count: 10,
                late: Some(if spec.arm == "half" { 5 } else { 0 }),
                ..Completion::default()
            }),
            ..Traffic::default()
        };
        let mut run = Run {
            id: spec.id.clone(),
            arm: spec.arm.clone(),
            cc: spec.cc.clone(),
            seed: spec.seed,
            draw: spec.draw,
            point: spec.point.clone(),
            ..Run::default()
        };
        run.flows.push(record("down", bulk(down * factor)));
        if spec.point["upload"] == "true" {
            run.flows.push(record("up", bulk(500_000.0)));
        }
        run.flows.push(record("video", video));
        report.runs.push(run);
    }
    report
}

#[test]
fn distributions_and_worst_lines_look_as_they_did() {
    let text = table(&report(), &TableOptions::default());
    golden("draws.txt", &text);
    // Twenty lines: the minimum is the third line, the tenth percentile is not.
    let row = |title: &str, arm: &str| row(&text, title, arm);
    let download = "goodput server → client to nothing";
    assert_eq!(
        row(download, "twice"),
        "20 0.10 0.10 2.00 2.00 2.00 2.00 2.00"
    );
    assert_eq!(
        row(download, "half"),
        "20 0.50 0.50 0.50 0.50 0.50 0.50 0.50"
    );
    let best = "goodput server → client to the best of all";
    assert_eq!(row(best, "half"), "20 0.25 0.25 0.25 0.25 0.25 0.25 0.25");
    let slow = "goodput server → client to slow: the best of half";
    assert_eq!(row(slow, "twice"), "20 0.20 0.20 4.00 4.00 4.00 4.00 4.00");
    let video = "chunks server → client, share in time to nothing";
    assert_eq!(row(video, "half"), "20 0.50 0.50 0.50 0.50 0.50 0.50 0.50");
    let all = "goodput server → client, flows of all kinds to nothing";
    assert_eq!(row(all, "half"), "20 1.00 1.00 1.00 1.00 1.00 1.00 1.00");
    assert_eq!(row(all, "twice"), row(download, "twice"));
    // A quarter of the downlink and half of the uplink; for `half` an eighth and half: 5/6.
    let both = "goodput by rate, sum of both directions to nothing";
    assert!(row(both, "half").contains("0.83"), "{text}");
    assert!(
        text.contains("twice: 0.10 to nothing, goodput server → client, at point 3 ("),
        "{text}"
    );
}

/// The numbers in a row of a table.
fn row(text: &str, title: &str, arm: &str) -> String {
    let after = text.split(&format!("\n{title}\n")).nth(1).unwrap();
    let row = after
        .lines()
        .find(|line| line.trim_start().starts_with(arm));
    let cells: Vec<String> = row.unwrap().split_whitespace().map(str::to_owned).collect();
    cells[1..].join(" ")
}

#[test]
fn repeats_of_a_point_are_one_line_with_their_means() {
    let repeat = "n = 20\nrepeat = { n = 3, off = { uniform = [0.9, 1.1] } }\n\
                  link.wan.forward.delay = \"off * 5 ms\"\n";
    let text = DRAWN.replace("n = 20\n", repeat);
    // `half` has 0.5, 1.5 and 0.4 of the baseline's first repeat; the baseline 1, 0.5 and 1.5.
    let by = |arm: &str, repeat: u32| match (arm, repeat) {
        ("half", n) => [1.0, 3.0, 0.8][n as usize - 1],
        ("baseline", n) => [1.0, 0.5, 1.5][n as usize - 1],
        _ => 1.0,
    };
    let text = table(&report_of(&text, by), &TableOptions::default());
    assert!(text.contains("20 lines of points drawn"), "{text}");
    assert!(text.contains("Each line was run 3 times"), "{text}");
    let download = "goodput server → client to nothing";
    assert_eq!(
        row(&text, download, "half"),
        "20 0.80 0.80 0.80 0.80 0.80 0.80 0.80"
    );
    // The odd repeats have a mean of 1.25, the even one 0.5.
    assert_eq!(
        row(&text, download, "chance"),
        "20 2.50 2.50 2.50 2.50 2.50 2.50 2.50"
    );
    let both = "goodput server → client to the best of all";
    assert!(row(&text, both, "baseline").starts_with("20 0.5"), "{text}");
    // Chance is compared with the baseline, not with the best.
    let best = text
        .split("\ngoodput server → client to the best of all\n")
        .nth(1);
    let table = best.unwrap().split("\n\n").next().unwrap();
    assert!(
        table.contains("baseline") && !table.contains("chance"),
        "{table}"
    );
}

/// Three repeats of each line: the baseline has 1, 0.5 and 1.5 of the download, and the arms have
/// four times as much in the last repeat as in the others.
fn repeated() -> Report {
    let repeat = "n = 20\nrepeat = { n = 3, off = { uniform = [0.9, 1.1] } }\n\
                  shown = \"down * off\"\nlink.wan.forward.delay = \"1 MB / shown\"\n";
    let by = |arm: &str, repeat: u32| match (arm, repeat) {
        ("baseline", n) => [1.0, 0.5, 1.5][n as usize - 1],
        (_, 3) => 4.0,
        _ => 1.0,
    };
    report_of(&DRAWN.replace("n = 20\n", repeat), by)
}

fn fail(report: &mut Report, arm: &str, repeats: &[&str]) {
    for run in &mut report.runs {
        if run.arm == arm && repeats.contains(&run.point["repeat"].as_str()) {
            run.errors.push("it failed".to_owned());
        }
    }
}

#[test]
fn arms_are_compared_over_the_repeats_that_both_have() {
    let download = "goodput server → client to nothing";
    let mut one = repeated();
    fail(&mut one, "half", &["3"]);
    let text = table(&one, &TableOptions::default());
    // 0.5 divided by the mean of 1 and 0.5; for the other arm, by the mean of all three.
    assert!(row(&text, download, "half").starts_with("20 0.67 0.67 0.67"));
    assert!(row(&text, download, "twice").starts_with("20 0.20 0.20 4.00"));
    let best = "goodput server → client to the best of all";
    assert!(row(&text, best, "half").starts_with("20 0.25"), "{text}");
    // The baseline's failure affects the arms that are compared with it.
    let mut one = repeated();
    fail(&mut one, "baseline", &["1"]);
    let text = table(&one, &TableOptions::default());
    assert!(
        row(&text, download, "half").starts_with("20 1.25"),
        "{text}"
    );
    // By number, not by order: the odd one is the third.
    assert!(
        row(&text, download, "chance").starts_with("20 3.00"),
        "{text}"
    );
    fail(&mut one, "baseline", &["3"]);
    let text = table(&one, &TableOptions::default());
    assert!(row(&text, download, "half").starts_with("20 1.00"));
    let chance = |line: &str| line.trim_start().starts_with("chance ");
    assert!(!text.lines().any(chance), "no odd repeat: {text}");
}

#[test]
fn hindsight_chooses_by_the_odd_repeats_and_is_judged_by_the_even_ones() {
    let all = "goodput server → client to the best of all";
    let slow = "goodput server → client to slow: the best of half";
    let repeat = "n = 20\nrepeat = { n = 2, off = { uniform = [0.9, 1.1] } }\n\
                  link.wan.forward.delay = \"off * 5 ms\"\n";
    let drawn = DRAWN.replace("n = 20\n", repeat);
    // Odd repeats: `twice` is best, and on one line the baseline. Even repeats: `half` has 8.
    let by = |arm: &str, n: u32| match (arm, n) {
        ("half", 2) => 16.0,
        _ => 1.0,
    };
    let report = report_of(&drawn, by);
    let text = table(&report, &TableOptions::default());
    assert_eq!(
        row(&text, all, "hindsight"),
        "20 0.12 0.12 0.25 0.25 0.25 0.25 0.25",
        "{text}"
    );
    // With one arm it is that arm.
    assert!(row(&text, slow, "hindsight").starts_with("20 1.00 1.00"));
    assert!(text.contains("\"hindsight\" is"), "{text}");
    // An arm that failed in one of the halves cannot be chosen.
    let mut one = report_of(&drawn, by);
    fail(&mut one, "half", &["2"]);
    let text = table(&one, &TableOptions::default());
    assert!(row(&text, all, "hindsight").starts_with("20 1.00 1.00"));
    // With a single run per point there is none.
    let once = table(&report_of(DRAWN, |_, _| 1.0), &TableOptions::default());
    assert!(!once.contains("hindsight"), "{once}");
}

#[test]
fn chance_takes_nothing_for_what_it_is() {
    let repeat = "n = 20\nrepeat = { n = 2, off = { uniform = [0.9, 1.1] } }\n\
                  link.wan.forward.delay = \"off * 5 ms\"\n";
    let text = DRAWN.replace("n = 20\n", repeat);
    let download = "goodput server → client to nothing";
    let chance = |by: fn(&str, u32) -> f64| {
        let text = table(&report_of(&text, by), &TableOptions::default());
        row(&text, download, "chance")
    };
    assert!(chance(|_, n| f64::from(2 - n)).starts_with("20 ∞"));
    assert!(chance(|_, _| 0.0).starts_with("20 1.00"));
    assert!(chance(|_, n| f64::from(n - 1)).starts_with("20 0.00"));
}

#[test]
fn a_line_is_told_by_what_its_repeats_share() {
    let report = repeated();
    let text = table(&report, &TableOptions::default());
    let (_, worst) = text.split_once("\nThe worst lines; ").unwrap();
    assert!(
        worst.starts_with("`--draw-seed 1 --repeats 3 --point N` runs one alone\n"),
        "{worst}"
    );
    for line in worst.lines().skip(1) {
        let (_, words) = line.split_once(" at point ").unwrap();
        assert!(words.contains("(down "), "{line}");
        for name in ["off", "repeat", "shown"] {
            assert!(!words.contains(name), "{line}");
        }
    }
    let csv = draws_csv(&report).unwrap().unwrap();
    assert!(csv.contains("down=") && !csv.contains("off="), "{csv}");
    // With a single run per point, everything is shown.
    let once = DRAWN.replace(
        "n = 20\n",
        "n = 20\nrepeat = { n = 1, off = { uniform = [0.9, 1.1] } }\n\
         link.wan.forward.delay = \"off * 5 ms\"\n",
    );
    let text = table(&report_of(&once, |_, _| 1.0), &TableOptions::default());
    let (_, worst) = text.split_once("\nThe worst lines; ").unwrap();
    assert!(
        worst.starts_with("`--draw-seed 1 --repeats 1 --point N`") && worst.contains(", off "),
        "{worst}"
    );
}

#[test]
fn the_page_has_what_the_terminal_has() {
    let report = repeated();
    let text = table(&report, &TableOptions::default());
    let page = html(&report);
    let body = page.split("<script").next().unwrap();
    assert!(body.contains("Each line was run 3 times"), "{body}");
    // Every row of the terminal, number by number.
    let drawn = body.split("<section id=\"draws\">").nth(1).unwrap();
    let drawn = drawn.split("</section>").next().unwrap();
    let shown = drawn
        .replace("<i class=\"swatch\"></i>", "")
        .replace('<', " <");
    let shown = shown
        .split('<')
        .map(|tag| tag.split_once('>').map_or("", |it| it.1));
    let shown: Vec<&str> = shown.flat_map(str::split_whitespace).collect();
    let shown = shown.join(" ");
    let (tables, worst) = text.split_once("\nThe worst lines; ").unwrap();
    let mut rows = 0;
    for line in tables.lines().skip(2) {
        let words: Vec<&str> = line.split_whitespace().collect();
        // A title consists of a score and a reference, which are separate on the page.
        if words.len() > 2 && !line.contains(" to ") {
            assert!(shown.contains(&words.join(" ")), "{line}\n{shown}");
            rows += 1;
        }
    }
    assert!(rows > 40, "{rows}");
    for name in ["chance 20", "hindsight 20", "true 12", "p5 p10 p25"] {
        assert!(shown.contains(name), "{name}: {shown}");
    }
    assert!(shown.contains("--draw-seed 1 --repeats 3 --point N"));
    for line in worst.lines().skip(1) {
        let (_, words) = line.split_once(" (").unwrap();
        assert!(shown.contains(words.trim_end_matches(')')), "{line}");
    }
    // The plots need the ratios.
    let (_, data) = page.split_once("id=\"data\">").unwrap();
    let data: serde_json::Value =
        serde_json::from_str(data.split("</script>").next().unwrap()).unwrap();
    let plots = data["draws"].as_array().unwrap();
    let download = |plot: &&serde_json::Value| plot["score"] == "goodput server → client";
    let download = plots.iter().find(download).unwrap();
    assert_eq!(download["against"], "to nothing");
    let curve = &download["arms"]["twice"];
    assert_eq!(curve["lines"], 20);
    assert_eq!(curve["ratios"][0], 0.2, "{curve}");
    assert_eq!(curve["ratios"][19], 4.0, "{curve}");
    // Infinite ratios are counted but not drawn.
    let without = report_of(DRAWN, |arm, _| if arm == "baseline" { 0.0 } else { 1.0 });
    let page = html(&without);
    assert!(page.contains("<td>∞</td>"), "{page}");
    assert!(page.contains("\"half\":{\"lines\":20,\"ratios\":[]}"));
}

#[test]
fn few_points_are_shown_one_by_one_too() {
    let mut few = report();
    few.runs
        .retain(|run| run.draw.is_some_and(|number| number <= 2));
    let text = table(&few, &TableOptions::default());
    assert!(text.contains("cubic · point 2"), "{text}");
    assert!(text.contains("to the best of all"), "{text}");
    assert!(!table(&report(), &TableOptions::default()).contains("point 2\n"));
}

#[test]
fn groups_of_drawn_points_have_titles_of_their_own() {
    let repeat = "n = 2\nrepeat = { n = 2, off = { uniform = [0.9, 1.1] } }\n\
                  link.wan.forward.delay = \"off * 5 ms\"\n";
    let swept = "[sweep]\nflow.down.start = [\"0 s\", \"1 s\"]\n[sweep.draw]\n";
    let text = DRAWN
        .replace("n = 20\n", repeat)
        .replace("[sweep.draw]\n", swept);
    let found = compare(&report_of(&text, |_, _| 1.0));
    let titles: Vec<String> = found.groups.iter().map(Group::title).collect();
    assert_eq!(titles[0], "cubic · point 1 · start 0 s · repeat 1");
    assert_eq!(titles[7], "cubic · point 2 · start 1 s · repeat 2");
    let different: BTreeSet<&String> = titles.iter().collect();
    assert_eq!((titles.len(), different.len()), (8, 8), "{titles:?}");
    assert!(found.groups.iter().all(|group| group.rows.len() == 3));
    // Points with equal values are still different points.
    let two = DRAWN.replace("n = 20\n", "n = 20\nseed = 2\n").replace(
        "{ log-uniform = [\"5 Mbit/s\", \"20 Mbit/s\"] }",
        "\"10 Mbit/s\"",
    );
    let found = compare(&report_of(&two, |_, _| 1.0));
    assert_eq!(found.groups.len(), 20);
    assert!(found.groups.iter().all(|group| group.rows[0].runs == 1));
}

#[test]
fn rows_of_lines_join_with_those_of_their_runs() {
    let repeat = "n = 3\nrepeat = { n = 2, off = { uniform = [0.9, 1.1] } }\n\
                  link.wan.forward.delay = \"off * 5 ms\"\n";
    let swept = "[sweep]\nflow.down.start = [\"0 s\", \"1 s\"]\n[sweep.draw]\n";
    let text = DRAWN
        .replace("n = 20\n", repeat)
        .replace("[sweep.draw]\n", swept);
    let report = report_of(&text, |_, _| 1.0);
    let keys = |csv: &str, names: [&str; 3]| {
        let mut rows = csv.lines();
        let heads: Vec<&str> = rows.next().unwrap().split(',').collect();
        let at = names.map(|name| heads.iter().position(|head| *head == name).unwrap());
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        for row in rows {
            let cells: Vec<&str> = row.split(',').collect();
            *found.entry(at.map(|at| cells[at]).join(",")).or_default() += 1;
        }
        found
    };
    let names = ["line", "arm", "draw"];
    let lines = keys(&draws_csv(&report).unwrap().unwrap(), names);
    let runs = keys(&report.runs_csv().unwrap(), names);
    // Three points at two swept values, with three arms.
    assert_eq!(lines.len(), 18);
    assert_eq!(
        lines.keys().collect::<Vec<_>>(),
        runs.keys().collect::<Vec<_>>()
    );
    assert!(lines.contains_key("cubic/1/flow.down.start=1 s/point=2,half,2"));
}

#[test]
fn one_arm_alone_is_compared_with_nothing() {
    for arm in ["baseline", "half"] {
        let mut one = repeated();
        one.runs.retain(|run| run.arm == arm);
        let text = table(&one, &TableOptions::default());
        let expected = format!("There are only results of '{arm}', so there is nothing");
        assert!(text.contains(&expected), "{text}");
        for empty in ["best of", "hindsight", "median (min)", "worst"] {
            assert!(!text.contains(empty), "{empty}: {text}");
        }
        // The effect of chance is still shown, and so is each point.
        let chance = text.lines().any(|line| line.contains("chance  "));
        assert_eq!(chance, arm == "baseline", "{text}");
        assert!(text.contains("point 20 · repeat 3"), "{text}");
        let page = html(&one);
        assert!(page.contains("so there is nothing to compare"));
        assert!(!page.contains("to the best of all"), "{page}");
        assert_eq!(page.contains("<h3>goodput "), arm == "baseline", "{page}");
        // A program finds the same columns.
        let csv = draws_csv(&one).unwrap().unwrap();
        assert!(csv.contains(",to_nothing,to_best,to_slow,"), "{csv}");
    }
}

#[test]
fn a_row_for_each_line_score_and_arm() {
    let rows = draws_csv(&report()).unwrap().unwrap();
    let mut lines = rows.lines();
    let head = lines.next().unwrap();
    assert_eq!(
        head,
        "line,draw,cc,seed,arm,score,value,to_nothing,to_best,to_slow,drawn"
    );
    let of_twice: Vec<&str> = lines
        .filter(|line| line.starts_with("cubic/1/point=3,3,cubic,1,twice,goodput server"))
        .collect();
    let [only] = of_twice.as_slice() else {
        panic!("{of_twice:?}");
    };
    let cells: Vec<&str> = only.split(',').collect();
    assert!(
        cells[7].starts_with("0.1") && cells[10].starts_with("down="),
        "{only}"
    );
    let plain = Scenario::parse("drawn.toml", DRAWN.split("[sweep.draw]").next().unwrap()).unwrap();
    let plain = Report::new("sim", &plain);
    assert_eq!(draws_csv(&plain).unwrap(), None);
    assert!(!html(&plain).contains("drawn at random"));
}

#[test]
fn worst_lines_of_one_point_say_by_what_they_differ() {
    let sweep = "[sweep]\nseed = [1, 2]\nlink.wan.reverse.delay = [\"1 ms\", \"2 ms\"]\n";
    let swept = DRAWN.replace("[sweep.draw]\n", &format!("{sweep}[sweep.draw]\n"));
    let text = table(&report_of(&swept, |_, _| 1.0), &TableOptions::default());
    let (_, worst) = text.split_once("\nThe worst lines; ").unwrap();
    let lines: Vec<&str> = worst.lines().skip(1).collect();
    let different: BTreeSet<&str> = lines.iter().copied().collect();
    assert_eq!(different.len(), lines.len(), "{worst}");
    for expected in ["link.wan.reverse.delay 1 ms", "seed 2"] {
        assert!(worst.contains(expected), "{expected} in {worst}");
    }
}
