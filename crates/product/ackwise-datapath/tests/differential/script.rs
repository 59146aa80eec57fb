//! The steps of a run, and their text form: one line each, so that a finding can be kept in
//! `kept.script`.

use std::fmt::{self, Write as _};

use ackwise_datapath::Tag;

/// A step of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The time since the previous step, ns.
    pub wait: u64,
    pub what: Action,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A frame in the direction of the ACKs (`acks`) or of the data.
    Frame {
        acks: bool,
        gso_size: u32,
        mark: u32,
        /// A tag beside the frame.
        tag: Option<Tag>,
        bytes: Vec<u8>,
    },
    /// The timer fires.
    Tick,
    /// User space sends one of the ACKs that it was handed, by index modulo their number.
    Return(usize),
}

/// The steps, and when they begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The policy in the form that `Config` parses.
    pub policy: String,
    pub position: &'static str,
    /// Whether frames begin with an Ethernet header rather than an IP header.
    pub ethernet: bool,
    /// The time before the first step, ns.
    pub begin: u64,
    pub steps: Vec<Step>,
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let link = if self.ethernet { "ethernet" } else { "ip" };
        writeln!(
            f,
            "script {} {} {link} {}",
            self.policy, self.position, self.begin
        )?;
        for step in &self.steps {
            writeln!(f, "{step}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.wait)?;
        match &self.what {
            Action::Tick => f.write_str("tick"),
            Action::Return(n) => write!(f, "return {n}"),
            Action::Frame {
                acks,
                gso_size,
                mark,
                tag,
                bytes,
            } => {
                let direction = if *acks { "acks" } else { "data" };
                write!(f, "{direction} {gso_size} {mark:x} ")?;
                if let Some(tag) = tag {
                    write!(f, "{:x}:{:x} ", tag.ether_type(), tag.tci)?;
                }
                bytes.iter().try_for_each(|b| write!(f, "{b:02x}"))
            }
        }
    }
}

/// Parses the scripts of a file. Lines that begin with `#` are comments.
pub fn read(text: &str) -> Vec<Script> {
    let mut scripts: Vec<Script> = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = || -> ! { panic!("line {}: not a step: {line}", n + 1) };
        match line.strip_prefix("script ") {
            Some(head) => scripts.push(head_of(head).unwrap_or_else(|| wrong())),
            None => {
                let step = step_of(line).unwrap_or_else(|| wrong());
                let script = scripts.last_mut().unwrap_or_else(|| wrong());
                script.steps.push(step);
            }
        }
    }
    scripts
}

fn head_of(head: &str) -> Option<Script> {
    let mut words = head.split(' ');
    Some(Script {
        policy: words.next()?.to_owned(),
        position: ["receiver", "sender"]
            .into_iter()
            .find(|p| words.clone().next() == Some(p))?,
        ethernet: words.nth(1)? == "ethernet",
        begin: words.next()?.parse().ok()?,
        steps: Vec::new(),
    })
}

fn step_of(line: &str) -> Option<Step> {
    let mut words = line.split(' ');
    let wait = words.next()?.parse().ok()?;
    let what = match words.next()? {
        "tick" => Action::Tick,
        "return" => Action::Return(words.next()?.parse().ok()?),
        direction @ ("acks" | "data") => Action::Frame {
            acks: direction == "acks",
            gso_size: words.next()?.parse().ok()?,
            mark: u32::from_str_radix(words.next()?, 16).ok()?,
            tag: match words.clone().next()?.split_once(':') {
                Some((kind, tci)) => {
                    words.next();
                    Some(Tag {
                        provider: kind == "88a8",
                        tci: u16::from_str_radix(tci, 16).ok()?,
                    })
                }
                None => None,
            },
            bytes: (words.next()?.as_bytes().chunks(2))
                .map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok())
                .collect::<Option<_>>()?,
        },
        _ => return None,
    };
    Some(Step { wait, what })
}

/// Bytes as two hexadecimal digits each, for messages.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    })
}
