//! Rates and delays of a link that change over time.

use std::sync::Arc;
use std::time::Duration;

use crate::limits::MAX_DELAY;
use crate::model::Direction;
use crate::trace::{Generator, Recipe, SPAN_NS, TraceFiles, rate_or_zero};
use ackwise_config::section::{Section, Word};
use ackwise_config::tree::{Kind, Value};
use ackwise_config::units;
use ackwise_queue::{
    DelaySchedule, LinkChanges, Outage, Outages, RateSchedule, ScheduleError, Step,
};
use ackwise_rng::Rng;

/// Number of intervals for which hand-overs are drawn; then they repeat.
const HANDOVERS: u64 = 256;
/// The shortest time between two hand-overs.
const MIN_BETWEEN: Duration = Duration::from_millis(10);
/// The longest time between two hand-overs.
const MAX_BETWEEN: Duration = Duration::from_secs(86_400);

/// The parts of a link that reading its rate needs.
pub(crate) struct LinkContext<'a> {
    /// Bytes that the link adds to each packet.
    pub overhead: u32,
    /// The traces of the scenario.
    pub files: &'a TraceFiles,
}

/// Placeholder for a wrong rate that has been reported. It keeps keys that need a rate from being
/// reported as well. No engine uses it.
const WRONG_RATE_BPS: u64 = 1_000_000_000;

/// Reads `rate`: a rate, or a table that describes how it changes.
pub(crate) fn rate(section: &Section<'_>, direction: &mut Direction, context: &LinkContext<'_>) {
    if section.has("rate") {
        direction.rate_bps.get_or_insert(WRONG_RATE_BPS);
    }
    match section.value("rate").map(|value| &value.kind) {
        None => {}
        Some(Kind::Table(_)) => {
            if let Some(rate) = changing_rate(section, context) {
                direction.rate_bps = Some(rate.mean_bps());
                direction.rate_changes = Some(Arc::new(rate));
            }
        }
        Some(_) => {
            if let Some(rate) = section.rate("rate") {
                direction.rate_bps = Some(rate);
                direction.rate_changes = None;
            }
        }
    }
}

/// The ways in which a rate can change.
const RATE_KINDS: [&str; 5] = ["trace", "steps", "lte", "5g", "leo"];
/// The largest mean of a generated rate; its peaks are up to twice that.
const MAX_MEAN_BPS: u64 = 400_000_000_000;

fn changing_rate(outer: &Section<'_>, context: &LinkContext<'_>) -> Option<RateSchedule> {
    let (table, span) = outer.table("rate")?;
    let section = Section::open_unchecked(table, span, "'rate'", outer.errors);
    match one_of(&section, &RATE_KINDS)? {
        "trace" => {
            section.only(&["trace"]);
            let Word { text, span } = section.word("trace")?;
            let made = context.files.trace(&text).and_then(|trace| {
                let made = trace.schedule(context.overhead);
                made.map_err(|error| format!("the trace '{text}' cannot be used: {error}"))
            });
            made.map_err(|message| section.error(&span, message)).ok()
        }
        "steps" => {
            section.only(&["steps", "repeat"]);
            let example = "steps = [[\"0 s\", \"20 Mbit/s\"], [\"10 s\", \"5 Mbit/s\"]]";
            let (steps, period) = steps(&section, example, rate_or_zero)?;
            let made = RateSchedule::steps(steps, period);
            made.map_err(|error| schedule_error(&section, &error)).ok()
        }
        kind => {
            section.only(&[kind]);
            let generator = Generator::ALL.into_iter().find(|it| it.name() == kind)?;
            let recipe = recipe(&section, generator)?;
            let made = recipe.make(SPAN_NS).schedule(context.overhead);
            made.map_err(|error| schedule_error(&section, &error)).ok()
        }
    }
}

/// Reads the table of a generated trace: its mean and seed.
fn recipe(outer: &Section<'_>, generator: Generator) -> Option<Recipe> {
    let (table, span) = outer.table(generator.name())?;
    let what = format!("'{}'", generator.name());
    let section = Section::open(table, span, what, &["mean", "seed"], outer.errors);
    if !section.has("mean") {
        let message = format!("{} has no 'mean'; add mean = \"20 Mbit/s\"", section.what);
        section.error(&section.span, message);
    }
    if let Some(Kind::Text(text)) = section.value("mean").map(|value| &value.kind)
        && rate_or_zero(text) == Ok(0)
    {
        let message = "a 'mean' of zero carries nothing; write e.g. mean = \"20 Mbit/s\"";
        section.error(&section.span_of("mean"), message);
        return None;
    }
    let mean_bps = section.rate("mean")?;
    if mean_bps > MAX_MEAN_BPS {
        let message = "a 'mean' is at most 400 Gbit/s: the peaks are twice as high";
        section.error(&section.span_of("mean"), message);
        return None;
    }
    Some(Recipe {
        generator,
        mean_bps,
        seed: seed(&section)?,
    })
}

/// Reads `seed`; the default is 1.
fn seed(section: &Section<'_>) -> Option<u64> {
    match section.has("seed") {
        true => section.whole("seed", 0, u32::MAX).map(u64::from),
        false => Some(1),
    }
}

/// Placeholder for a wrong delay that has been reported; any jitter fits it.
const WRONG_DELAY: Duration = MAX_DELAY;

/// Reads `delay`: a time, or a table that describes how it changes.
pub(crate) fn delay(section: &Section<'_>, direction: &mut Direction) {
    match section.value("delay").map(|value| &value.kind) {
        None => {}
        Some(Kind::Table(_)) => {
            let Some(changing) = changing_delay(section) else {
                direction.delay = WRONG_DELAY;
                return;
            };
            direction.delay = Duration::from_nanos(changing.delay.min_delay());
            direction.delay_changes = Some(Arc::new(changing.delay));
            direction.outages = changing.outages.map(Arc::new);
        }
        Some(_) => {
            direction.delay = section
                .time("delay", Duration::ZERO, MAX_DELAY)
                .unwrap_or(WRONG_DELAY);
            (direction.delay_changes, direction.outages) = (None, None);
        }
    }
}

/// A delay that changes, and the outages that come with it.
struct ChangingDelay {
    delay: DelaySchedule,
    outages: Option<Outages>,
}

fn changing_delay(outer: &Section<'_>) -> Option<ChangingDelay> {
    let (table, span) = outer.table("delay")?;
    let section = Section::open_unchecked(table, span, "'delay'", outer.errors);
    if one_of(&section, &["steps", "handover"])? == "handover" {
        section.only(&["handover"]);
        let (table, span) = section.table("handover")?;
        let known = ["every", "delay", "outage", "seed"];
        let inner = Section::open(table, span, "'handover'", &known, outer.errors);
        return handover(&inner);
    }
    section.only(&["steps", "repeat"]);
    let example = "steps = [[\"0 s\", \"20 ms\"], [\"15 s\", \"35 ms\"]]";
    let (steps, period) = steps(&section, example, |text| match units::time(text)? {
        delay if delay > MAX_DELAY => Err(format!("a delay is at most {MAX_DELAY:?}")),
        delay => Ok(nanos(delay)),
    })?;
    let made = DelaySchedule::steps(steps, period);
    let made = made.map_err(|error| schedule_error(&section, &error));
    made.ok().map(|delay| ChangingDelay {
        delay,
        outages: None,
    })
}

/// Reads hand-overs: at each interval a new delay, drawn uniformly from a range, after a pause in
/// which nothing is sent.
fn handover(section: &Section<'_>) -> Option<ChangingDelay> {
    for (key, example) in [("every", "\"15 s\""), ("delay", "[\"20 ms\", \"40 ms\"]")] {
        if !section.has(key) {
            let message = format!("'handover' has no '{key}'; add {key} = {example}");
            section.error(&section.span, message);
        }
    }
    let every = section.time("every", MIN_BETWEEN, MAX_BETWEEN).map(nanos);
    let delays = range(section, "delay", MAX_DELAY);
    let outages = match section.has("outage") {
        true => range(section, "outage", MAX_BETWEEN),
        false => Some([0, 0]),
    };
    let seed = seed(section)?;
    let (every, delays, outages) = (every?, delays?, outages?);
    if outages[1] >= every {
        let message = "an 'outage' is shorter than 'every'";
        section.error(&section.span_of("outage"), message);
        return None;
    }
    let (mut delay_draws, mut outage_draws) = (Rng::stream(seed, 1), Rng::stream(seed, 2));
    let within = |draws: &mut Rng, [least, most]: [u64; 2]| least + draws.below(most - least + 1);
    let (mut steps, mut spans) = (Vec::new(), Vec::new());
    for round in 0..HANDOVERS {
        let at_ns = round * every;
        let value = within(&mut delay_draws, delays);
        steps.push(Step { at_ns, value });
        let end = at_ns + within(&mut outage_draws, outages);
        // The run begins with the link up.
        if round > 0 && end > at_ns {
            spans.push(Outage { start: at_ns, end });
        }
    }
    let period = HANDOVERS * every;
    let failed = |error: ScheduleError| schedule_error(section, &error);
    let outages = match spans.is_empty() {
        true => None,
        false => Some(Outages::new(spans, period).map_err(failed).ok()?),
    };
    let delay = DelaySchedule::steps(steps, Some(period));
    let delay = delay.map_err(failed).ok()?;
    Some(ChangingDelay { delay, outages })
}

/// Two times in nanoseconds, the smaller first; a single time stands for both.
fn range(section: &Section<'_>, key: &str, most: Duration) -> Option<[u64; 2]> {
    let mut ends = Vec::new();
    for item in section.list(key)? {
        let time = time_of(item).filter(|time| *time <= most);
        let Some(time) = time else {
            let message = format!(
                "'{key}' is a time, or the two ends of a range like [\"20 ms\", \"40 ms\"], up to \
                 {most:?}"
            );
            section.error(&item.span, message);
            return None;
        };
        ends.push(nanos(time));
    }
    match ends[..] {
        [only] => Some([only, only]),
        [least, most] if least <= most => Some([least, most]),
        _ => {
            let message = format!("'{key}' is one time, or two with the lesser first");
            section.error(&section.span_of(key), message);
            None
        }
    }
}

fn time_of(value: &Value) -> Option<Duration> {
    match &value.kind {
        Kind::Text(text) => units::time(text).ok(),
        _ => None,
    }
}

/// The key of a table that names its kind.
fn one_of<'k>(section: &Section<'_>, kinds: &[&'k str]) -> Option<&'k str> {
    let mut found = kinds.iter().filter(|kind| section.has(kind));
    match (found.next(), found.next()) {
        (Some(kind), None) => Some(kind),
        (Some(first), Some(second)) => {
            let message = format!("{} has '{first}' and '{second}'; keep one", section.what);
            section.error(&section.span, message);
            None
        }
        _ => {
            section.only(kinds);
            let message = format!("{} has none of: {}", section.what, kinds.join(", "));
            section.error(&section.span, message);
            None
        }
    }
}

/// Reads `steps` and `repeat`: pairs of a time and a value, and the period of their repetition.
fn steps(
    section: &Section<'_>,
    example: &str,
    read: impl Fn(&str) -> Result<u64, String>,
) -> Option<(Vec<Step<u64>>, Option<u64>)> {
    let mut steps: Vec<Step<u64>> = Vec::new();
    for item in section.list("steps")? {
        let pair = match &item.kind {
            Kind::Array(pair) => &pair[..],
            _ => &[],
        };
        let [
            Value {
                kind: Kind::Text(time),
                span: time_span,
            },
            Value {
                kind: Kind::Text(value),
                span,
            },
        ] = pair
        else {
            let message = format!("a step is a time and a value, both in quotes: {example}");
            section.error(&item.span, message);
            return None;
        };
        let at_ns = match units::time(time) {
            Ok(time) => nanos(time),
            Err(message) => {
                section.error(time_span, message);
                return None;
            }
        };
        let late = match steps.last() {
            None if at_ns > 0 => Some("the first step is at \"0 s\""),
            Some(before) if at_ns <= before.at_ns => {
                Some("this step is not later than the one before; sort them")
            }
            _ => None,
        };
        if let Some(message) = late {
            section.error(time_span, message);
            return None;
        }
        match read(value) {
            Ok(value) => steps.push(Step { at_ns, value }),
            Err(message) => {
                section.error(span, message);
                return None;
            }
        }
    }
    let last = steps.last().map_or(0, |step| step.at_ns);
    let period = match section.has("repeat") {
        true => Some(nanos(section.time(
            "repeat",
            Duration::from_nanos(last + 1),
            crate::limits::WEEK,
        )?)),
        false => None,
    };
    Some((steps, period))
}

fn schedule_error(section: &Section<'_>, error: &ScheduleError) {
    let message = match error {
        ScheduleError::NothingSent => {
            "the rate is zero for good, so that packets never leave; end with a rate, or add \
             repeat = \"60 s\""
                .to_owned()
        }
        other => other.to_string(),
    };
    section.error(&section.span, message);
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Direction {
    /// The link's changes over time, if there are any.
    #[must_use]
    pub fn changes(&self) -> Option<LinkChanges> {
        let none = self.rate_changes.is_none() && self.delay_changes.is_none();
        if none && self.outages.is_none() {
            return None;
        }
        let constant = |rate_bps| Arc::new(RateSchedule::constant(rate_bps));
        let steady = self.outages.as_ref().and(self.rate_bps).map(constant);
        Some(LinkChanges {
            rate: self.rate_changes.clone().or(steady),
            outages: self.outages.clone(),
            delay: self.delay_changes.clone(),
        })
    }

    /// The key whose value changes over time, if there is one.
    #[must_use]
    pub fn changing_key(&self) -> Option<&'static str> {
        match (&self.rate_changes, &self.delay_changes) {
            (Some(_), _) => Some("rate"),
            (None, Some(_)) => Some("delay"),
            (None, None) => None,
        }
    }
}

/// Checks that outages have a rate that they interrupt.
pub(crate) fn fits(link: &Section<'_>, directions: [&Direction; 2]) {
    let lacks = |one: &&Direction| one.outages.is_some() && one.rate_bps.is_none();
    if directions.iter().any(lacks) {
        let message = format!(
            "{} has an 'outage', in which nothing is sent; this needs a 'rate': add one",
            link.what
        );
        link.error(&link.span, message);
    }
}
