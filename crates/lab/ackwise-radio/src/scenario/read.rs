//! Reads a radio scenario: tables, keys, numbers.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use super::field::{FIELD_KEYS, fields};
use super::{EnergyModel, MacModel, RadioArm, RadioModel, RadioScenario, Routing, SleepModel};
use ackwise_config::diagnostic::Collector;
use ackwise_config::section::Section;
use ackwise_config::tree::Table;
use ackwise_config::{Source, Span};
use ackwise_queue::Nanos;
use ackwise_scenario::ScenarioError;
use ackwise_scenario::tcp_model::tcp_model;

const ROUTINGS: [(&str, Routing); 2] = [("aodv", Routing::Aodv), ("static", Routing::Static)];
/// Maximum bytes of a frame (aMaxPHYPacketSize).
const MAX_BYTES: u32 = 127;
/// The default congestion control of senders.
const NEWRENO: &str = "newreno";
/// Bytes of the IP and TCP headers.
const TCP_HEADER: u32 = 40;
/// Keys of `[radio]` that an arm may change as well.
const RADIO_KEYS: [&str; 21] = [
    "carrier_sense",
    "interference",
    "capture",
    "bit_errors",
    "routing",
    "link_feedback",
    "hellos",
    "local_repair",
    "mac_preset",
    "min_be",
    "max_be",
    "max_backoffs",
    "max_retries",
    "mac_header",
    "queue",
    "first_slot",
    "ack_wait",
    "pauses",
    "look_setup",
    "wake_up",
    "phase_lock",
];
/// MACs of other simulators, and the standard's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Preset {
    Standard,
    Inetmanet2011,
}

const PRESETS: [(&str, Preset); 2] = [
    ("802.15.4", Preset::Standard),
    ("inetmanet-2011", Preset::Inetmanet2011),
];
/// Limits of `ack_wait`: a turnaround and an acknowledgment take 544 µs.
const ACK_WAITS_US: [u64; 2] = [545, 100_000];
/// Limits of the time between channel checks: a train of a sixtieth of a second fits, and TCP does
/// not give up before a neighbour wakes.
const WAKE_UPS: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(2)];
/// Lower limits: below them a run would take almost no energy, and its throughput per energy would be
/// meaningless.
const MIN_V: f64 = 0.001;
const MIN_MA: f64 = 0.001;

/// Shortest and longest duration of a run.
const DURATION: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(100_000)];

impl RadioScenario {
    /// The scenario with another duration.
    ///
    /// # Errors
    /// The duration is out of range.
    pub fn with_duration(self, duration: Duration) -> Result<RadioScenario, ScenarioError> {
        let [least, most] = DURATION;
        if !(least..=most).contains(&duration) {
            return Err(ScenarioError::Duration {
                duration,
                least,
                most,
            });
        }
        Ok(RadioScenario { duration, ..self })
    }

    /// Parses and checks the text of a scenario; `name` stands for the file in messages.
    ///
    /// # Errors
    /// All mistakes, with line and column.
    pub fn parse(name: impl AsRef<Path>, text: &str) -> Result<RadioScenario, ScenarioError> {
        RadioScenario::from_source(&Source {
            path: name.as_ref().to_owned(),
            text: text.to_owned(),
        })
    }

    /// Reads and checks a scenario file.
    ///
    /// # Errors
    /// The file cannot be read, or has mistakes.
    pub fn load(path: impl AsRef<Path>) -> Result<RadioScenario, ScenarioError> {
        RadioScenario::from_source(&Source::read(path.as_ref())?)
    }

    fn from_source(source: &Source) -> Result<RadioScenario, ScenarioError> {
        Ok(source.check(|tree, errors| scenario(tree, source, errors))?)
    }

    /// Whether a text describes a radio scenario: it has a table `[radio]`.
    pub fn is_meant(text: &str) -> bool {
        let mut errors = Collector::default();
        Table::parse(text, &mut errors).is_some_and(|tree| tree.get("radio").is_some())
    }

    /// An error about a place in the file.
    pub fn error_at(&self, span: &Span, message: impl Into<String>) -> ScenarioError {
        self.source.error_at(span, message).into()
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
    let keys = ["name", "about", "duration", "seeds", "data", "stagger"];
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
            "there is no flow; add [[flow]] with 'from' and 'to'",
        );
    }
    Some(RadioScenario {
        name: head.word("name").map(|word| word.text).unwrap_or_default(),
        about: head
            .word("about")
            .map_or(String::new(), |word| word.text.trim().to_owned()),
        duration: head
            .time("duration", DURATION[0], DURATION[1])
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

fn radio(root: &Section<'_>, table: &Table, span: &Span) -> RadioModel {
    let keys: Vec<&str> = ["range"]
        .iter()
        .chain(&RADIO_KEYS)
        .chain(&FIELD_KEYS)
        .copied()
        .collect();
    let s = Section::open(table, span, "[radio]", &keys, root.errors);
    let standard = RadioModel::default();
    let range_m = metres(&s, "range", standard.range_m);
    let twice = RadioModel {
        range_m,
        carrier_sense_m: 2.0 * range_m,
        interference_m: 2.0 * range_m,
        ..standard
    };
    radios(&s, &twice)
}

fn metres(s: &Section<'_>, key: &str, otherwise: f64) -> f64 {
    s.number_within(key, 0.1, 10_000.0, "m")
        .unwrap_or(otherwise)
}

/// Medium and MAC: what the table sets, with `d` for the rest.
fn radios(s: &Section<'_>, d: &RadioModel) -> RadioModel {
    let mac = mac(s, &d.mac);
    if mac.min_be > mac.max_be {
        s.error(
            &s.span_of(if s.has("min_be") { "min_be" } else { "max_be" }),
            format!(
                "'min_be' ({}) is above 'max_be' ({})",
                mac.min_be, mac.max_be
            ),
        );
    }
    let routing = s.choice("routing", &ROUTINGS).unwrap_or(d.routing);
    let of_aodv = |key: &str, otherwise| {
        let asked = s.flag(key);
        if asked == Some(true) && routing == Routing::Static {
            s.error(
                &s.span_of(key),
                format!("'{key}' needs AODV; remove it, or write routing = \"aodv\""),
            );
        }
        asked.unwrap_or(otherwise)
    };
    RadioModel {
        range_m: d.range_m,
        carrier_sense_m: metres(s, "carrier_sense", d.carrier_sense_m),
        interference_m: metres(s, "interference", d.interference_m),
        capture_db: s.number_within("capture", 0.0, 60.0, "dB").or(d.capture_db),
        bit_errors: s
            .number_within("bit_errors", 0.0, 0.5, "of a bit")
            .unwrap_or(d.bit_errors),
        routing,
        link_feedback: s.flag("link_feedback").unwrap_or(d.link_feedback),
        hellos: of_aodv("hellos", d.hellos),
        local_repair: of_aodv("local_repair", d.local_repair),
        mac,
        sleep: sleep(s, d.sleep.as_ref()),
        energy: d.energy.clone(),
    }
}

/// The MAC: what the table sets, with a preset or `d` for the rest.
fn mac(s: &Section<'_>, d: &MacModel) -> MacModel {
    let d = match s.choice("mac_preset", &PRESETS) {
        Some(Preset::Standard) => &MacModel::default(),
        Some(Preset::Inetmanet2011) => &MacModel::inetmanet_2011(),
        None => d,
    };
    let time = |key, [least, most]: [u64; 2], otherwise| {
        s.time(
            key,
            Duration::from_micros(least),
            Duration::from_micros(most),
        )
        .map_or(otherwise, |time| {
            Nanos::try_from(time.as_nanos()).unwrap_or(otherwise)
        })
    };
    MacModel {
        min_be: s.whole("min_be", 0, 8).unwrap_or(d.min_be),
        max_be: s.whole("max_be", 0, 8).unwrap_or(d.max_be),
        max_backoffs: s.whole("max_backoffs", 0, 5).unwrap_or(d.max_backoffs),
        max_retries: s.whole("max_retries", 0, 7).unwrap_or(d.max_retries),
        header: s.size_within("mac_header", 1, 40).unwrap_or(d.header),
        queue: s.whole("queue", 1, 10_000).unwrap_or(d.queue),
        first_slot: s.whole("first_slot", 0, 1).unwrap_or(d.first_slot),
        ack_wait: time("ack_wait", ACK_WAITS_US, d.ack_wait),
        pauses: s.flag("pauses").unwrap_or(d.pauses),
        look_setup: time("look_setup", [1, 10_000], d.look_setup),
    }
}

/// Sleep of the radios: what the table sets, with `d` for the rest.
fn sleep(s: &Section<'_>, d: Option<&SleepModel>) -> Option<SleepModel> {
    let wake_up = s.time("wake_up", WAKE_UPS[0], WAKE_UPS[1]);
    let phase_lock = s.flag("phase_lock");
    let Some(wake_up) = wake_up.or(d.map(|d| d.wake_up)) else {
        if phase_lock.is_some() && !s.has("wake_up") {
            s.error(
                &s.span_of("phase_lock"),
                "'phase_lock' needs radios that sleep; add e.g. wake_up = \"125 ms\"",
            );
        }
        return None;
    };
    Some(SleepModel {
        wake_up,
        phase_lock: phase_lock.unwrap_or(d.is_none_or(|d| d.phase_lock)),
    })
}

fn energy(model: &mut EnergyModel, table: &Table, span: &Span, errors: &RefCell<Collector>) {
    let keys = ["voltage", "tx", "rx", "idle", "sleep"];
    let s = Section::open(table, span, "[energy]", &keys, errors);
    let set = |to: &mut f64, key, [least, most]: [f64; 2], unit| {
        if let Some(value) = s.number_within(key, least, most, unit) {
            *to = value;
        }
    };
    set(&mut model.voltage, "voltage", [MIN_V, 48.0], "V");
    let currents = [0.0, 10_000.0];
    set(&mut model.tx_ma, "tx", currents, "mA");
    set(&mut model.rx_ma, "rx", currents, "mA");
    set(&mut model.idle_ma, "idle", currents, "mA");
    set(&mut model.sleep_ma, "sleep", currents, "mA");
    // 'sleep' does not count: radios that never sleep use none of it.
    if model.tx_ma.max(model.rx_ma).max(model.idle_ma) < MIN_MA {
        s.error(
            span,
            format!(
                "a radio uses no energy to send, receive or listen, so throughput per joule is undefined; set 'tx', 'rx' or 'idle' to at least {MIN_MA} mA"
            ),
        );
    }
}

fn arms(root: &Section<'_>, radio: &RadioModel) -> Vec<RadioArm> {
    let mut arms: Vec<RadioArm> = Vec::new();
    for (table, span) in root.tables("arm") {
        let s = Section::open(
            table,
            span,
            "[[arm]]",
            &["name", "policy", "cc", "model", "radio"],
            root.errors,
        );
        let Some(name) = s.word("name") else {
            s.error(span, "an arm needs a name; add e.g. name = \"tcp\"");
            continue;
        };
        if arms.iter().any(|arm| arm.name == name.text) {
            s.error(
                &name.span,
                format!("there is another arm '{}'; names are unique", name.text),
            );
        }
        let model = tcp_model(&s);
        let radio = match s.table("radio") {
            Some((table, span)) => {
                let what = format!("'radio' of arm '{}'", name.text);
                let own = Section::open(table, span, what, &RADIO_KEYS, root.errors);
                radios(&own, radio)
            }
            None => radio.clone(),
        };
        let segment = model.segment.unwrap_or(48);
        let bytes = segment + model.header.unwrap_or(TCP_HEADER) + radio.mac.header;
        if bytes > MAX_BYTES {
            s.error(
                &s.span_of("model"),
                format!(
                    "a segment of {segment} B makes a frame of {bytes} B, and a frame may have {MAX_BYTES} B; lower 'segment' by {} B",
                    bytes - MAX_BYTES
                ),
            );
        }
        let (policy, cc) = (s.word("policy"), s.word("cc"));
        arms.push(RadioArm {
            name: name.text,
            policy_span: policy
                .as_ref()
                .map_or(span.clone(), |word| word.span.clone()),
            policy: policy.map(|word| word.text),
            cc_span: cc.as_ref().map_or(span.clone(), |word| word.span.clone()),
            cc: cc.map_or(NEWRENO.to_owned(), |word| word.text),
            model,
            radio,
        });
    }
    if arms.is_empty() {
        root.error(&(0..0), "there is no arm; add [[arm]] with a name");
    }
    arms
}
