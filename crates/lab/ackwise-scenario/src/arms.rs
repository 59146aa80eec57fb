//! Arms: the alternatives that are compared, with lists of parameters expanded.

use std::time::Duration;

use crate::engine::Engine;
use crate::limits::{MAX_ARMS, MAX_HOLD, WEEK};
use crate::model::{
    Arm, BASELINE, Environment, Flow, Link, Node, Placement, Position, Setting, SettingValue,
};
use crate::names::{check_node, unique};
use crate::route::path;
use ackwise_config::Span;
use ackwise_config::diagnostic::suggest;
use ackwise_config::queue_keys::{self, NANOSECOND};
use ackwise_config::section::{Section, Word};
use ackwise_config::tree::{Entry, Kind, Table, Value};
use ackwise_policy::Policy;

const PLACE_KEYS: [&str; 11] = [
    "policy",
    "at",
    "link",
    "position",
    "environment",
    "set",
    "hold",
    "hold_min",
    "cwnd_hint",
    "obey_ack_rate",
    "flows",
];

/// The policy whose n follows a sender's requests.
const OBEYING: &str = "every-n";

const ENVIRONMENTS: [(&str, Environment); 2] = [
    ("datapath", Environment::Datapath),
    ("stack", Environment::Stack),
];

const POSITIONS: [(&str, Position); 3] = [
    ("receiver", Position::Receiver),
    ("router", Position::Router),
    ("sender", Position::Sender),
];

/// The nodes, links and flows that arms refer to.
struct Network<'a> {
    nodes: &'a [Node],
    links: &'a [Link],
    flows: &'a [Flow],
}

pub(crate) fn arms(top: &Section<'_>, nodes: &[Node], links: &[Link], flows: &[Flow]) -> Vec<Arm> {
    let network = Network {
        nodes,
        links,
        flows,
    };
    let mut arms: Vec<Arm> = Vec::new();
    let tables = top.tables("arm");
    for (table, span) in &tables {
        for arm in arm(top, table, span, &network) {
            if arms.len() == MAX_ARMS {
                let message = format!("these are more than {MAX_ARMS} arms");
                top.error(span, message);
                return arms;
            }
            let word = Word {
                text: arm.name.clone(),
                span: arm.span.clone(),
            };
            unique(top, &word, "arm", arms.iter().map(|a| a.name.clone()));
            arms.push(arm);
        }
    }
    if arms.is_empty() && tables.is_empty() {
        arms.push(Arm {
            name: BASELINE.to_owned(),
            placements: Vec::new(),
            on: Vec::new(),
            span: 0..0,
        });
    }
    match arms.iter().position(|arm| arm.name == BASELINE) {
        Some(at) => arms[..=at].rotate_right(1),
        None if arms.len() > 1 => {
            let span = tables.first().map_or(0..0, |(_, span)| (*span).clone());
            let message = "arms are compared with one named 'baseline'; \
                           add [[arm]] with name = \"baseline\" and no policy";
            top.error(&span, message);
        }
        None => {}
    }
    arms
}

/// The arms that one `[[arm]]` stands for.
fn arm(top: &Section<'_>, table: &Table, span: &Span, network: &Network<'_>) -> Vec<Arm> {
    let mut section = Section::open_unchecked(table, span, "an arm", top.errors);
    let name = section.required_word("name", "\"baseline\"");
    if let Some(name) = &name {
        section.what = format!("arm '{}'", name.text);
    }
    let mut known = vec!["name", "place", "change", "on"];
    known.extend(PLACE_KEYS);
    only(&section, &known);
    let mut places: Vec<Vec<Placement>> = Vec::new();
    let mut listed: Vec<Listed> = Vec::new();
    if PLACE_KEYS.iter().any(|key| section.has(key)) {
        if let Some(entry) = section.entry("place") {
            section.error(
                &entry.key_span,
                "an arm has either its own 'policy' or [[arm.place]] tables, not both",
            );
        }
        places.push(
            placement(&section, network, &mut listed)
                .into_iter()
                .collect(),
        );
    } else {
        for (table, span) in section.tables("place") {
            let what = format!("a place of {}", section.what);
            let place = Section::open_unchecked(table, span, what, top.errors);
            only(&place, &PLACE_KEYS);
            places.push(
                placement(&place, network, &mut listed)
                    .into_iter()
                    .collect(),
            );
        }
    }
    let Some(name) = name else {
        return Vec::new();
    };
    if name.text == BASELINE && !places.is_empty() {
        section.error(
            &name.span,
            "'baseline' is the stock stack and has no policy; give this arm another name",
        );
    }
    let placements: Vec<Placement> = places.into_iter().flatten().collect();
    expand(&section, &name, placements, &listed)
}

/// Reports every key that is not `known`, and where a parameter of the policy belongs.
fn only(section: &Section<'_>, known: &[&str]) {
    let policy = section.value("policy").and_then(Value::plain);
    let policy = policy.and_then(|name| Policy::by_name(&name).ok());
    let is_param = |key: &str| {
        let mut params = policy.iter().flat_map(|policy| policy.params());
        params.any(|it| it.name == key)
    };
    for entry in &section.table.entries {
        let key = entry.key.as_str();
        if known.contains(&key) {
            continue;
        }
        if key == "params" {
            section.error(&entry.key_span, "parameters of a policy stand in 'set'");
        } else if is_param(key) {
            let message =
                format!("'{key}' is a parameter of the policy; write set = {{ {key} = … }}");
            section.error(&entry.key_span, message);
        } else {
            section.unknown(entry, known);
        }
    }
}

/// A parameter with several values.
struct Listed {
    name: String,
    name_span: Span,
    values: Vec<Value>,
}

/// One arm for each combination of listed values.
fn expand(
    section: &Section<'_>,
    name: &Word,
    placements: Vec<Placement>,
    listed: &[Listed],
) -> Vec<Arm> {
    let combinations: usize = listed.iter().map(|l| l.values.len()).product();
    if combinations > MAX_ARMS {
        section.error(&name.span, format!("these are more than {MAX_ARMS} arms"));
        return Vec::new();
    }
    let on = engines(section);
    let mut arms = Vec::new();
    for mut combination in 0..combinations {
        let mut chosen: Vec<&Value> = Vec::new();
        for list in listed.iter().rev() {
            chosen.push(&list.values[combination % list.values.len()]);
            combination /= list.values.len();
        }
        chosen.reverse();
        let mut arm_name = name.text.clone();
        let mut settings = placements.clone();
        for (list, value) in listed.iter().zip(chosen) {
            let text: String = value
                .plain()
                .unwrap_or_default()
                .chars()
                .filter(|c| !c.is_whitespace())
                .map(|c| if c == '/' { '-' } else { c })
                .collect();
            let hole = format!("{{{}}}", list.name);
            if arm_name.contains(&hole) {
                arm_name = arm_name.replace(&hole, &text);
            } else {
                arm_name = format!("{arm_name}-{text}");
            }
            let slot = settings
                .iter_mut()
                .flat_map(|p| p.set.iter_mut())
                .find(|s| s.name_span == list.name_span);
            if let Some(slot) = slot {
                slot.value = single(value).unwrap_or(SettingValue::Integer(0));
                slot.value_span = value.span.clone();
            }
        }
        if !arm_name_is_fine(&arm_name) {
            section.error(
                &name.span,
                format!(
                    "'{arm_name}' is not a name: 1 to 60 letters, digits, '-', '_', '.' or '%', \
                     the first a letter or digit; {{parameter}} stands for a listed value"
                ),
            );
            return Vec::new();
        }
        arms.push(Arm {
            name: arm_name,
            placements: settings,
            on: on.clone(),
            span: name.span.clone(),
        });
    }
    arms
}

/// The engines that an arm is limited to.
fn engines(section: &Section<'_>) -> Vec<Engine> {
    let words = section.words("on").unwrap_or_default();
    let known = Engine::ALL.map(Engine::name);
    let mut engines = Vec::new();
    for Word { text, span } in &words {
        match text.parse() {
            Ok(engine) => engines.push(engine),
            Err(_) => {
                let message = format!("there is no engine '{text}'{}", suggest(text, &known));
                section.error(span, message);
            }
        }
    }
    engines
}

fn arm_name_is_fine(name: &str) -> bool {
    (1..=60).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '%'))
}

fn placement(
    section: &Section<'_>,
    network: &Network<'_>,
    listed: &mut Vec<Listed>,
) -> Option<Placement> {
    let policy = section.required_word("policy", "\"adaptive\"");
    let node = section
        .required_word("at", "\"receiver\"")
        .filter(|at| check_node(section, at, network.nodes));
    let link = section
        .required_word("link", "\"wan\"")
        .filter(|link| check_link(section, link, network));
    if let (Some(node), Some(link)) = (&node, &link) {
        check_interface(section, node, link, network);
    }
    let position = position(section, node.as_ref(), network);
    let environment = section
        .choice("environment", &ENVIRONMENTS)
        .unwrap_or_default();
    if environment == Environment::Stack && position != Position::Receiver && node.is_some() {
        section.error(
            &section.span_of("environment"),
            "environment = \"stack\" is the rule of a receiver: 'at' is a node that a flow leads to",
        );
    }
    let hold = section.time("hold", Duration::ZERO, WEEK);
    if let Some(hold) = hold.filter(|hold| !(NANOSECOND..=MAX_HOLD).contains(hold)) {
        let message = if hold.is_zero() {
            "'hold' must be more than zero; policy = \"none\" withholds nothing".to_owned()
        } else {
            format!("an ACK may be withheld for 500 ms at most (RFC 9293 §3.8.6.3), not {hold:?}")
        };
        section.error(&section.span_of("hold"), message);
    }
    let hold_min = hold_min(section, environment, hold);
    let cwnd_hint = section.flag("cwnd_hint").unwrap_or(false);
    if cwnd_hint
        && (position != Position::Sender || environment == Environment::Stack)
        && node.is_some()
    {
        section.error(
            &section.span_of("cwnd_hint"),
            "'cwnd_hint' is for the host that sends the data: 'at' is a node that a flow comes \
             from, with position = \"sender\"",
        );
    }
    let obey_ack_rate = section.flag("obey_ack_rate").unwrap_or(false);
    if obey_ack_rate && position != Position::Receiver && node.is_some() {
        section.error(
            &section.span_of("obey_ack_rate"),
            "'obey_ack_rate' is for the host that is asked: 'at' is a node that a flow leads to",
        );
    }
    if obey_ack_rate && policy.as_ref().is_some_and(|policy| policy.text != OBEYING) {
        section.error(
            &section.span_of("obey_ack_rate"),
            "'obey_ack_rate' gives the policy \"every-n\" its n; set that policy, with n = 1 for \
             flows that do not ask",
        );
    }
    let flows = flows(section, environment, link.as_ref(), network);
    let set = match section.table("set") {
        Some((table, _)) => settings(section, table, listed),
        None => Vec::new(),
    };
    let policy = policy?;
    if policy.text.is_empty() {
        section.error(&policy.span, "'policy' is empty; write e.g. \"adaptive\"");
    }
    Some(Placement {
        policy: policy.text,
        policy_span: policy.span,
        node: node?.text,
        link: link?.text,
        position,
        environment,
        set,
        hold,
        hold_min,
        cwnd_hint,
        obey_ack_rate,
        flows,
    })
}

/// The flows that a policy is for; each must cross its link.
fn flows(
    section: &Section<'_>,
    environment: Environment,
    link: Option<&Word>,
    network: &Network<'_>,
) -> Vec<String> {
    let known: Vec<&str> = network
        .flows
        .iter()
        .map(|flow| flow.name.as_str())
        .collect();
    let words = queue_keys::flows(section, &known);
    if environment == Environment::Stack && section.has("flows") {
        section.error(
            &section.span_of("flows"),
            "'flows' is for the datapath: a receiver's stack has one rule for all",
        );
    }
    for word in &words {
        let flow = network.flows.iter().find(|flow| flow.name == word.text);
        let (Some(flow), Some(link)) = (flow, link) else {
            continue;
        };
        let crosses = path(&flow.from, &flow.to, network.nodes, network.links)
            .is_none_or(|path| path.iter().any(|crossed| crossed.name == link.text));
        if !crosses {
            let message = format!("flow '{}' does not cross link '{}'", word.text, link.text);
            section.error(&word.span, message);
        }
    }
    words.into_iter().map(|word| word.text).collect()
}

fn hold_min(
    section: &Section<'_>,
    environment: Environment,
    hold: Option<Duration>,
) -> Option<Duration> {
    let least = section.time("hold_min", Duration::ZERO, WEEK)?;
    let span = section.span_of("hold_min");
    let Some(hold) = hold else {
        section.error(
            &span,
            "'hold_min' is a lower bound; add the upper one, 'hold'",
        );
        return None;
    };
    if environment == Environment::Stack {
        section.error(
            &span,
            "'hold_min' is for the datapath: a receiver's stack holds for a share of the round trip",
        );
    }
    if least > hold {
        section.error(
            &span,
            format!("'hold_min' is {least:?}, longer than 'hold', {hold:?}"),
        );
    }
    Some(least)
}

fn check_link(section: &Section<'_>, link: &Word, network: &Network<'_>) -> bool {
    let known: Vec<&str> = network.links.iter().map(|l| l.name.as_str()).collect();
    let found = known.contains(&link.text.as_str());
    if !found {
        section.error(
            &link.span,
            format!(
                "there is no link '{}'{}",
                link.text,
                suggest(&link.text, &known)
            ),
        );
    }
    found
}

fn check_interface(section: &Section<'_>, node: &Word, link: &Word, network: &Network<'_>) {
    let Some(found) = network.links.iter().find(|l| l.name == link.text) else {
        return;
    };
    if !found.between.contains(&node.text) {
        let [a, b] = &found.between;
        return section.error(
            &node.span,
            format!(
                "node '{}' is not on link '{}', which is between '{a}' and '{b}'",
                node.text, link.text
            ),
        );
    }
    let crossed = network.flows.iter().any(|flow| {
        path(&flow.from, &flow.to, network.nodes, network.links)
            .is_some_and(|path| path.iter().any(|l| l.name == found.name))
    });
    if !crossed && !network.flows.is_empty() {
        section.error(
            &link.span,
            format!(
                "no flow crosses link '{}'; a policy there sees nothing",
                link.text
            ),
        );
    }
}

fn position(section: &Section<'_>, node: Option<&Word>, network: &Network<'_>) -> Position {
    let receives = |name: &str| network.flows.iter().any(|f| f.to == name);
    let sends = |name: &str| network.flows.iter().any(|f| f.from == name);
    let natural = match node {
        Some(node) if receives(&node.text) => Position::Receiver,
        Some(node) if sends(&node.text) => Position::Sender,
        _ => Position::Router,
    };
    let Some(chosen) = section.choice("position", &POSITIONS) else {
        return natural;
    };
    let Some(node) = node.filter(|_| !network.flows.is_empty()) else {
        return chosen;
    };
    let mistake = match chosen {
        Position::Receiver if !receives(&node.text) => "no flow leads to",
        Position::Sender if !sends(&node.text) => "no flow comes from",
        Position::Router if receives(&node.text) || sends(&node.text) => "a flow ends at",
        _ => return chosen,
    };
    section.error(
        &section.span_of("position"),
        format!(
            "position '{}' does not fit: {mistake} '{}'; leave it out for '{}'",
            chosen.name(),
            node.text,
            natural.name()
        ),
    );
    chosen
}

fn settings(section: &Section<'_>, table: &Table, listed: &mut Vec<Listed>) -> Vec<Setting> {
    let mut settings = Vec::new();
    for entry in &table.entries {
        let mut values: Vec<Value> = Vec::new();
        if let Kind::Array(items) = &entry.value.kind {
            if items.is_empty() {
                section.error(
                    &entry.value.span,
                    format!("'{}' is empty; leave it out", entry.key),
                );
                continue;
            }
            values.clone_from(items);
        } else {
            values.push(entry.value.clone());
        }
        let Some(value) = check_values(section, entry, &values) else {
            continue;
        };
        if matches!(entry.value.kind, Kind::Array(_)) {
            listed.push(Listed {
                name: entry.key.clone(),
                name_span: entry.key_span.clone(),
                values: values.clone(),
            });
        }
        settings.push(Setting {
            name: entry.key.clone(),
            name_span: entry.key_span.clone(),
            value,
            value_span: values[0].span.clone(),
        });
    }
    settings
}

/// Checks the values of a parameter and returns the first if all are valid.
fn check_values(section: &Section<'_>, entry: &Entry, values: &[Value]) -> Option<SettingValue> {
    let mut seen: Vec<String> = Vec::new();
    for value in values {
        if single(value).is_none() {
            section.error(
                &value.span,
                format!(
                    "'{}' is set to a number, text, true or false, not {}",
                    entry.key,
                    value.what()
                ),
            );
            return None;
        }
        let text = value.plain().unwrap_or_default();
        if seen.contains(&text) {
            section.error(&value.span, format!("'{text}' is given twice"));
        }
        seen.push(text);
    }
    values.first().and_then(single)
}

fn single(value: &Value) -> Option<SettingValue> {
    match &value.kind {
        Kind::Text(text) => Some(SettingValue::Text(text.clone())),
        Kind::Integer(number) => Some(SettingValue::Integer(*number)),
        Kind::Float(number) => Some(SettingValue::Float(*number)),
        Kind::Bool(flag) => Some(SettingValue::Bool(*flag)),
        Kind::Datetime | Kind::Array(_) | Kind::Table(_) => None,
    }
}
