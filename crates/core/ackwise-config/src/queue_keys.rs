//! The keys of queues and middleboxes.

use std::time::Duration;

use crate::diagnostic::Span;
use crate::diagnostic::suggest;
use crate::fq_codel_keys;
use crate::queues::{
    AckFilter, Bucket, Cake, CakeTin, FqCodel, Length, Mux, Police, PoliceHow, Queue, QueueLimit,
    Reconstruct, Red, RedPreset, Shape, What,
};
use crate::section::{Section, Word};
use crate::tree::{Kind, Table};

const MAX_PERIOD: Duration = Duration::from_secs(60);
/// The minimum of a time that must be above zero.
pub const NANOSECOND: Duration = Duration::from_nanos(1);
/// The kernel counts cake's times in microseconds.
const MICROSECOND: Duration = Duration::from_micros(1);
const MAX_BURST: u64 = 1 << 40;

/// What is known where a direction is read.
pub struct Context<'a> {
    /// The largest packet that a queue must hold, in bytes.
    pub mtu: u32,
    /// The flows of the file.
    pub flows: &'a [String],
}

/// Reads a queue: `"100 packets"`, or a table.
pub fn queue(direction: &Section<'_>, mtu: u32) -> Option<Queue> {
    let value = direction.value("queue")?;
    let Kind::Table(table) = &value.kind else {
        let limit = direction.queue("queue")?;
        check_limit(direction, "queue", limit, mtu);
        return Some(Queue::drop_tail(limit));
    };
    let general = ["limit", "counts", "discipline", "ack_filter", "acks_first"];
    let known = [&general[..], &RED_KEYS, &fq_codel_keys::KEYS, &CAKE_KEYS].concat();
    let section = Section::open(table, &value.span, "'queue'", &known, direction.errors);
    let discipline = section.choice("discipline", &DISCIPLINES);
    let is_fq_codel = discipline == Some(Discipline::FqCodel);
    if !section.has("limit") && !is_fq_codel {
        let message = "'queue' has no 'limit'; add limit = \"100 packets\"";
        section.error(&section.span, message);
    }
    let limit = match section.queue("limit") {
        None if is_fq_codel && !section.has("limit") => Some(FqCodel::LIMIT),
        limit => limit,
    };
    if let Some(limit) = limit {
        check_limit(&section, "limit", limit, mtu);
    }
    let counts = [("waiting", false), ("waiting-and-sending", true)];
    let counts_sending = section.choice("counts", &counts).unwrap_or(false);
    if counts_sending && limit == Some(QueueLimit::Packets(1)) {
        section.error(
            &section.span_of("limit"),
            "a queue of 1 packet that counts the one being sent lets nothing wait; \
             make it 2 packets or more",
        );
    }
    let red = red(&section, discipline);
    if discipline.is_some() || !section.has("discipline") {
        of_others(&section, discipline);
    }
    if red.is_some() && counts_sending {
        section.error(
            &section.span_of("counts"),
            "RED counts what waits, in ns-2 as well; leave 'counts' out",
        );
    }
    Some(Queue {
        limit: limit?,
        counts_sending,
        red,
        fq_codel: limit
            .filter(|_| is_fq_codel)
            .map(|limit| fq_codel_keys::fq_codel(&section, limit, mtu)),
        cake: (discipline == Some(Discipline::Cake)).then(|| Cake {
            rtt: section.time("rtt", MICROSECOND, MAX_PERIOD),
            ack_tin: section.choice("ack_tin", &TINS),
        }),
        ack_filter: ack_filter(&section),
        acks_first: acks_first(&section),
    })
}

fn check_limit(section: &Section<'_>, key: &str, limit: QueueLimit, mtu: u32) {
    if !limit.holds_a_packet(mtu) {
        let message = format!("this queue cannot hold a single packet of {mtu} bytes");
        section.error(&section.span_of(key), message);
    }
}

const RED_KEYS: [&str; 10] = [
    "preset",
    "min",
    "max",
    "max_probability",
    "weight",
    "gentle",
    "wait",
    "ecn",
    "mark_limit",
    "mean_packet",
];

const CAKE_KEYS: [&str; 2] = ["rtt", "ack_tin"];
const TINS: [(&str, CakeTin); 3] = [
    ("bulk", CakeTin::Bulk),
    ("video", CakeTin::Video),
    ("voice", CakeTin::Voice),
];

#[derive(Clone, Copy, PartialEq)]
enum Discipline {
    DropTail,
    Red,
    FqCodel,
    Cake,
}

const DISCIPLINES: [(&str, Discipline); 4] = [
    ("drop-tail", Discipline::DropTail),
    ("red", Discipline::Red),
    ("fq_codel", Discipline::FqCodel),
    ("cake", Discipline::Cake),
];

/// Rejects keys that belong to another discipline.
fn of_others(section: &Section<'_>, discipline: Option<Discipline>) {
    for entry in &section.table.entries {
        let key = entry.key.as_str();
        let is_shared = key == "ecn" && discipline == Some(Discipline::FqCodel);
        let owner = if RED_KEYS.contains(&key) && discipline != Some(Discipline::Red) && !is_shared
        {
            "belongs to RED; add discipline = \"red\""
        } else if fq_codel_keys::KEYS.contains(&key) && discipline != Some(Discipline::FqCodel) {
            "belongs to fq_codel; add discipline = \"fq_codel\""
        } else if CAKE_KEYS.contains(&key) && discipline != Some(Discipline::Cake) {
            "belongs to cake; add discipline = \"cake\""
        } else {
            continue;
        };
        section.error(&entry.key_span, format!("'{key}' {owner}"));
    }
}

fn red(section: &Section<'_>, discipline: Option<Discipline>) -> Option<Red> {
    if discipline.is_none() && section.has("discipline") {
        return None;
    }
    if discipline != Some(Discipline::Red) {
        return None;
    }
    let presets = [("floyd", RedPreset::Floyd), ("ns2", RedPreset::Ns2)];
    let weight = section.number("weight");
    if weight.is_some_and(|weight| !(weight > 0.0 && weight <= 1.0)) {
        let message = "'weight', that of a new sample, must be more than 0 and at most 1";
        section.error(&section.span_of("weight"), message);
    }
    let max_probability = positive_share(section, "max_probability");
    let mean_packet = section.size_within("mean_packet", 1, 65_535);
    Some(Red {
        preset: section
            .choice("preset", &presets)
            .unwrap_or(RedPreset::Floyd),
        thresholds: thresholds(section),
        max_probability,
        weight,
        gentle: section.flag("gentle"),
        wait: section.flag("wait"),
        ecn: section.flag("ecn").unwrap_or(false),
        mark_limit: positive_share(section, "mark_limit"),
        mean_packet,
    })
}

/// Reads a share above 0 % and at most 100 %.
fn positive_share(section: &Section<'_>, key: &str) -> Option<f64> {
    let share = section.share(key)?;
    if share > 0.0 && share <= 1.0 {
        return Some(share);
    }
    let message = format!("'{key}' must be more than 0 % and at most 100 %");
    section.error(&section.span_of(key), message);
    None
}

fn thresholds(section: &Section<'_>) -> Option<[QueueLimit; 2]> {
    for (key, other) in [("min", "max"), ("max", "min")] {
        if section.has(key) && !section.has(other) {
            let message = "'min' and 'max' go together, e.g. \"5 packets\" and \"15 packets\"";
            section.error(&section.span_of(key), message);
        }
    }
    let (min, max) = (section.queue("min")?, section.queue("max")?);
    let mistake = match (min, max) {
        (QueueLimit::Packets(min), QueueLimit::Packets(max)) if min < max => None,
        (QueueLimit::Bytes(min), QueueLimit::Bytes(max)) if min < max => None,
        (QueueLimit::Packets(_), QueueLimit::Packets(_))
        | (QueueLimit::Bytes(_), QueueLimit::Bytes(_)) => Some("'max' must be more than 'min'"),
        _ => Some("'min' and 'max' must both be in packets or both in bytes"),
    };
    if let Some(mistake) = mistake {
        section.error(&section.span_of("max"), mistake);
        return None;
    }
    Some([min, max])
}

const FILTERS: [&str; 5] = [
    "rfc3449",
    "rfc3449-sack",
    "ns2-append",
    "cake",
    "cake-aggressive",
];

fn ack_filter(queue: &Section<'_>) -> Option<AckFilter> {
    let value = queue.value("ack_filter")?;
    let empty = Table::default();
    let (name, table, span) = match &value.kind {
        Kind::Text(name) => (name.clone(), &empty, value.span.clone()),
        Kind::Table(table) => {
            let known = ["rule", "keep", "place", "max_stretch"];
            let section = Section::open(table, &value.span, "'ack_filter'", &known, queue.errors);
            let word = section.required_word("rule", "\"rfc3449\"")?;
            (word.text, table, word.span)
        }
        _ => {
            let message = format!(
                "'ack_filter' is a rule like \"rfc3449\" or a table, not {}",
                value.what()
            );
            queue.error(&value.span, message);
            return None;
        }
    };
    let section = Section::open_unchecked(table, &value.span, "'ack_filter'", queue.errors);
    let ours = name.starts_with("rfc3449");
    if !ours && FILTERS.contains(&name.as_str()) {
        for entry in table.entries.iter().filter(|entry| entry.key != "rule") {
            let message = format!("'{}' belongs to the rule \"rfc3449\"", entry.key);
            section.error(&entry.key_span, message);
        }
    }
    match name.as_str() {
        "rfc3449" | "rfc3449-sack" => rfc3449(&section, name == "rfc3449-sack"),
        "ns2-append" => Some(AckFilter::Ns2Append),
        "cake" => Some(AckFilter::Cake { aggressive: false }),
        "cake-aggressive" => Some(AckFilter::Cake { aggressive: true }),
        _ => {
            let message = format!("unknown ACK filter '{name}'{}", suggest(&name, &FILTERS));
            section.error(&span, message);
            None
        }
    }
}

fn rfc3449(section: &Section<'_>, newest_sack: bool) -> Option<AckFilter> {
    let keep = section.whole("keep", 0, 64).unwrap_or(0);
    let places = [("append", false), ("replace", true)];
    let replace = section.choice("place", &places).unwrap_or(false);
    if replace && keep > 0 {
        let message = "an ACK cannot take the place of one and keep others behind itself; \
                       leave 'keep' out, or place = \"append\"";
        section.error(&section.span_of("place"), message);
    }
    let max_stretch = section.size_within("max_stretch", 1, 1 << 30);
    Some(AckFilter::Rfc3449 {
        keep,
        replace,
        max_stretch,
        newest_sack,
    })
}

/// Reads `true`, or the number of ACKs that may leave in a row.
fn acks_first(section: &Section<'_>) -> Option<u32> {
    match section.value("acks_first").map(|value| &value.kind)? {
        Kind::Bool(true) => Some(u32::MAX),
        Kind::Bool(false) => None,
        Kind::Integer(_) => section.whole("acks_first", 1, 1_000_000),
        _ => {
            let message = "'acks_first' is true, false, or how many ACKs may leave in a row \
                           while other packets wait";
            section.error(&section.span_of("acks_first"), message);
            None
        }
    }
}

fn what(section: &Section<'_>, context: &Context<'_>) -> What {
    let kinds = [("pure-acks", true), ("everything", false)];
    let pure_acks = section.choice("what", &kinds).unwrap_or(true);
    let known: Vec<&str> = context.flows.iter().map(String::as_str).collect();
    let flows = flows(section, &known).into_iter();
    What {
        pure_acks,
        flows: flows.map(|word| word.text).collect(),
    }
}

/// Reads the known flows that 'flows' names.
pub fn flows(section: &Section<'_>, known: &[&str]) -> Vec<Word> {
    let words = section.words("flows").unwrap_or_default();
    for word in &words {
        if !known.contains(&word.text.as_str()) {
            let hint = suggest(&word.text, known);
            let message = format!("there is no flow '{}'{hint}", word.text);
            section.error(&word.span, message);
        }
    }
    words
}

fn bucket(section: &Section<'_>) -> Option<Bucket> {
    for (key, example) in [("rate", "\"100 kbit/s\""), ("burst", "\"5 kB\"")] {
        if !section.has(key) {
            let message = format!("{} has no '{key}'; add {key} = {example}", section.what);
            section.error(&section.span, message);
        }
    }
    let lengths = [
        ("ip", Length::Ip),
        ("ethernet-payload", Length::EthernetPayload),
        ("ethernet-frame", Length::EthernetFrame),
    ];
    let length = section.choice("length", &lengths).unwrap_or(Length::Ip);
    let (rate_bps, burst) = (section.rate("rate")?, section.size("burst")?);
    if burst > MAX_BURST {
        section.error(&section.span_of("burst"), "'burst' must be at most 1 TiB");
        return None;
    }
    Some(Bucket {
        rate_bps,
        burst,
        length,
    })
}

/// Checks that the largest packet fits into the burst: otherwise it waits forever, or is always
/// dropped.
fn check_fits(section: &Section<'_>, bucket: &Bucket, what: &What, context: &Context<'_>) {
    let largest = if what.pure_acks { 128 } else { context.mtu };
    if bucket.burst < u64::from(largest) + 18 {
        let message = format!("a packet of {largest} bytes never fits into this burst");
        section.error(&section.span_of("burst"), message);
    }
}

/// Reads the table `police` of a link's direction.
pub fn police(
    direction: &Section<'_>,
    table: &Table,
    span: &Span,
    context: &Context<'_>,
) -> Option<Police> {
    let known = ["rate", "burst", "length", "drop", "mode", "what", "flows"];
    let section = Section::open(table, span, "'police'", &known, direction.errors);
    let what = what(&section, context);
    if !section.has("drop") {
        if let Some(entry) = section.entry("mode") {
            let message = "'mode' says how a share is dropped; add drop = \"80 %\"";
            section.error(&entry.key_span, message);
        }
        let bucket = bucket(&section)?;
        check_fits(&section, &bucket, &what, context);
        let how = PoliceHow::Bucket(bucket);
        return Some(Police { how, what });
    }
    for key in ["rate", "burst", "length"] {
        if let Some(entry) = section.entry(key) {
            let message = format!("'{key}' and 'drop' are two ways to police; leave one out");
            section.error(&entry.key_span, message);
        }
    }
    let even = section
        .choice("mode", &[("random", false), ("even", true)])
        .unwrap_or(false);
    let drop = section.probability("drop")?;
    let how = if even {
        PoliceHow::Even(drop)
    } else {
        PoliceHow::Random(drop)
    };
    Some(Police { how, what })
}

/// Reads the table `shape` of a link's direction.
pub fn shape(
    direction: &Section<'_>,
    table: &Table,
    span: &Span,
    context: &Context<'_>,
) -> Option<Shape> {
    let known = ["rate", "burst", "length", "queue", "what", "flows"];
    let section = Section::open(table, span, "'shape'", &known, direction.errors);
    let what = what(&section, context);
    let bucket = bucket(&section);
    if !section.has("queue") {
        let message = "'shape' has no 'queue'; add queue = \"100 packets\"";
        section.error(&section.span, message);
    }
    let packets = match section.queue("queue")? {
        QueueLimit::Packets(packets) => packets,
        QueueLimit::Bytes(_) => {
            let message = "the queue of a shaper is counted in packets";
            section.error(&section.span_of("queue"), message);
            return None;
        }
    };
    let bucket = bucket?;
    check_fits(&section, &bucket, &what, context);
    Some(Shape {
        bucket,
        packets,
        what,
    })
}

/// Reads the table `mux` of a link's direction.
pub fn mux(
    direction: &Section<'_>,
    table: &Table,
    span: &Span,
    context: &Context<'_>,
) -> Option<Mux> {
    let known = [
        "period",
        "phase",
        "release",
        "max_packets",
        "max_size",
        "head",
        "each",
        "compress",
        "what",
        "flows",
        "by",
        "respace",
    ];
    let section = Section::open(table, span, "'mux'", &known, direction.errors);
    if !section.has("period") {
        let message = "'mux' has no 'period'; add period = \"10 ms\"";
        section.error(&section.span, message);
    }
    let ticks = section
        .choice("release", &[("ticks", true), ("first-packet", false)])
        .unwrap_or(true);
    if let Some(entry) = section.entry("phase").filter(|_| !ticks) {
        let message = "'phase' belongs to release = \"ticks\"";
        section.error(&entry.key_span, message);
    }
    let phase = section
        .time("phase", Duration::ZERO, MAX_PERIOD)
        .unwrap_or_default();
    let sizes = [
        section.whole("head", 0, 9000).unwrap_or(25),
        section.whole("each", 1, 9000).unwrap_or(8),
    ];
    let max_size = section.size_within("max_size", 1, 1 << 20);
    if max_size.is_some_and(|most| most < sizes[0] + sizes[1]) {
        let message = format!(
            "a bundle of one packet takes {} bytes already",
            sizes[0] + sizes[1]
        );
        section.error(&section.span_of("max_size"), message);
    }
    let by = section.choice("by", &[("link", false), ("tunnel", true)]);
    let by_tunnel = by.unwrap_or(false);
    if by_tunnel {
        let has = ["period", "by", "respace"];
        for key in known.iter().filter(|key| !has.contains(key)) {
            if let Some(entry) = section.entry(key) {
                let message = format!("a tunnel has no '{key}'; it has 'period' and 'respace'");
                section.error(&entry.key_span, message);
            }
        }
    } else if let Some(entry) = section.entry("respace") {
        let message = "'respace' belongs to by = \"tunnel\"";
        section.error(&entry.key_span, message);
    }
    Some(Mux {
        by_tunnel,
        respace: section.flag("respace").unwrap_or(false),
        phase: ticks.then_some(phase),
        max_packets: section.whole("max_packets", 1, 1_000_000),
        max_size,
        sizes,
        compress: section.flag("compress").unwrap_or(false),
        what: what(&section, context),
        period: section.time("period", NANOSECOND, MAX_PERIOD)?,
    })
}

/// Reads the table `reconstruct` of a link's direction.
pub fn reconstruct(direction: &Section<'_>, table: &Table, span: &Span) -> Option<Reconstruct> {
    let known = ["segment", "threshold", "step", "spacing", "gap"];
    let section = Section::open(table, span, "'reconstruct'", &known, direction.errors);
    let segment = section.size_within("segment", 1, 65_535);
    let gap = section.time("gap", NANOSECOND, Duration::from_secs(10));
    Some(Reconstruct {
        segment: segment.unwrap_or(1460),
        threshold: section.whole("threshold", 1, 1000).unwrap_or(2),
        step: section.whole("step", 1, 1000).unwrap_or(2),
        ns2_spacing: section
            .choice("spacing", &[("even", false), ("ns2", true)])
            .unwrap_or(false),
        gap: gap.unwrap_or(Duration::from_millis(10)),
    })
}
