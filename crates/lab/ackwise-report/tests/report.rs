//! Table, page and expectations of a made-up record.

#[path = "support/golden.rs"]
mod golden;
mod support;

use ackwise_report::{
    Report, TableOptions, Tone, agreements, agreements_text, compare, expectations,
    expectations_text, findings, html, table,
};
use ackwise_scenario::Metric;
use ackwise_scenario::Scenario;
use ackwise_scenario::record::FlowRecord;
use golden::golden;
use support::{record, scenario};

fn plain(report: &Report) -> String {
    table(report, &TableOptions::default())
}

#[test]
fn tables_look_as_they_did() {
    for name in ["asymmetric", "short-flows", "lossy"] {
        golden(&format!("{name}.txt"), &plain(&record(&scenario(name))));
    }
}

#[test]
fn a_table_fits_a_terminal_and_has_colours_only_when_asked() {
    for name in [
        "asymmetric",
        "symmetric",
        "short-flows",
        "request-response",
        "lossy",
    ] {
        let report = record(&scenario(name));
        let text = plain(&report);
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 110, "{name}: {widest}\n{text}");
        assert!(!text.contains('\u{1b}'));
        let colourful = TableOptions {
            color: true,
            ..TableOptions::default()
        };
        assert!(table(&report, &colourful).contains("\u{1b}["));
    }
}

#[test]
fn an_empty_report_is_no_trouble() {
    let mut report = record(&scenario("quick"));
    report.runs.clear();
    assert!(plain(&report).contains("arm"));
    assert!(html(&report).contains("</html>"));
    assert!(compare(&report).groups.is_empty());
    let mut one = record(&scenario("quick"));
    one.runs.retain(|run| run.arm == "adaptive");
    let row = &compare(&one).groups[0].rows[0];
    assert!(
        row.ratio(Metric::Goodput).is_none(),
        "nothing to compare with"
    );
    assert!(html(&one).contains("adaptive"));
}

#[test]
fn ratios_are_formed_seed_by_seed_and_failures_are_shown() {
    let mut report = record(&scenario("lossy"));
    let wanted = |run: &ackwise_scenario::record::Run| {
        run.cc == "cubic" && run.point.values().any(|v| v == "1 %")
    };
    report.runs.retain(wanted);
    for run in &mut report.runs {
        let base = 10e6 * run.seed as f64;
        run.totals.goodput_bps = if run.arm == "baseline" {
            base
        } else {
            base * 1.5
        };
    }
    let comparison = compare(&report);
    let stat = comparison.groups[0]
        .row("adaptive")
        .unwrap()
        .ratio(Metric::Goodput)
        .unwrap();
    assert_eq!(
        (stat.min, stat.median, stat.max, stat.count),
        (1.5, 1.5, 1.5, 6)
    );
    let value = comparison.groups[0]
        .row("baseline")
        .unwrap()
        .value(Metric::Goodput);
    assert_eq!(value, Some(35e6));

    report.runs[0].errors.push("the receiver <died>".to_owned());
    report.runs[1].totals.content.as_mut().unwrap().ok = false;
    let text = plain(&report);
    assert!(
        text.contains("baseline !") && text.contains("the receiver <died>"),
        "{text}"
    );
    assert!(text.contains("contents differ"), "{text}");
    let page = html(&report);
    assert!(page.contains("What went wrong") && page.contains("the receiver &lt;died&gt;"));
    let trust = findings(&report, &compare(&report)).pop().unwrap();
    assert_eq!((trust.tone, trust.figure.as_str()), (Tone::Bad, "2 of 18"));
}

/// After a signal, or while other machines have not ended, some seeds are missing.
#[test]
fn rows_of_fewer_seeds_say_so() {
    let mut report = record(&scenario("lossy"));
    let whole = plain(&report);
    assert!(
        whole.contains("Median over 6 seeds; ±") && !whole.contains("seeds)"),
        "{whole}"
    );
    report.runs.retain(|run| match run.arm.as_str() {
        "baseline" => true,
        "adaptive" => run.seed <= 4,
        _ => run.seed == 1,
    });
    for text in [plain(&report), html(&report)] {
        let said = text.replace("medians", "median").to_lowercase();
        assert!(said.contains("median over 1 to 6 seeds"), "{text}");
        assert!(text.contains("adaptive (4 seeds)"), "{text}");
        assert!(text.contains("every-n-16 (1 seed)"), "{text}");
        assert!(!text.contains("baseline ("), "{text}");
    }
}

#[test]
fn a_title_tells_values_of_the_same_key_apart() {
    let text = scenario("symmetric").source.text;
    let rates = r#"["10 Mbit/s", "20 Mbit/s"]"#;
    let ways = ["forward", "reverse"].map(|way| format!("link.wan.{way}.rate = {rates}"));
    let sweep = format!("[sweep]\nzip = {{ {} }}\n", ways.join(", "));
    let swept = Scenario::parse("x", &text.replace("[sweep]\n", &sweep)).unwrap();
    let title = compare(&record(&swept)).groups[0].title();
    assert!(
        title.ends_with(" · forward.rate 10 Mbit/s · reverse.rate 10 Mbit/s"),
        "{title}"
    );
    let alone = format!("[sweep]\nlink.wan.forward.rate = {rates}\n");
    let swept = Scenario::parse("x", &text.replace("[sweep]\n", &alone)).unwrap();
    let title = compare(&record(&swept)).groups[0].title();
    assert!(title.ends_with(" · rate 10 Mbit/s"), "{title}");
}

#[test]
fn goodput_is_shown_where_not_all_flows_have_completion_times() {
    let mut report = record(&scenario("short-flows"));
    let caption = "the baseline's goodput";
    let has_goodput_finding = |report: &Report| {
        let found = findings(report, &compare(report));
        found.iter().any(|one| one.caption == caption)
    };
    assert!(!plain(&report).contains("goodput") && !has_goodput_finding(&report));
    assert!(html(&report).contains("\"only_completes\":true"));
    for run in &mut report.runs {
        let mut traffic = run.totals.clone();
        traffic.completion = None;
        run.flows = vec![FlowRecord {
            flow: "bulk".to_owned(),
            cc: None,
            traffic,
        }];
    }
    let text = plain(&report);
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(
        text.contains("goodput") && has_goodput_finding(&report),
        "{text}"
    );
    assert!(widest <= Some(120), "{widest:?}\n{text}");
    let page = html(&report);
    assert!(page.contains("Goodput<span>Mbit/s"));
    assert!(page.contains("\"only_completes\":false"));
}

#[test]
fn what_hurt_is_a_finding() {
    let mut report = record(&scenario("symmetric"));
    for run in report
        .runs
        .iter_mut()
        .filter(|run| run.arm == "tack" && run.cc == "reno")
    {
        run.totals.goodput_bps *= 0.5;
    }
    let found = findings(&report, &compare(&report));
    let bad: Vec<_> = found.iter().filter(|f| f.tone == Tone::Bad).collect();
    assert_eq!(bad.len(), 1, "{found:#?}");
    assert_eq!(bad[0].about, "tack");
    assert!(bad[0].caption.contains("reno"));
}

#[test]
fn expectations_are_met_or_missed() {
    let scenario = scenario("asymmetric");
    let mut report = record(&scenario);
    let results = expectations(&report, &scenario);
    assert_eq!(results.len(), 6, "cubic, bbr; reno; three of ACKs");
    assert!(results.iter().all(|result| result.met), "{results:#?}");
    for run in report
        .runs
        .iter_mut()
        .filter(|run| run.arm == "adaptive" && run.cc == "bbr")
    {
        run.totals.goodput_bps = 1.0;
    }
    report.runs.retain(|run| run.cc != "reno");
    let results = expectations(&report, &scenario);
    assert_eq!(results.len(), 4, "reno was not run");
    let missed: Vec<&str> = results
        .iter()
        .filter(|result| !result.met)
        .map(|result| result.group.as_str())
        .collect();
    assert_eq!(missed, ["bbr"]);
    let text = expectations_text(&results);
    assert!(
        text.starts_with("MISSED  bbr adaptive: goodput ≥ 3.5 × baseline"),
        "{text}"
    );
    report.runs.retain(|run| run.arm != "baseline");
    let results = expectations(&report, &scenario);
    assert!(
        results.iter().all(|r| !r.met && !r.is_missed()),
        "without a baseline nothing can be met or missed"
    );
    let text = expectations_text(&results);
    assert!(
        text.contains("not judged") && !text.contains("MISSED"),
        "{text}"
    );
}

/// A symmetric report of cubic with these retransmissions of baseline and adaptive, by seed.
fn with_retransmits(pairs: &[[u64; 2]]) -> (Scenario, Report) {
    let seeds: Vec<String> = (1..=pairs.len()).map(|seed| seed.to_string()).collect();
    let sweep = format!("[sweep]\nseed = [{}]\n", seeds.join(", "));
    let text = scenario("symmetric").source.text;
    let scenario = Scenario::parse("x", &text.replace("[sweep]\n", &sweep)).unwrap();
    let mut report = record(&scenario);
    let wanted = |arm: &str| {
        ["baseline", "adaptive"]
            .iter()
            .position(|name| *name == arm)
    };
    report
        .runs
        .retain(|run| run.cc == "cubic" && wanted(&run.arm).is_some());
    for run in &mut report.runs {
        let arm = wanted(&run.arm).unwrap();
        run.totals.retransmits = pairs[run.seed as usize - 1][arm];
    }
    (scenario, report)
}

#[test]
fn a_ratio_to_zero_is_infinite_and_counts() {
    let found = |pairs: &[[u64; 2]]| {
        let (scenario, report) = with_retransmits(pairs);
        let results = expectations(&report, &scenario);
        let comparison = compare(&report);
        let row = comparison.groups[0].row("adaptive").unwrap();
        let stat = row.ratio(Metric::Retransmits).unwrap();
        let result = results.into_iter().find(|one| one.metric == "retransmits");
        let result = result.unwrap();
        assert_eq!(result.found, Some(stat.median));
        (result.met, stat, expectations_text(&[result]))
    };
    let (met, stat, text) = found(&[[0, 5], [10, 10], [0, 8]]);
    assert!(!met && stat.median == f64::INFINITY && stat.count == 3);
    assert!(
        text.starts_with("MISSED") && text.contains("found ∞"),
        "{text}"
    );
    // With two seeds, the worse one determines the median.
    assert_eq!(found(&[[0, 5], [10, 10]]).1.median, f64::INFINITY);
    assert_eq!(found(&[[10, 10], [0, 5], [10, 11]]).1.median, 1.1);
    let (met, stat, _) = found(&[[0, 0]]);
    assert!(met && stat.median == 1.0);
}

#[test]
fn infinite_ratios_are_shown_and_leave_the_page_whole() {
    let mut report = record(&scenario("quick"));
    for run in report.runs.iter_mut().filter(|run| run.arm == "baseline") {
        run.totals.goodput_bps = 0.0;
    }
    assert!(plain(&report).contains("∞×"), "{}", plain(&report));
    let page = html(&report);
    assert!(page.contains("∞×"));
    let ratio = &embedded(&page)["groups"][0]["rows"][1]["ratios"]["goodput"];
    assert!(
        ratio["median"].is_null() && ratio["count"] == 1,
        "{ratio:#}"
    );
}

#[test]
fn an_arm_whose_transfers_never_finish_is_seen() {
    let mut text = scenario("short-flows").source.text;
    text.push_str("\n[[expect]]\narm = \"adaptive\"\nmetric = \"completions\"\nmin_ratio = 0.99\n");
    let scenario = Scenario::parse("x", &text).unwrap();
    let mut report = record(&scenario);
    let completions = expectations(&report, &scenario).pop().unwrap();
    assert!(completions.met, "{completions:?}");
    assert!(!plain(&report).contains("late"));
    let of = |report: &Report, arm: &str| {
        let text = plain(report);
        let line = text.lines().find(|line| line.contains(&format!(" {arm} ")));
        line.unwrap().to_owned()
    };
    assert!(
        of(&report, "adaptive").contains(" 300 "),
        "{}",
        plain(&report)
    );
    // The ratio takes up a column only where it says something.
    let width = |report: &Report| plain(report).lines().next().unwrap().chars().count();
    let narrow = width(&report);
    for run in report.runs.iter_mut().filter(|run| run.arm == "adaptive") {
        let completion = run.totals.completion.as_mut().unwrap();
        completion.count = 60;
        completion.unfinished = 240;
    }
    assert!(width(&report) > narrow);
    // Simulated runs have no CPU time.
    report.runs.iter_mut().for_each(|run| run.nodes.clear());
    let widest = plain(&report).lines().map(|l| l.chars().count()).max();
    assert!(widest <= Some(100), "{widest:?}\n{}", plain(&report));
    for run in report.runs.iter_mut().filter(|run| run.arm == "adaptive") {
        run.totals.completion.as_mut().unwrap().late = Some(120);
    }
    let line = of(&report, "adaptive");
    assert!(line.contains(" 60  0.20×  40 % "), "{}", plain(&report));
    let completions = expectations(&report, &scenario).pop().unwrap();
    assert!(completions.is_missed() && completions.found == Some(0.2));
    let page = html(&report);
    assert!(page.contains("Done<span>transfers</span>") && page.contains("Late<span>of chunks"));
    let found = findings(&report, &compare(&report));
    let done = found.iter().find(|f| f.caption.contains("completed"));
    let done = done.unwrap();
    assert_eq!((done.tone, done.figure.as_str()), (Tone::Bad, "0.20×"));
}

#[test]
fn engines_agree_within_what_the_scenario_says() {
    let mut text = scenario("quick").source.text;
    text.push_str("\n[[agree]]\narm = \"base*\"\nmetric = \"goodput\"\nwithin = \"3 %\"\n");
    let scenario = Scenario::parse("quick", &text).unwrap();
    let a = record(&scenario);
    let mut b = a.clone();
    b.runs[0].totals.goodput_bps *= 1.02;
    b.runs[1].totals.goodput_bps *= 2.0;
    let results = agreements(&a, &b, &scenario);
    assert_eq!(results.len(), 1, "adaptive is not spoken of");
    assert!(results[0].met);
    b.runs[0].totals.goodput_bps *= 1.02;
    let results = agreements(&a, &b, &scenario);
    assert!(!results[0].met);
    assert!(agreements_text(&results).starts_with("DIFFER  baseline/cubic/1 goodput"));
    b.runs.remove(0);
    assert!(
        agreements(&a, &b, &scenario).is_empty(),
        "nothing to compare with"
    );
}

/// The data of the page, as its script reads it.
fn embedded(page: &str) -> serde_json::Value {
    let start = "<script type=\"application/json\" id=\"data\">";
    let from = page.find(start).unwrap() + start.len();
    let to = from + page[from..].find("</script>").unwrap();
    serde_json::from_str(&page[from..to]).unwrap()
}

#[test]
fn the_page_holds_everything_and_loads_nothing() {
    for name in ["asymmetric", "short-flows", "lossy"] {
        let page = html(&record(&scenario(name)));
        assert!(page.contains("default-src 'none'"));
        // The only address is in the banner of the vendored script.
        let rest = page.replace("/*! https://github.com/leeoniya/uPlot", "");
        for word in [
            "http://",
            "https://",
            "src=",
            "href=",
            "url(",
            "@import",
            "import(",
            "fetch(",
            "XMLHttpRequest",
            "WebSocket",
        ] {
            assert!(!rest.contains(word), "{name}: {word}");
        }
        assert!(!page.contains("@{"), "a hole in the template was left open");
        assert!(
            page.contains("Permission is hereby granted"),
            "uPlot's licence"
        );
        assert_eq!(
            page.matches("<script").count(),
            page.matches("</script>").count()
        );
        assert!(page.len() < 2_000_000, "{}", page.len());
    }
}

#[test]
fn the_page_embeds_valid_data() {
    let report = record(&scenario("asymmetric"));
    let data = embedded(&html(&report));
    assert_eq!(data["arms"].as_array().unwrap().len(), 9);
    assert_eq!(data["groups"].as_array().unwrap().len(), 3);
    let runs = data["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 27);
    let series = &runs[0]["series"];
    let times = series["t_s"].as_array().unwrap().len();
    assert!((100..=400).contains(&times), "{times}");
    for key in ["goodput_bps", "ack_rate_hz", "rtt_us", "cwnd_segments"] {
        assert_eq!(series[key].as_array().unwrap().len(), times, "{key}");
    }
    let short = embedded(&html(&record(&scenario("short-flows"))));
    assert_eq!(short["runs"][0]["completion"].as_array().unwrap().len(), 3);
}

#[test]
fn hostile_names_stay_text() {
    let mut report = record(&scenario("quick"));
    let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(1)>@{data}";
    report.scenario.name = hostile.to_owned();
    report.scenario.about = hostile.to_owned();
    report.scenario.text = hostile.to_owned();
    report.environment.kernel = Some(hostile.to_owned());
    report.notes.push(hostile.to_owned());
    for run in &mut report.runs {
        run.arm = format!("{}{hostile}", run.arm);
        run.cc = hostile.to_owned();
        run.errors.push(hostile.to_owned());
        run.point.insert(hostile.to_owned(), hostile.to_owned());
    }
    let page = html(&report);
    assert!(!page.contains("<script>alert") && !page.contains("<img"));
    assert_eq!(page.matches("</script>").count(), 3);
    let data = embedded(&page);
    assert!(data["arms"][0].as_str().unwrap().ends_with(hostile));
}

#[test]
fn a_record_from_json_gives_the_same_page() {
    let report = record(&scenario("quick"));
    let again = Report::from_json(&report.to_json().unwrap()).unwrap();
    assert_eq!(html(&again), html(&report));
}
