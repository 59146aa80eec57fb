//! `contract.vec`: segments of a flow, and what the contract decides for each.

use std::path::Path;

use super::{VectorError, lines, number, pair, read};
use crate::{
    Config, Decision, Flow, FlowConfig, Handshake, Options, Reason, Segment, TcpFlags, Verdict, sys,
};

/// An event of a flow.
#[derive(Debug, Clone)]
pub enum Happening {
    /// A segment from the data sender, with the number of segments aggregated in it.
    Data(Segment, u32),
    /// A segment of the ACK direction.
    Ack(Segment),
    /// The deadline of the held ACK came, and it left.
    Sent,
}

/// The expected decision on an ACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Why the ACK is sent or withheld; the reason implies which.
    pub reason: Reason,
    /// A held ACK no longer needs to leave.
    pub supersedes: bool,
    /// The ACK must be sent twice.
    pub twice: bool,
    /// The held ACK leaves first, unchanged.
    pub releases: bool,
}

impl Answer {
    fn of(decision: &Decision, releases: bool) -> Answer {
        Answer {
            reason: decision.reason,
            supersedes: decision.supersedes,
            twice: decision.twice,
            releases,
        }
    }

    /// Whether the ACK is withheld.
    pub fn withholds(self) -> bool {
        matches!(self.reason.id(), sys::AW_R_HELD | sys::AW_R_DROPPED)
    }

    fn text(self) -> String {
        let mut text = self.reason.name().to_owned();
        for (set, word) in [
            (self.supersedes, " supersedes"),
            (self.twice, " twice"),
            (self.releases, " releases"),
        ] {
            if set {
                text.push_str(word);
            }
        }
        text
    }
}

/// One step of a trace.
#[derive(Debug, Clone)]
pub struct ContractStep {
    /// The line of the file.
    pub line: usize,
    /// The time of the step.
    pub now_us: u64,
    /// The event.
    pub what: Happening,
    /// The expected decision, for an ACK.
    pub expect: Option<Answer>,
}

/// A flow from its handshake on.
#[derive(Debug, Clone)]
pub struct ContractTrace {
    /// What it shows.
    pub name: String,
    /// The policy and the bounds on the hold.
    pub config: FlowConfig,
    /// The handshake, empty if it was not seen: the time, whether the segment travels in the
    /// direction of the ACKs, and the segment.
    pub handshake: Vec<(u64, bool, Segment)>,
    /// Its steps.
    pub steps: Vec<ContractStep>,
}

impl ContractTrace {
    /// Replays the trace natively and compares.
    ///
    /// # Errors
    ///
    /// The line of the trace and what differs there.
    pub fn check(&self) -> Result<(), String> {
        let mut handshake = Handshake::default();
        for (now_us, acks, segment) in &self.handshake {
            handshake.on_segment(segment, *acks, *now_us);
        }
        let seen = (!self.handshake.is_empty()).then_some(&handshake);
        let mut flow = Flow::new(seen, 0);
        let mut held: Option<Segment> = None;
        for step in &self.steps {
            match &step.what {
                Happening::Data(segment, n) => {
                    flow.on_data(&self.config, segment, *n, step.now_us);
                }
                Happening::Sent => {
                    let segment = held
                        .take()
                        .ok_or_else(|| format!("line {}: nothing is held", step.line))?;
                    flow.on_sent(&self.config, &segment, step.now_us);
                }
                Happening::Ack(segment) => {
                    let releases = flow.releases(segment);
                    if releases {
                        let first = held.take().ok_or_else(|| {
                            format!("line {}: nothing is held to be released", step.line)
                        })?;
                        flow.on_sent(&self.config, &first, step.now_us);
                    }
                    let decision = flow.on_ack(&self.config, segment, step.now_us);
                    let got = Answer::of(&decision, releases);
                    if got.withholds() != (decision.verdict != Verdict::Send) {
                        return Err(format!(
                            "line {} ({}): {} with verdict {}",
                            step.line,
                            self.name,
                            got.text(),
                            decision.verdict
                        ));
                    }
                    if let Some(expected) = step.expect.filter(|e| *e != got) {
                        return Err(format!(
                            "line {} ({}): expected {}, got {}",
                            step.line,
                            self.name,
                            expected.text(),
                            got.text()
                        ));
                    }
                    if got.withholds() {
                        held = Some(*segment);
                    } else if decision.supersedes {
                        held = None;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Reads the contract's vectors from a file.
///
/// # Errors
///
/// The file cannot be read, or a line of it is wrong.
pub fn read_contract(file: &Path) -> Result<Vec<ContractTrace>, VectorError> {
    parse_contract(file, &read(file)?)
}

/// The parser's state for one trace.
struct Reader {
    trace: ContractTrace,
    base: u32,
    mss: u32,
    clock: u64,
    window: u16,
    ack: u32,
    /// The next sequence number of the ACKs' side, as an offset from `base`.
    own: u32,
    /// The end of the data that a trace named or implied, as an offset from `base`.
    high: u32,
}

fn blank(base: u32) -> sys::aw_seg {
    sys::aw_seg {
        ip_version: 4,
        ttl: 64,
        flags: TcpFlags::ACK.bits(),
        seq: base,
        ack: base,
        len: 40,
        ce_bytes: u32::MAX,
        e0_bytes: u32::MAX,
        e1_bytes: u32::MAX,
        ..Default::default()
    }
}

/// `ACK|ECE`, or `none`.
fn flags(text: &str) -> Result<u16, String> {
    let mut bits = 0;
    for flag in text.split('|').filter(|f| *f != "none") {
        let flag = TcpFlags::from_name(flag).ok_or(format!("no flag {flag:?}"))?;
        bits |= flag.bits();
    }
    Ok(bits)
}

impl Reader {
    fn new(name: &str) -> Result<Reader, String> {
        // Greedy: everything that the contract allows to be withheld is withheld.
        let config: Config = "every-n:n=256,warm=0"
            .parse()
            .map_err(|e: crate::ConfigError| e.to_string())?;
        Ok(Reader {
            trace: ContractTrace {
                name: name.to_owned(),
                config: FlowConfig::new(&config),
                handshake: Vec::new(),
                steps: Vec::new(),
            },
            base: 0,
            mss: 1000,
            clock: 0,
            window: 50_000,
            ack: 0,
            own: 0,
            high: 0,
        })
    }

    fn push(&mut self, line: usize, what: Happening, expect: Option<Answer>) {
        self.trace.steps.push(ContractStep {
            line,
            now_us: self.clock,
            what,
            expect,
        });
    }

    /// `handshake [wscale=7] [mss=1000] [rtt_us=40000] [accecn[=FLAGS of the SYN-ACK]]`
    fn handshake(&mut self, words: &[&str]) -> Result<(), String> {
        let (mut wscale, mut rtt_us, mut accecn) = (None, 40_000, None);
        for word in words {
            if *word == "accecn" {
                accecn = Some(TcpFlags::CWR.bits());
                continue;
            }
            let (name, value) = pair(word)?;
            match name {
                "accecn" => accecn = Some(flags(value)?),
                "wscale" => wscale = Some(number(name, value)?),
                "mss" => self.mss = number(name, value)?,
                "rtt_us" => rtt_us = number::<u64>(name, value)?,
                _ => return Err(format!("no {name:?} in a handshake")),
            }
        }
        let mut syn = blank(self.base.wrapping_sub(1));
        let mut asks = TcpFlags::SYN;
        if accecn.is_some() {
            asks |= TcpFlags::AE | TcpFlags::CWR | TcpFlags::ECE;
        }
        syn.flags = asks.bits();
        syn.opts = Options::MSS.bits();
        syn.mss = u16::try_from(self.mss).map_err(|_| "mss: too large".to_owned())?;
        if let Some(wscale) = wscale {
            syn.opts |= Options::WSCALE.bits();
            syn.wscale = wscale;
        }
        let request = Segment(syn);
        syn.flags = (TcpFlags::SYN | TcpFlags::ACK).bits() | accecn.unwrap_or(0);
        self.trace.handshake = vec![
            (self.clock, false, request),
            (self.clock + rtt_us / 2, true, Segment(syn)),
            (self.clock + rtt_us, false, Segment(blank(self.base))),
        ];
        self.clock += rtt_us;
        Ok(())
    }

    /// `grow n`: n data segments in order, each acknowledged; nothing is checked.
    fn grow(&mut self, line: usize, n: u32) {
        for _ in 0..n {
            let mut data = blank(self.base);
            data.seq = self.base.wrapping_add(self.ack);
            data.payload = self.mss;
            self.clock += 100;
            self.push(line, Happening::Data(Segment(data), 1), None);
            self.ack += self.mss;
            self.high = self.high.max(self.ack);
            let mut ack = blank(self.base);
            ack.seq = self.base.wrapping_add(self.own);
            ack.ack = self.base.wrapping_add(self.ack);
            ack.window = self.window;
            self.push(line, Happening::Ack(Segment(ack)), None);
        }
    }

    /// `+us data seq=n [payload=n] [segments=n] [ecr=tsecr] [ce] [fin]`
    fn data(&mut self, line: usize, words: &[&str]) -> Result<(), String> {
        let mut segment = blank(self.base);
        segment.payload = self.mss;
        let mut segments = 1;
        let mut seq = None;
        for word in words {
            match *word {
                "ce" => {
                    segment.ip_ecn = 3;
                    continue;
                }
                "fin" => {
                    segment.flags |= TcpFlags::FIN.bits();
                    continue;
                }
                _ => {}
            }
            let (name, value) = pair(word)?;
            match name {
                "ecr" => {
                    segment.opts |= Options::TS.bits();
                    segment.tsecr = number(name, value)?;
                }
                "seq" => seq = Some(number::<u32>(name, value)?),
                "payload" => segment.payload = number(name, value)?,
                "segments" => segments = number(name, value)?,
                _ => return Err(format!("no {name:?} in a data segment")),
            }
        }
        let seq = seq.ok_or("data without seq=")?;
        segment.seq = self.base.wrapping_add(seq);
        let fin = u32::from(segment.flags & TcpFlags::FIN.bits() != 0);
        self.high = self.high.max(seq + segment.payload + fin);
        self.push(line, Happening::Data(Segment(segment), segments), None);
        Ok(())
    }

    /// Adds the data that an ACK of a trace acknowledges, if the trace has not named them: full
    /// segments, in order.
    fn implied_data(&mut self, line: usize, ack: u32) {
        if ack <= self.high {
            return;
        }
        let mut data = blank(self.base.wrapping_add(self.high));
        let segments = (ack - self.high).div_ceil(self.mss);
        data.payload = segments * self.mss;
        self.high += data.payload;
        self.push(line, Happening::Data(Segment(data), segments), None);
    }

    /// `+us ack n [window=] [flags=ACK|ECE] [seq=] [payload=] [sack=l-r,..] [ts=val]
    /// [ce_bytes=] [e0_bytes=] [e1_bytes=] [accecn] [unknown] [ce] [beyond]
    /// -> reason [supersedes] [twice] [releases]`
    fn ack(&mut self, line: usize, words: &[&str]) -> Result<(), String> {
        let arrow = words
            .iter()
            .position(|w| *w == "->")
            .ok_or("an ack without ->")?;
        let (head, tail) = (&words[..arrow], &words[arrow + 1..]);
        let (first, rest) = head.split_first().ok_or("an ack without its number")?;
        let mut segment = blank(self.base);
        segment.seq = self.base.wrapping_add(self.own);
        let ack = number("ack", first)?;
        segment.ack = self.base.wrapping_add(ack);
        let mut beyond = false;
        for word in rest {
            match *word {
                "beyond" => beyond = true,
                "accecn" => segment.opts |= Options::ACCECN.bits(),
                "ce" => segment.ip_ecn = 3,
                "unknown" => segment.opts |= Options::UNKNOWN.bits(),
                _ => self.ack_field(&mut segment, word)?,
            }
        }
        segment.window = self.window;
        let fin = u32::from(segment.flags & TcpFlags::FIN.bits() != 0);
        let end = segment.seq.wrapping_sub(self.base);
        self.own = self.own.max(end.wrapping_add(segment.payload + fin));
        let (reason, flags) = tail.split_first().ok_or("an arrow to nowhere")?;
        let mut expect = Answer {
            reason: Reason::all()
                .find(|r| r.name() == *reason)
                .ok_or_else(|| format!("no reason {reason:?}"))?,
            supersedes: false,
            twice: false,
            releases: false,
        };
        for flag in flags {
            match *flag {
                "supersedes" => expect.supersedes = true,
                "twice" => expect.twice = true,
                "releases" => expect.releases = true,
                _ => {
                    return Err(format!(
                        "{flag:?} is neither supersedes, twice nor releases"
                    ));
                }
            }
        }
        if !beyond && segment.flags & TcpFlags::ACK.bits() != 0 {
            self.implied_data(line, ack);
        }
        self.push(line, Happening::Ack(Segment(segment)), Some(expect));
        Ok(())
    }

    fn ack_field(&mut self, segment: &mut sys::aw_seg, word: &str) -> Result<(), String> {
        let (name, value) = pair(word)?;
        match name {
            "window" => self.window = number(name, value)?,
            "payload" => segment.payload = number(name, value)?,
            "seq" => segment.seq = self.base.wrapping_add(number(name, value)?),
            "flags" => segment.flags = flags(value)?,
            "ts" => {
                segment.opts |= Options::TS.bits();
                segment.tsval = number(name, value)?;
            }
            "ce_bytes" => {
                segment.opts |= Options::ACCECN.bits();
                segment.ce_bytes = number(name, value)?;
            }
            "e0_bytes" => {
                segment.opts |= Options::ACCECN.bits();
                segment.e0_bytes = number(name, value)?;
            }
            "e1_bytes" => {
                segment.opts |= Options::ACCECN.bits();
                segment.e1_bytes = number(name, value)?;
            }
            "sack" => {
                segment.opts |= Options::SACK.bits();
                for block in value.split(',') {
                    let (left, right) = block
                        .split_once('-')
                        .ok_or(format!("{block:?} is not left-right"))?;
                    let at = segment.n_sack as usize * 2;
                    let room = segment
                        .sack
                        .get_mut(at..at + 2)
                        .ok_or("more than four blocks")?;
                    room[0] = self.base.wrapping_add(number("left edge", left)?);
                    room[1] = self.base.wrapping_add(number("right edge", right)?);
                    segment.n_sack += 1;
                }
            }
            _ => return Err(format!("no {name:?} in an ack")),
        }
        Ok(())
    }

    fn read(&mut self, line: usize, words: &[&str]) -> Result<(), String> {
        match words {
            ["base", value] => {
                self.base = number("base", value)?;
                Ok(())
            }
            ["window", value] => {
                self.window = number("window", value)?;
                Ok(())
            }
            ["policy", spec] => {
                let config: Config = spec
                    .parse()
                    .map_err(|e: crate::ConfigError| e.to_string())?;
                self.trace.config = FlowConfig::new(&config);
                Ok(())
            }
            ["handshake", rest @ ..] => self.handshake(rest),
            ["grow", n] => {
                let n = number("grow", n)?;
                self.grow(line, n);
                Ok(())
            }
            [time, what, rest @ ..] if time.starts_with('+') => {
                let us = number::<u64>("time", &time[1..])?;
                self.clock = self.clock.checked_add(us).ok_or("the clock ends")?;
                match *what {
                    "data" => self.data(line, rest),
                    "ack" => self.ack(line, rest),
                    "sent" if rest.is_empty() => {
                        self.push(line, Happening::Sent, None);
                        Ok(())
                    }
                    _ => Err(format!("{what:?} is not data, ack or sent")),
                }
            }
            _ => Err(format!(
                "{:?} is not trace, policy, base, window, handshake, grow or +time",
                words.join(" ")
            )),
        }
    }
}

/// Parses the contract's vectors from text; `file` is used only in errors.
///
/// # Errors
///
/// A line is wrong; the error says which one and why.
pub fn parse_contract(file: &Path, text: &str) -> Result<Vec<ContractTrace>, VectorError> {
    let at = |line, what: String| VectorError {
        file: file.to_owned(),
        line,
        what,
    };
    let mut readers: Vec<Reader> = Vec::new();
    for (line, content) in lines(text) {
        let words: Vec<&str> = content.split_whitespace().collect();
        if words.first() == Some(&"trace") {
            readers.push(Reader::new(&words[1..].join(" ")).map_err(|e| at(line, e))?);
            continue;
        }
        let reader = readers
            .last_mut()
            .ok_or_else(|| at(line, "before the first trace".to_owned()))?;
        reader.read(line, &words).map_err(|what| at(line, what))?;
    }
    for reader in &readers {
        if !reader.trace.steps.iter().any(|step| step.expect.is_some()) {
            return Err(at(
                0,
                format!("trace {:?} expects nothing", reader.trace.name),
            ));
        }
    }
    Ok(readers.into_iter().map(|reader| reader.trace).collect())
}
