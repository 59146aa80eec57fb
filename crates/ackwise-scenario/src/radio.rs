//! A scenario of low-power radio: `[radio]`, `[energy]`, flows and arms.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use crate::diagnostic::{Collector, ScenarioError};
use crate::load::finish;
use crate::model::{Source, Span};
use crate::section::Section;
use crate::tcp_model::{TcpModel, tcp_model};
use crate::tree::{Kind, Table, Value};

/// How packets find their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// RFC 3561.
    Aodv,
    /// The shortest way, known from the start.
    Static,
}

/// The MAC's parameters (IEEE 802.15.4-2006 §7.4.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MacModel {
    /// macMinBE.
    pub min_be: u32,
    /// macMaxBE.
    pub max_be: u32,
    /// macMaxCSMABackoffs.
    pub max_backoffs: u32,
    /// macMaxFrameRetries.
    pub max_retries: u32,
    /// Bytes of MAC header and checksum: short addresses within one PAN take 11.
    pub header: u32,
    /// Packets that wait at a node.
    pub queue: u32,
}

impl Default for MacModel {
    fn default() -> MacModel {
        MacModel {
            min_be: 3,
            max_be: 5,
            max_backoffs: 4,
            max_retries: 3,
            header: 11,
            queue: 50,
        }
    }
}

/// Currents of a node, milliamperes.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // keys of [energy], docs/radio.md
pub struct EnergyModel {
    pub voltage: f64,
    pub tx_ma: f64,
    pub rx_ma: f64,
    pub idle_ma: f64,
    pub sleep_ma: f64,
}

impl Default for EnergyModel {
    fn default() -> EnergyModel {
        EnergyModel {
            voltage: 3.0,
            tx_ma: 17.0,
            rx_ma: 19.6,
            idle_ma: 1.38,
            sleep_ma: 0.06,
        }
    }
}

/// The field and its radios. Distances are metres.
#[derive(Debug, Clone, PartialEq)]
pub struct RadioModel {
    /// A frame is received within it.
    pub range_m: f64,
    /// The channel is busy within it.
    pub carrier_sense_m: f64,
    /// A frame spoils others within it.
    pub interference_m: f64,
    /// Ratio from which on the stronger of two frames survives.
    pub capture_db: Option<f64>,
    /// Share of bits that are wrong.
    pub bit_errors: f64,
    /// How packets find their way.
    pub routing: Routing,
    /// AODV takes a frame that nobody acknowledged for a broken link.
    pub link_feedback: bool,
    /// The MAC.
    pub mac: MacModel,
    /// What the radios take.
    pub energy: EnergyModel,
}

impl Default for RadioModel {
    fn default() -> RadioModel {
        RadioModel {
            range_m: 50.0,
            carrier_sense_m: 100.0,
            interference_m: 100.0,
            capture_db: None,
            bit_errors: 0.0,
            routing: Routing::Aodv,
            link_feedback: true,
            mac: MacModel::default(),
            energy: EnergyModel::default(),
        }
    }
}

/// A flow, by the numbers of its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RadioFlow {
    pub from: usize,
    pub to: usize,
}

/// Where nodes stand and who sends to whom.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Metres.
    pub places: Vec<(f64, f64)>,
    /// In the order of the file.
    pub flows: Vec<RadioFlow>,
    /// Hops along the chain or an arm of the cross, and flows on each way; 0 if the
    /// places are given.
    pub hops: usize,
    /// See `hops`.
    pub parallel: usize,
}

/// What is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct RadioArm {
    /// Its name.
    pub name: String,
    /// Policy of the receivers, as on a command line; `None`: their delayed ACK.
    pub policy: Option<String>,
    /// Where that stands.
    pub policy_span: Span,
    /// What its TCP does.
    pub model: TcpModel,
}

/// A scenario of radio.
#[derive(Debug, Clone)]
pub struct RadioScenario {
    /// Its name.
    pub name: String,
    /// Runs end then at the latest.
    pub duration: Duration,
    /// Bytes of each flow.
    pub bytes: u64,
    /// Flows begin spread over so much time.
    pub stagger: Duration,
    /// Seeds, from 1.
    pub seeds: u32,
    /// Field and radios.
    pub radio: RadioModel,
    /// The fields to run on.
    pub fields: Vec<Field>,
    /// What is compared.
    pub arms: Vec<RadioArm>,
    /// The file.
    pub source: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Chain,
    Cross,
    Grid,
    Positions,
}

const SHAPES: [(&str, Shape); 4] = [
    ("chain", Shape::Chain),
    ("cross", Shape::Cross),
    ("grid", Shape::Grid),
    ("positions", Shape::Positions),
];
const ROUTINGS: [(&str, Routing); 2] = [("aodv", Routing::Aodv), ("static", Routing::Static)];
/// Most bytes of a frame (aMaxPHYPacketSize).
const MOST_BYTES: u32 = 127;
/// IP and TCP.
const TCP_HEADER: u32 = 40;
/// A TTL of 64 takes a packet no further.
const MOST_HOPS: usize = 63;
const MOST_NODES: usize = 1024;

impl RadioScenario {
    /// Checks the text of a scenario; `name` stands for the file in messages.
    pub fn parse(name: impl AsRef<Path>, text: &str) -> Result<RadioScenario, ScenarioError> {
        let source = Source {
            path: name.as_ref().to_owned(),
            text: text.to_owned(),
        };
        let errors = RefCell::new(Collector::default());
        let tree = Table::parse(text, &mut errors.borrow_mut());
        let scenario = tree.and_then(|tree| scenario(&tree, &source, &errors));
        finish(scenario, errors, &source)
    }

    /// An error about a place in the file.
    pub fn error_at(&self, span: &Span, message: impl Into<String>) -> ScenarioError {
        let mut errors = Collector::default();
        errors.error(span, message);
        ScenarioError::Invalid(errors.finish(&self.source.path, &self.source.text))
    }
}

fn scenario(tree: &Table, source: &Source, errors: &RefCell<Collector>) -> Option<RadioScenario> {
    let root = Section::open(
        tree,
        &(0..0),
        "the scenario",
        &["scenario", "radio", "energy", "flow", "arm"],
        errors,
    );
    let (table, span) = required(&root, "scenario")?;
    let keys = ["name", "duration", "seeds", "data", "stagger"];
    let head = Section::open(table, span, "[scenario]", &keys, errors);
    let second = Duration::from_secs(1);
    let (radio_table, radio_span) = required(&root, "radio")?;
    let mut radio = radio(&root, radio_table, radio_span);
    let (flows, fields) = fields(&root, radio_table, radio_span, &radio);
    if let Some((table, span)) = root.table("energy") {
        energy(&mut radio.energy, table, span, errors);
    }
    let arms = arms(&root, &radio);
    let silent = flows.is_empty() && fields.iter().all(|field| field.flows.is_empty());
    if silent && errors.borrow().is_empty() {
        root.error(
            radio_span,
            "nobody sends; add [[flow]] with 'from' and 'to'",
        );
    }
    Some(RadioScenario {
        name: head.word("name").map(|word| word.text).unwrap_or_default(),
        duration: head
            .time("duration", second, 100_000 * second)
            .unwrap_or(3600 * second),
        bytes: head.size("data").unwrap_or(48_000),
        stagger: head
            .time("stagger", Duration::from_micros(1), 100 * second)
            .unwrap_or(Duration::ZERO),
        seeds: head.whole("seeds", 1, 1000).unwrap_or(1),
        radio,
        fields,
        arms,
        source: source.clone(),
    })
}

fn required<'a>(root: &Section<'a>, key: &str) -> Option<(&'a Table, &'a Span)> {
    let found = root.table(key);
    if found.is_none() && !root.has(key) {
        root.error(&(0..0), format!("there is no [{key}]; add it"));
    }
    found
}

/// A number within limits.
fn number(s: &Section<'_>, key: &str, least: f64, most: f64, unit: &str) -> Option<f64> {
    let value = s.number(key)?;
    if (least..=most).contains(&value) {
        return Some(value);
    }
    let what = if value < 0.0 {
        "negative"
    } else {
        "out of range"
    };
    s.error(
        &s.span_of(key),
        format!("'{key}' is {what}: {value}; it lies between {least} and {most} {unit}"),
    );
    None
}

fn radio(root: &Section<'_>, table: &Table, span: &Span) -> RadioModel {
    let keys = [
        "range",
        "carrier_sense",
        "interference",
        "capture",
        "bit_errors",
        "routing",
        "link_feedback",
        "min_be",
        "max_be",
        "max_backoffs",
        "max_retries",
        "mac_header",
        "queue",
        "topology",
        "hops",
        "parallel",
        "spacing",
        "side",
        "positions",
    ];
    let s = Section::open(table, span, "[radio]", &keys, root.errors);
    let d = RadioModel::default();
    let metres = |key, default| number(&s, key, 0.1, 10_000.0, "m").unwrap_or(default);
    let range_m = metres("range", d.range_m);
    let mac = MacModel {
        min_be: s.whole("min_be", 0, 8).unwrap_or(d.mac.min_be),
        max_be: s.whole("max_be", 0, 8).unwrap_or(d.mac.max_be),
        max_backoffs: s.whole("max_backoffs", 0, 5).unwrap_or(d.mac.max_backoffs),
        max_retries: s.whole("max_retries", 0, 7).unwrap_or(d.mac.max_retries),
        header: s.size_within("mac_header", 1, 40).unwrap_or(d.mac.header),
        queue: s.whole("queue", 1, 10_000).unwrap_or(d.mac.queue),
    };
    if mac.min_be > mac.max_be {
        s.error(
            &s.span_of(if s.has("min_be") { "min_be" } else { "max_be" }),
            format!(
                "'min_be' ({}) is above 'max_be' ({})",
                mac.min_be, mac.max_be
            ),
        );
    }
    RadioModel {
        range_m,
        carrier_sense_m: metres("carrier_sense", 2.0 * range_m),
        interference_m: metres("interference", 2.0 * range_m),
        capture_db: number(&s, "capture", 0.0, 60.0, "dB"),
        bit_errors: number(&s, "bit_errors", 0.0, 0.5, "of a bit").unwrap_or(0.0),
        routing: s.choice("routing", &ROUTINGS).unwrap_or(d.routing),
        link_feedback: s.flag("link_feedback").unwrap_or(d.link_feedback),
        mac,
        energy: d.energy,
    }
}

fn energy(model: &mut EnergyModel, table: &Table, span: &Span, errors: &RefCell<Collector>) {
    let keys = ["voltage", "tx", "rx", "idle", "sleep"];
    let s = Section::open(table, span, "[energy]", &keys, errors);
    let set = |to: &mut f64, key, most, unit| {
        if let Some(value) = number(&s, key, 0.0, most, unit) {
            *to = value;
        }
    };
    set(&mut model.voltage, "voltage", 48.0, "V");
    set(&mut model.tx_ma, "tx", 10_000.0, "mA");
    set(&mut model.rx_ma, "rx", 10_000.0, "mA");
    set(&mut model.idle_ma, "idle", 10_000.0, "mA");
    set(&mut model.sleep_ma, "sleep", 10_000.0, "mA");
}

fn arms(root: &Section<'_>, radio: &RadioModel) -> Vec<RadioArm> {
    let mut arms: Vec<RadioArm> = Vec::new();
    for (table, span) in root.tables("arm") {
        let s = Section::open(
            table,
            span,
            "[[arm]]",
            &["name", "policy", "model"],
            root.errors,
        );
        let Some(name) = s.word("name") else {
            s.error(span, "an arm has a name; add name = \"tcp\"");
            continue;
        };
        if arms.iter().any(|arm| arm.name == name.text) {
            s.error(
                &name.span,
                format!("there is another arm '{}'; names are unique", name.text),
            );
        }
        let model = tcp_model(&s);
        let segment = model.segment.unwrap_or(48);
        let bytes = segment + model.header.unwrap_or(TCP_HEADER) + radio.mac.header;
        if bytes > MOST_BYTES {
            s.error(
                &s.span_of("model"),
                format!(
                    "a segment of {segment} B makes a frame of {bytes} B, and a frame has {MOST_BYTES} B at most; lower 'segment' by {} B",
                    bytes - MOST_BYTES
                ),
            );
        }
        let policy = s.word("policy");
        arms.push(RadioArm {
            name: name.text,
            policy_span: policy
                .as_ref()
                .map_or(span.clone(), |word| word.span.clone()),
            policy: policy.map(|word| word.text),
            model,
        });
    }
    if arms.is_empty() {
        root.error(&(0..0), "nothing is compared; add [[arm]] with a name");
    }
    arms
}

/// Whole numbers, one or several.
fn numbers(s: &Section<'_>, key: &str, most: usize) -> Vec<(usize, Span)> {
    let Some(list) = s.list(key) else {
        return vec![(1, s.span.clone())];
    };
    let mut found = Vec::new();
    for item in list {
        match item.kind {
            Kind::Integer(n) if usize::try_from(n).is_ok_and(|n| (1..=most).contains(&n)) => {
                found.push((n as usize, item.span.clone()));
            }
            Kind::Integer(n) => {
                let why = if key == "hops" { "the hop limit: " } else { "" };
                s.error(
                    &item.span,
                    format!("{why}'{key}' lies between 1 and {most}, not {n}"),
                );
            }
            _ => s.error(
                &item.span,
                format!("'{key}' is a whole number, or a list of them"),
            ),
        }
    }
    found
}

fn fields(
    root: &Section<'_>,
    table: &Table,
    span: &Span,
    radio: &RadioModel,
) -> (Vec<RadioFlow>, Vec<Field>) {
    let s = Section::open_unchecked(table, span, "[radio]", root.errors);
    let Some(shape) = s.choice("topology", &SHAPES) else {
        if !s.has("topology") {
            s.error(
                span,
                "[radio] has no 'topology'; add e.g. topology = \"chain\"",
            );
        }
        return (Vec::new(), Vec::new());
    };
    let spacing = number(&s, "spacing", 0.1, 10_000.0, "m").unwrap_or(30.0);
    let parallel = numbers(&s, "parallel", 64);
    let mut fields = Vec::new();
    if shape == Shape::Positions {
        let places = positions(&s);
        let flows = flows(root, &places);
        check_ways(root, radio, &places, &flows);
        let field = Field {
            places,
            flows: flows.iter().map(|(flow, _)| *flow).collect(),
            hops: 0,
            parallel: 0,
        };
        return (field.flows.clone(), vec![field]);
    }
    if root.has("flow") {
        let entry = root.span_of("flow");
        root.error(
            &entry,
            "[[flow]] goes with topology = \"positions\"; chain, cross and grid have their own",
        );
    }
    if spacing > radio.range_m {
        s.error(
            &s.span_of("spacing"),
            format!(
                "nodes 0 and 1 are {spacing} m apart, and a radio reaches {} m: out of range",
                radio.range_m
            ),
        );
    }
    for (hops, _) in numbers(&s, "hops", MOST_HOPS) {
        for (parallel, _) in &parallel {
            let (places, ways) = match shape {
                Shape::Cross => cross(hops, spacing),
                Shape::Grid => grid(hops, spacing),
                _ => chain(hops, spacing),
            };
            let flows = ways.iter().flat_map(|way| vec![*way; *parallel]).collect();
            fields.push(Field {
                places,
                flows,
                hops,
                parallel: *parallel,
            });
        }
    }
    (Vec::new(), fields)
}

fn chain(hops: usize, spacing: f64) -> (Vec<(f64, f64)>, Vec<RadioFlow>) {
    let places = (0..=hops).map(|i| (i as f64 * spacing, 0.0)).collect();
    (places, vec![RadioFlow { from: 0, to: hops }])
}

/// Two chains that share their middle node; a flow along each.
fn cross(hops: usize, spacing: f64) -> (Vec<(f64, f64)>, Vec<RadioFlow>) {
    let middle = hops / 2;
    let mut places: Vec<(f64, f64)> = (0..=hops).map(|i| (i as f64 * spacing, 0.0)).collect();
    let mut numbers = Vec::new();
    for i in 0..=hops {
        if i == middle {
            numbers.push(middle);
        } else {
            numbers.push(places.len());
            let y = (i as f64 - middle as f64) * spacing;
            places.push((middle as f64 * spacing, y));
        }
    }
    let flows = vec![
        RadioFlow { from: 0, to: hops },
        RadioFlow {
            from: numbers[0],
            to: numbers[hops],
        },
    ];
    (places, flows)
}

/// A square of `hops` + 1 nodes a side: three flows across it, one down.
fn grid(hops: usize, spacing: f64) -> (Vec<(f64, f64)>, Vec<RadioFlow>) {
    let side = hops + 1;
    let place = |i: usize| ((i % side) as f64 * spacing, (i / side) as f64 * spacing);
    let mut rows = vec![0, side / 2, side - 1];
    rows.dedup();
    let across = rows.iter().map(|row| RadioFlow {
        from: row * side,
        to: row * side + hops,
    });
    let down = RadioFlow {
        from: side / 2,
        to: hops * side + side / 2,
    };
    let flows = across.chain([down]).collect();
    ((0..side * side).map(place).collect(), flows)
}

fn positions(s: &Section<'_>) -> Vec<(f64, f64)> {
    let Some(list) = s.list("positions") else {
        if !s.has("positions") {
            let span = s.span_of("topology");
            s.error(&span, "'positions' is missing: write positions = [[0, 0], [30, 0]], metres, a pair for each node");
        }
        return Vec::new();
    };
    let coordinate = |value: &Value| match value.kind {
        Kind::Integer(n) => Some(n as f64),
        Kind::Float(n) if n.is_finite() => Some(n),
        _ => None,
    };
    let mut places = Vec::new();
    for (index, item) in list.iter().enumerate() {
        let pair = match &item.kind {
            Kind::Array(pair) => pair.iter().filter_map(coordinate).collect(),
            _ => Vec::new(),
        };
        match pair[..] {
            [x, y] => places.push((x, y)),
            _ => s.error(
                &item.span,
                format!("the position of node {index} is missing: it is a pair of numbers like [30, 0], metres"),
            ),
        }
    }
    if places.len() > MOST_NODES {
        let span = s.span_of("positions");
        s.error(
            &span,
            format!("{} nodes are too many; {MOST_NODES} at most", places.len()),
        );
    }
    places
}

fn flows(root: &Section<'_>, places: &[(f64, f64)]) -> Vec<(RadioFlow, Span)> {
    let mut flows = Vec::new();
    for (table, span) in root.tables("flow") {
        let s = Section::open(table, span, "[[flow]]", &["from", "to"], root.errors);
        let node = |key: &str| {
            let number = s.whole(key, 0, MOST_NODES as u32)? as usize;
            if number < places.len() {
                return Some(number);
            }
            s.error(
                &s.span_of(key),
                format!(
                    "node {number} has no position; 'positions' has {} nodes, from 0",
                    places.len()
                ),
            );
            None
        };
        match (node("from"), node("to")) {
            (Some(from), Some(to)) if from == to => {
                s.error(&s.span_of("to"), format!("node {to} would send to itself"));
            }
            (Some(from), Some(to)) => flows.push((RadioFlow { from, to }, span.clone())),
            _ if s.has("from") && s.has("to") => {}
            _ => s.error(span, "a flow has 'from' and 'to', numbers of nodes"),
        }
    }
    flows
}

/// Each flow has a way, and one that a packet's TTL outlasts.
fn check_ways(
    root: &Section<'_>,
    radio: &RadioModel,
    places: &[(f64, f64)],
    flows: &[(RadioFlow, Span)],
) {
    for (flow, span) in flows {
        let reached = reach(places, radio.range_m, flow.from);
        match reached[flow.to] {
            Some(hops) if hops > MOST_HOPS => root.error(
                span,
                format!(
                    "from node {} to node {} are {hops} hops; the hop limit is {MOST_HOPS}",
                    flow.from, flow.to
                ),
            ),
            Some(_) => {}
            None => {
                let (a, b, metres) = gap(places, &reached);
                root.error(
                    span,
                    format!(
                        "there is no way from node {} to node {}: nodes {a} and {b}, the nearest across the gap, are {metres:.1} m apart, and a radio reaches {} m",
                        flow.from, flow.to, radio.range_m
                    ),
                );
            }
        }
    }
}

fn distance(a: (f64, f64), b: (f64, f64)) -> f64 {
    (a.0 - b.0).hypot(a.1 - b.1)
}

/// Hops to each node that can be reached.
fn reach(places: &[(f64, f64)], range: f64, from: usize) -> Vec<Option<usize>> {
    let mut hops = vec![None; places.len()];
    hops[from] = Some(0);
    let mut front = std::collections::VecDeque::from([from]);
    while let Some(node) = front.pop_front() {
        let next = hops[node].map(|h: usize| h + 1);
        for other in 0..places.len() {
            if hops[other].is_none() && distance(places[node], places[other]) <= range {
                hops[other] = next;
                front.push_back(other);
            }
        }
    }
    hops
}

/// The nearest pair of a node that is reached and one that is not.
fn gap(places: &[(f64, f64)], reached: &[Option<usize>]) -> (usize, usize, f64) {
    let mut best = (0, 0, f64::INFINITY);
    for a in (0..places.len()).filter(|a| reached[*a].is_some()) {
        for b in (0..places.len()).filter(|b| reached[*b].is_none()) {
            let metres = distance(places[a], places[b]);
            if metres < best.2 {
                best = (a, b, metres);
            }
        }
    }
    best
}
