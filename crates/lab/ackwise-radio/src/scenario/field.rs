//! Places of the nodes, their flows, and the check that a path exists.

use super::{Field, RadioFlow, RadioModel};
use ackwise_config::Span;
use ackwise_config::section::Section;
use ackwise_config::tree::{Kind, Table, Value};

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
/// Keys of `[radio]` that describe the field.
pub(super) const FIELD_KEYS: [&str; 5] = ["topology", "hops", "parallel", "spacing", "positions"];
/// A packet with a TTL of 64 goes no further.
const MAX_HOPS: usize = 63;
const MAX_NODES: usize = 1024;

/// Reads one or several whole numbers, without duplicates: the runs of a duplicate would count as
/// runs with other seeds.
fn numbers(s: &Section<'_>, key: &str, most: usize) -> Vec<(usize, Span)> {
    let Some(list) = s.list(key) else {
        return vec![(1, s.span.clone())];
    };
    let mut found: Vec<(usize, Span)> = Vec::new();
    for item in list {
        match item.kind {
            Kind::Integer(n) if usize::try_from(n).is_ok_and(|n| (1..=most).contains(&n)) => {
                let n = n as usize;
                if found.iter().any(|(other, _)| *other == n) {
                    s.error(&item.span, format!("'{key}': {n} is given twice"));
                }
                found.push((n, item.span.clone()));
            }
            Kind::Integer(n) => {
                let why = if key == "hops" { "the hop limit: " } else { "" };
                s.error(
                    &item.span,
                    format!("{why}'{key}' must be between 1 and {most}, not {n}"),
                );
            }
            _ => s.error(
                &item.span,
                format!("'{key}' must be a whole number, or a list of whole numbers"),
            ),
        }
    }
    found
}

pub(super) fn fields(
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
    let spacing = s
        .number_within("spacing", 0.1, 10_000.0, "m")
        .unwrap_or(30.0);
    let parallel = numbers(&s, "parallel", 64);
    let mut fields = Vec::new();
    if shape == Shape::Positions {
        let field = placed(root, &s, radio);
        return (field.flows.clone(), vec![field]);
    }
    if root.has("flow") {
        let entry = root.span_of("flow");
        root.error(
            &entry,
            "[[flow]] needs topology = \"positions\"; chain, cross and grid have their own flows",
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
    for (hops, span) in numbers(&s, "hops", MAX_HOPS) {
        let side = hops + 1;
        if shape == Shape::Grid && side * side > MAX_NODES {
            s.error(
                &span,
                format!(
                    "a grid with {hops} hops per side has {} nodes, and the limit is {MAX_NODES}",
                    side * side
                ),
            );
            continue;
        }
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

/// The field with explicit positions.
fn placed(root: &Section<'_>, s: &Section<'_>, radio: &RadioModel) -> Field {
    let given = positions(s);
    let places: Vec<(f64, f64)> = given.iter().flatten().copied().collect();
    let flows = if given.is_empty() {
        Vec::new()
    } else {
        flows(root, given.len())
    };
    // A node without a place may be the one that connects a path. The search takes time that
    // grows with the square of the number of nodes.
    if places.len() == given.len() && places.len() <= MAX_NODES {
        check_ways(root, radio, &places, &flows);
    }
    Field {
        places,
        flows: flows.iter().map(|(flow, _)| *flow).collect(),
        hops: 0,
        parallel: 0,
    }
}

fn chain(hops: usize, spacing: f64) -> (Vec<(f64, f64)>, Vec<RadioFlow>) {
    let places = (0..=hops).map(|i| (i as f64 * spacing, 0.0)).collect();
    (places, vec![RadioFlow { from: 0, to: hops }])
}

/// Two chains that share their middle node, with a flow along each.
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

/// A square of `hops` + 1 nodes a side, with three flows across it and one down.
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

/// The position of each node; `None` for an invalid one.
fn positions(s: &Section<'_>) -> Vec<Option<(f64, f64)>> {
    let Some(list) = s.list("positions") else {
        if !s.has("positions") {
            let span = s.span_of("topology");
            s.error(&span, "'positions' is missing: write a pair in metres for each node, e.g. positions = [[0, 0], [30, 0]]");
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
            [x, y] => places.push(Some((x, y))),
            _ => {
                places.push(None);
                s.error(
                    &item.span,
                    format!("the position of node {index} must be a pair of numbers in metres, e.g. [30, 0]"),
                );
            }
        }
    }
    if places.len() > MAX_NODES {
        let span = s.span_of("positions");
        s.error(
            &span,
            format!("{} nodes are too many; {MAX_NODES} at most", places.len()),
        );
    }
    places
}

fn flows(root: &Section<'_>, nodes: usize) -> Vec<(RadioFlow, Span)> {
    let mut flows = Vec::new();
    for (table, span) in root.tables("flow") {
        let s = Section::open(table, span, "[[flow]]", &["from", "to"], root.errors);
        let node = |key: &str| {
            let number = s.whole(key, 0, MAX_NODES as u32)? as usize;
            if number < nodes {
                return Some(number);
            }
            s.error(
                &s.span_of(key),
                format!(
                    "node {number} has no position; 'positions' has {nodes} nodes, numbered from 0"
                ),
            );
            None
        };
        match (node("from"), node("to")) {
            (Some(from), Some(to)) if from == to => {
                s.error(
                    &s.span_of("to"),
                    format!("node {to} would send to itself; 'to' must be another node"),
                );
            }
            (Some(from), Some(to)) => flows.push((RadioFlow { from, to }, span.clone())),
            _ if s.has("from") && s.has("to") => {}
            _ => s.error(
                span,
                "a flow needs 'from' and 'to', each the number of a node",
            ),
        }
    }
    flows
}

/// Checks that each flow has a path, short enough for a packet's TTL.
fn check_ways(
    root: &Section<'_>,
    radio: &RadioModel,
    places: &[(f64, f64)],
    flows: &[(RadioFlow, Span)],
) {
    for (flow, span) in flows {
        let reached = reach(places, radio.range_m, flow.from);
        match reached[flow.to] {
            Some(hops) if hops > MAX_HOPS => root.error(
                span,
                format!(
                    "the path from node {} to node {} has {hops} hops, and the hop limit is {MAX_HOPS}",
                    flow.from, flow.to
                ),
            ),
            Some(_) => {}
            None => {
                let Gap { a, b, metres } = gap(places, &reached);
                root.error(
                    span,
                    format!(
                        "there is no path from node {} to node {}: nodes {a} and {b}, the nearest across the gap, are {metres:.1} m apart, and a radio reaches {} m",
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

/// Hops from `from` to each node that it can reach.
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

/// A reached node `a` and an unreached node `b`.
struct Gap {
    a: usize,
    b: usize,
    metres: f64,
}

/// The closest such pair.
fn gap(places: &[(f64, f64)], reached: &[Option<usize>]) -> Gap {
    let mut best = Gap {
        a: 0,
        b: 0,
        metres: f64::INFINITY,
    };
    for a in (0..places.len()).filter(|a| reached[*a].is_some()) {
        for b in (0..places.len()).filter(|b| reached[*b].is_none()) {
            let metres = distance(places[a], places[b]);
            if metres < best.metres {
                best = Gap { a, b, metres };
            }
        }
    }
    best
}
