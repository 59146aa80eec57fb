//! The test vectors of `policy/vectors/`, which every environment replays. The format
//! is described in that directory's README.

mod contract;

pub use contract::{Answer, ContractStep, ContractTrace, Happening, parse_contract, read_contract};

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{
    Config, Event, EventFlags, LinkKind, ParseError, Policy, Segment, Verdict, parse_part,
};

/// An error in a file of vectors, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {what}", file.display())]
pub struct VectorError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; 0 for the file as a whole.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

/// An event, and the policy's expected verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The line of the file.
    pub line: usize,
    /// What happens.
    pub event: Event,
    /// The expected verdict; `None` after data and deadlines, where nothing is checked.
    pub expect: Option<Verdict>,
}

/// A flow from its start.
#[derive(Debug, Clone)]
pub struct Trace {
    /// What it shows.
    pub name: String,
    /// The policy with the trace's parameters.
    pub config: Config,
    /// Its events, with repetitions expanded.
    pub steps: Vec<Step>,
}

/// A policy's file of vectors.
#[derive(Debug, Clone)]
pub struct PolicyVectors {
    /// The policy they are for.
    pub policy: Policy,
    /// Flows, each with its own state.
    pub traces: Vec<Trace>,
}

/// A verdict of an environment that differs from the vectors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} ({trace}): expected {expected}, got {got}, {event:?}")]
pub struct Mismatch {
    /// The trace.
    pub trace: String,
    /// The line of the file.
    pub line: usize,
    /// What happened.
    pub event: Box<Event>,
    /// What the vectors say.
    pub expected: Verdict,
    /// What the environment returned.
    pub got: Verdict,
}

impl Trace {
    /// Replays the trace in an environment, given as the step of a policy whose state is fresh.
    ///
    /// # Errors
    ///
    /// The line of the trace and what differs there.
    pub fn replay(
        &self,
        mut environment: impl FnMut(&Config, &Event) -> Verdict,
    ) -> Result<(), Mismatch> {
        for step in &self.steps {
            let got = environment(&self.config, &step.event);
            match step.expect {
                Some(expected) if expected != got => {
                    return Err(Mismatch {
                        trace: self.name.clone(),
                        line: step.line,
                        event: Box::new(step.event),
                        expected,
                        got,
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// A packet, and the expected result of parsing it.
#[derive(Debug, Clone)]
pub struct PacketCase {
    /// What it shows.
    pub name: String,
    /// The line of the file where it begins.
    pub line: usize,
    /// The layer that the first byte belongs to.
    pub link: LinkKind,
    /// The bytes that are present.
    pub bytes: Vec<u8>,
    /// The length of the whole packet.
    pub total: usize,
    /// Whether it can be read.
    pub status: Result<(), ParseError>,
    /// Expected fields as text: line, name and value.
    pub fields: Vec<(usize, String, String)>,
}

impl PacketCase {
    /// Parses the packet and compares the result.
    ///
    /// # Errors
    ///
    /// The line and what differs.
    pub fn check(&self) -> Result<(), String> {
        let got = parse_part(&self.bytes, self.link, self.total);
        let status = got.as_ref().map(|_| ()).map_err(|e| *e);
        if status != self.status {
            let word =
                |s: &Result<(), ParseError>| STATUSES.iter().find(|w| w.1 == *s).map(|w| w.0);
            return Err(format!(
                "line {} ({}): expected {:?}, got {:?}",
                self.line,
                self.name,
                word(&self.status).unwrap_or_default(),
                word(&status).unwrap_or_default()
            ));
        }
        let Ok(segment) = got else { return Ok(()) };
        for (line, field, expected) in &self.fields {
            let got = field_text(&segment, field).unwrap_or_default();
            if got != *expected {
                let name = &self.name;
                return Err(format!(
                    "line {line} ({name}): {field} is {got}, not {expected}"
                ));
            }
        }
        Ok(())
    }
}

const STATUSES: [(&str, Result<(), ParseError>); 5] = [
    ("ok", Ok(())),
    ("not-tcp", Err(ParseError::NotTcp)),
    ("fragment", Err(ParseError::Fragment)),
    ("truncated", Err(ParseError::Truncated)),
    ("malformed", Err(ParseError::Malformed)),
];

/// The text of a segment's field as the vectors write it; `None` if there is no such field.
pub fn field_text(s: &Segment, field: &str) -> Option<String> {
    let raw = s.raw();
    let names = |set: Vec<&str>| {
        if set.is_empty() {
            "none".to_owned()
        } else {
            set.join("|")
        }
    };
    let counter = |n: Option<u32>| n.map_or("none".to_owned(), |n| n.to_string());
    Some(match field {
        "src" => s.src().to_string(),
        "dst" => s.dst().to_string(),
        "ecn" => raw.ip_ecn.to_string(),
        "ttl" => raw.ttl.to_string(),
        "seq" => s.seq().to_string(),
        "ack" => s.ack().to_string(),
        "payload" => s.payload().to_string(),
        "len" => s.ip_len().to_string(),
        "window" => s.window().to_string(),
        "l3_off" => raw.l3_off.to_string(),
        "l4_off" => raw.l4_off.to_string(),
        "l4_len" => raw.l4_len.to_string(),
        "mss" => raw.mss.to_string(),
        "wscale" => raw.wscale.to_string(),
        "flags" => names(s.flags().iter_names().map(|(name, _)| name).collect()),
        "opts" => names(s.options().iter_names().map(|(name, _)| name).collect()),
        "ts" => s
            .timestamps()
            .map_or("none".to_owned(), |(val, ecr)| format!("{val} {ecr}")),
        "ce_bytes" => counter(s.ce_bytes()),
        "e0_bytes" => counter(s.e0_bytes()),
        "e1_bytes" => counter(s.e1_bytes()),
        "sack" => {
            let blocks: Vec<String> = s.sack().map(|(l, r)| format!("{l}-{r}")).collect();
            if blocks.is_empty() {
                "none".to_owned()
            } else {
                blocks.join(" ")
            }
        }
        _ => return None,
    })
}

/// The directory of the vectors in a checkout.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../policy/vectors")
}

/// The path of a policy's vectors below that directory.
pub fn policy_file(directory: &Path, policy: Policy) -> PathBuf {
    directory.join(format!("{}.vec", policy.name()))
}

fn read(file: &Path) -> Result<String, VectorError> {
    fs::read_to_string(file).map_err(|e| VectorError {
        file: file.to_owned(),
        line: 0,
        what: format!("cannot be read: {e}"),
    })
}

/// Reads a policy's vectors from a file.
///
/// # Errors
///
/// The file cannot be read, or a line of it is wrong.
pub fn read_policy(file: &Path) -> Result<PolicyVectors, VectorError> {
    parse_policy(file, &read(file)?)
}

/// Reads packet vectors from a file.
///
/// # Errors
///
/// The file cannot be read, or a line of it is wrong.
pub fn read_packets(file: &Path) -> Result<Vec<PacketCase>, VectorError> {
    parse_packets(file, &read(file)?)
}

/// Numbered lines, without comments and empty lines.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.split('#').next().unwrap_or_default().trim()))
        .filter(|(_, line)| !line.is_empty())
}

fn number<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{what}: {text:?} is no number that fits"))
}

fn pair(word: &str) -> Result<(&str, &str), String> {
    word.split_once('=')
        .ok_or_else(|| format!("{word:?} is not name=value"))
}

/// The known facts of the flow, until the next `facts` line.
#[derive(Clone, Copy, Default)]
struct Facts {
    mss: u32,
    rcv_wnd: u32,
    srtt_us: u32,
    min_rtt_us: u32,
    hold_us: u32,
}

impl Facts {
    fn read(words: &[&str]) -> Result<Facts, String> {
        let mut facts = Facts::default();
        for word in words {
            let (name, value) = pair(word)?;
            let value = number(name, value)?;
            match name {
                "mss" => facts.mss = value,
                "rcv_wnd" => facts.rcv_wnd = value,
                "srtt_us" => facts.srtt_us = value,
                "min_rtt_us" => facts.min_rtt_us = value,
                "hold_us" => facts.hold_us = value,
                _ => {
                    return Err(format!(
                        "no fact {name:?}; there are mss, rcv_wnd, srtt_us, min_rtt_us, hold_us"
                    ));
                }
            }
        }
        Ok(facts)
    }
}

const FLAGS: [(&str, EventFlags); 11] = [
    ("out-of-order", EventFlags::OUT_OF_ORDER),
    ("fills-gap", EventFlags::FILLS_GAP),
    ("ack-ce-echo", EventFlags::ACK_CE_ECHO),
    ("ce", EventFlags::CE),
    ("psh", EventFlags::PSH),
    ("must-send", EventFlags::MUST_SEND),
    ("recovery", EventFlags::RECOVERY),
    ("holding", EventFlags::HOLDING),
    ("others", EventFlags::OTHERS),
    ("shared", EventFlags::SHARED),
    ("busy", EventFlags::BUSY),
];

/// The time of a step, in µs.
#[derive(Clone, Copy)]
enum When {
    /// `@time`: on the trace's clock.
    At(u64),
    /// `+time`: relative to the step before it.
    After(u64),
}

impl When {
    fn read(word: &str) -> Result<When, String> {
        match (word.strip_prefix('@'), word.strip_prefix('+')) {
            (Some(us), _) => Ok(When::At(number("time", us)?)),
            (_, Some(us)) => Ok(When::After(number("time", us)?)),
            _ => Err(format!(
                "{word:?} is not policy, trace, param, facts, @time or +time"
            )),
        }
    }

    /// The step's time, if the one before it was at `clock`.
    fn after(self, clock: u64) -> Result<u64, String> {
        let next = match self {
            When::At(us) => Some(us),
            When::After(us) => clock.checked_add(us),
        };
        next.filter(|next| *next >= clock)
            .ok_or_else(|| "the clock runs backwards".to_owned())
    }
}

/// `@time` or `+time`, `[xN]`, `data|ack|deadline`, words, `[-> verdict]`.
fn read_steps(
    line: usize,
    words: &[&str],
    facts: &Facts,
    clock: &mut u64,
    steps: &mut Vec<Step>,
) -> Result<(), String> {
    let arrow = words.iter().position(|w| *w == "->").unwrap_or(words.len());
    let (head, tail) = words.split_at(arrow);
    let mut head = head.iter().copied().peekable();
    let when = When::read(head.next().unwrap_or_default())?;
    let times = match head.next_if(|w| w.starts_with('x')) {
        Some(times) => number::<usize>("repetition", &times[1..])?,
        None => 1,
    };
    if times == 0 || (matches!(when, When::At(_)) && times > 1) {
        return Err("a repetition needs +time, and to happen at least once".to_owned());
    }
    let mut event = read_event(head, facts)?;
    let expect = read_verdict(tail, facts)?;
    for _ in 0..times {
        *clock = when.after(*clock)?;
        event.now_us = *clock;
        steps.push(Step {
            line,
            event,
            expect,
        });
    }
    Ok(())
}

/// `data|ack|deadline`, flags and `name=value`; the time is not set.
fn read_event<'a>(
    mut words: impl Iterator<Item = &'a str>,
    facts: &Facts,
) -> Result<Event, String> {
    let mut event = match words.next() {
        Some("data") => Event::data(0),
        Some("ack") => Event {
            len: 52,
            ..Event::ack(0)
        },
        Some("deadline") => Event {
            len: 52,
            ..Event::deadline(0)
        },
        other => {
            return Err(format!(
                "no event {:?}; there are data, ack, deadline",
                other.unwrap_or_default()
            ));
        }
    };
    event.segments = 1;
    let mut bytes = None;
    for word in words {
        if let Some((_, flag)) = FLAGS.iter().find(|(name, _)| *name == word) {
            event.flags |= *flag;
            continue;
        }
        let (name, value) = pair(word)?;
        let value = number(name, value)?;
        match name {
            "bytes" => bytes = Some(value),
            "segments" => event.segments = value,
            "len" => event.len = value,
            "hops" => event.hops = value,
            "peer_wnd" => event.peer_wnd = value,
            _ => {
                return Err(format!(
                    "no field {name:?}; there are bytes, segments, len, hops, peer_wnd"
                ));
            }
        }
    }
    event.bytes = bytes.unwrap_or(event.segments.saturating_mul(facts.mss));
    event.mss = facts.mss;
    event.rcv_wnd = facts.rcv_wnd;
    event.srtt_us = facts.srtt_us;
    event.min_rtt_us = facts.min_rtt_us;
    event.hold_us = facts.hold_us;
    Ok(event)
}

/// `-> send|hold [us]|drop`, or nothing if no verdict is expected.
fn read_verdict(words: &[&str], facts: &Facts) -> Result<Option<Verdict>, String> {
    Ok(match words {
        [] => None,
        ["->", "send"] => Some(Verdict::Send),
        ["->", "drop"] => Some(Verdict::Drop),
        ["->", "hold"] => Some(Verdict::Hold { us: facts.hold_us }),
        ["->", "hold", us] => Some(Verdict::Hold {
            us: number("hold", us)?,
        }),
        _ => {
            return Err(format!(
                "{:?} is not -> send, hold [us] or drop",
                words.join(" ")
            ));
        }
    })
}

/// Parses a policy's vectors from text; `file` is used only in errors.
///
/// # Errors
///
/// A line is wrong; the error says which one and why.
pub fn parse_policy(file: &Path, text: &str) -> Result<PolicyVectors, VectorError> {
    let at = |line, what: String| VectorError {
        file: file.to_owned(),
        line,
        what,
    };
    let mut policy = None;
    let mut traces: Vec<Trace> = Vec::new();
    let mut facts = Facts::default();
    let mut clock = 0;
    for (line, content) in lines(text) {
        let words: Vec<&str> = content.split_whitespace().collect();
        let result = match (words.as_slice(), policy, traces.last_mut()) {
            (["policy", name], None, _) => match Policy::by_name(name) {
                Ok(found) => {
                    policy = Some(found);
                    Ok(())
                }
                Err(e) => Err(e.to_string()),
            },
            (["policy", ..], Some(_), _) => Err("a second policy line".to_owned()),
            (_, None, _) => Err("the file must begin with: policy <name>".to_owned()),
            (["trace", ..], Some(policy), _) => {
                (facts, clock) = (Facts::default(), 0);
                traces.push(Trace {
                    name: words[1..].join(" "),
                    config: Config::new(policy),
                    steps: Vec::new(),
                });
                Ok(())
            }
            (_, _, None) => Err("before the first trace".to_owned()),
            (["param", name, value], _, Some(trace)) => {
                if trace.steps.is_empty() {
                    trace.config.set(name, value).map_err(|e| e.to_string())
                } else {
                    Err("parameters come before the events of a trace".to_owned())
                }
            }
            (["facts", rest @ ..], ..) => Facts::read(rest).map(|read| facts = read),
            (_, _, Some(trace)) => read_steps(line, &words, &facts, &mut clock, &mut trace.steps),
        };
        result.map_err(|what| at(line, what))?;
    }
    let policy = policy.ok_or_else(|| at(0, "no policy line".to_owned()))?;
    let mut names = BTreeSet::new();
    for trace in &traces {
        if !trace.steps.iter().any(|step| step.expect.is_some()) {
            return Err(at(0, format!("trace {:?} expects nothing", trace.name)));
        }
        if !names.insert(trace.name.as_str()) {
            return Err(at(0, format!("two traces are called {:?}", trace.name)));
        }
    }
    if traces.is_empty() {
        return Err(at(0, "no trace".to_owned()));
    }
    Ok(PolicyVectors { policy, traces })
}

/// Parses packet vectors from text; `file` is used only in errors.
///
/// # Errors
///
/// A line is wrong; the error says which one and why.
pub fn parse_packets(file: &Path, text: &str) -> Result<Vec<PacketCase>, VectorError> {
    let at = |line, what: String| VectorError {
        file: file.to_owned(),
        line,
        what,
    };
    let mut cases: Vec<PacketCase> = Vec::new();
    let mut totals = Vec::new();
    let mut statuses = Vec::new();
    let probe = Segment::from_raw(crate::sys::aw_seg::default());
    for (line, content) in lines(text) {
        let (word, rest) = content
            .split_once(char::is_whitespace)
            .unwrap_or((content, ""));
        let rest = rest.trim();
        if word == "packet" {
            cases.push(PacketCase {
                name: rest.to_owned(),
                line,
                link: LinkKind::Ethernet,
                bytes: Vec::new(),
                total: 0,
                status: Ok(()),
                fields: Vec::new(),
            });
            totals.push(None);
            statuses.push(None);
            continue;
        }
        let (Some(case), Some(total), Some(status)) =
            (cases.last_mut(), totals.last_mut(), statuses.last_mut())
        else {
            return Err(at(line, "before the first packet".to_owned()));
        };
        let result = match word {
            "link" => match rest {
                "ethernet" => {
                    case.link = LinkKind::Ethernet;
                    Ok(())
                }
                "ip" => {
                    case.link = LinkKind::Ip;
                    Ok(())
                }
                _ => Err(format!("no link {rest:?}; there are ethernet and ip")),
            },
            "total" => number("total", rest).map(|n: usize| *total = Some(n)),
            "hex" => hex(rest).map(|bytes| case.bytes.extend(bytes)),
            "status" => match STATUSES.iter().find(|(name, _)| *name == rest) {
                Some((_, found)) => {
                    *status = Some(*found);
                    Ok(())
                }
                None => Err(format!("no status {rest:?}")),
            },
            _ if field_text(&probe, word).is_some() => {
                case.fields.push((line, word.to_owned(), rest.to_owned()));
                Ok(())
            }
            _ => Err(format!("no field {word:?}")),
        };
        result.map_err(|what| at(line, what))?;
    }
    for ((case, total), status) in cases.iter_mut().zip(totals).zip(statuses) {
        case.total = total.unwrap_or(case.bytes.len());
        case.status = status.ok_or_else(|| at(case.line, "a packet without status".to_owned()))?;
        if case.status.is_err() && !case.fields.is_empty() {
            return Err(at(
                case.line,
                "fields of a packet that is not read".to_owned(),
            ));
        }
    }
    Ok(cases)
}

fn hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    if digits.len() % 2 == 1 {
        return Err("an odd number of hex digits".to_owned());
    }
    digits
        .chunks(2)
        .map(|two| {
            let two: String = two.iter().collect();
            u8::from_str_radix(&two, 16).map_err(|_| format!("{two:?} is not hexadecimal"))
        })
        .collect()
}

impl fmt::Display for PolicyVectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: usize = self.traces.iter().map(|t| t.steps.len()).sum();
        write!(
            f,
            "{}: {} traces, {steps} steps",
            self.policy,
            self.traces.len()
        )
    }
}
