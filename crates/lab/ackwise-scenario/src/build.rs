//! Turns the tree of a file into a checked [`Scenario`].

use std::cell::RefCell;
use std::time::Duration;

use crate::limits::{MIN_DURATION, WEEK};
use crate::model::{Flow, Parsed, RecordOptions, Scenario};
use crate::trace::TraceFiles;
use crate::{arms, expect, flows, links, sweep};
use ackwise_config::Source;
use ackwise_config::diagnostic::Collector;
use ackwise_config::section::{Section, Word};
use ackwise_config::tree::Table;

/// Builds as much as possible. Mistakes go to `errors`; the result is of use only if there are
/// none.
pub(crate) fn scenario(
    tree: &Table,
    source: &Source,
    files: &TraceFiles,
    errors: &RefCell<Collector>,
) -> Option<Scenario> {
    let known = [
        "scenario", "node", "link", "flow", "sweep", "arm", "record", "expect", "agree",
    ];
    let top = Section::open(tree, &(0..0), "a scenario", &known, errors);
    let Head {
        name,
        about,
        duration,
    } = head(&top);
    let nodes = links::nodes(&top);
    let links = links::links(&top, &nodes, files);
    let flows = flows::flows(&top, &nodes, &links, duration);
    let mut sweep = sweep::sweep(&top);
    if sweep.cc.is_empty() {
        sweep.cc = vec![common_cc(&flows)];
    } else if !flows.is_empty() && flows.iter().all(|flow| flow.fixed_cc.is_some()) {
        let message = "every flow fixes its own 'cc', so there is none to sweep; \
                       remove it here or from the flows";
        let span = top
            .table("sweep")
            .and_then(|(table, _)| table.entry("cc"))
            .map_or(0..0, |entry| entry.key_span.clone());
        top.error(&span, message);
    }
    let arms = arms::arms(&top, &nodes, &links, &flows);
    let record = record(&top, duration);
    let expects = expect::expects(&top, &arms, &sweep, &flows);
    let agrees = expect::agrees(&top, &arms, &flows);
    Some(Scenario {
        name: name?.text,
        about,
        duration: duration?,
        nodes,
        links,
        flows,
        sweep,
        arms,
        record,
        expects,
        agrees,
        source: source.clone(),
        files: files.clone(),
        parsed: Parsed::default(),
    })
}

/// The congestion control that runs are labelled with if none is swept.
fn common_cc(flows: &[Flow]) -> String {
    let mut fixed = flows
        .iter()
        .map(|flow| flow.fixed_cc.as_deref().unwrap_or("cubic"));
    let first = fixed.next().unwrap_or("cubic");
    let same = fixed.all(|cc| cc == first);
    // A flow without a fixed congestion control needs a real one.
    let open = flows.iter().any(|flow| flow.fixed_cc.is_none());
    match (same, open) {
        (true, _) => first.to_owned(),
        (false, true) => "cubic".to_owned(),
        (false, false) => "mixed".to_owned(),
    }
}

/// The table `[scenario]`; a missing or wrong value is `None`.
#[derive(Default)]
struct Head {
    name: Option<Word>,
    about: String,
    duration: Option<Duration>,
}

fn head(top: &Section<'_>) -> Head {
    let Some((table, span)) = top.table("scenario") else {
        if !top.has("scenario") {
            top.error(
                &(0..0),
                "there is no [scenario]; begin with [scenario], name = \"…\" and duration = \"30 s\"",
            );
        }
        return Head::default();
    };
    let section = Section::open(
        table,
        span,
        "[scenario]",
        &["name", "about", "duration"],
        top.errors,
    );
    let name = section.required_name("\"my-network\"");
    let about = section.word("about").map_or(String::new(), |w| w.text);
    if !section.has("duration") {
        section.error(
            span,
            "[scenario] has no 'duration'; add duration = \"30 s\"",
        );
    }
    let duration = section.time("duration", MIN_DURATION, WEEK);
    Head {
        name,
        about: about.trim().to_owned(),
        duration,
    }
}

fn record(top: &Section<'_>, duration: Option<Duration>) -> RecordOptions {
    let mut options = RecordOptions {
        interval: Duration::from_millis(100),
        series: true,
        capture: false,
    };
    let Some((table, span)) = top.table("record") else {
        return options;
    };
    let known = ["interval", "series", "capture"];
    let section = Section::open(table, span, "[record]", &known, top.errors);
    let longest = duration.unwrap_or(WEEK);
    if let Some(interval) = section.time("interval", Duration::from_millis(1), longest) {
        options.interval = interval;
    }
    if let Some(series) = section.flag("series") {
        options.series = series;
    }
    if let Some(capture) = section.flag("capture") {
        options.capture = capture;
    }
    options
}
