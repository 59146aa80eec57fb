//! The programs and the model side by side: both play a script, and must agree after each step.

use std::collections::BTreeMap;
use std::mem::size_of_val;
use std::time::Duration;

use ackwise_datapath::{Context, Options, Position, Scripted, Tag, sys};
use ackwise_policy::{Config, LinkKind};

use crate::common::{Wire, eventually};
use crate::frames::insert_tag;
use crate::model::{Done, Emission, Model, Packet, Setup, WITH_ECN, WITHOUT_ECN};
use crate::script::{Action, Script, Step, hex};

const SECOND: u64 = 1_000_000_000;
/// The minimum length of a frame from which the kernel makes a packet, whatever it contains.
const SHORTEST: usize = 60;

/// The step of a script after which the two disagree, and the difference.
#[derive(Debug)]
pub struct Divergence {
    pub step: usize,
    pub what: String,
}

/// Counts of what was done, over all scripts.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tally {
    pub frames: u64,
    pub refused: u64,
    pub emissions: u64,
    pub returns: u64,
    /// Clones whose bytes were compared, and frames with a tag beside them.
    pub clones: u64,
    pub tagged: u64,
    /// Runs that were superseded, replaced, returned too late, sent twice, handed out again, given
    /// up, or did not fit a slot.
    pub ends: [u64; 7],
    /// Counts by parse result or reason.
    pub seen: BTreeMap<String, u64>,
}

pub struct World {
    programs: Scripted,
    model: Model,
    /// What user space was handed: the slot in the kernel, and the frame.
    waiting: Vec<(u32, Vec<u8>)>,
    counted: sys::aw_counters,
    cpu: usize,
    /// Receives the clones.
    wire: Wire,
    at_sender: bool,
    ethernet: bool,
    pub tally: Tally,
}

impl World {
    pub fn load(script: &Script) -> World {
        let policy: Config = script.policy.parse().unwrap_or_else(|e| panic!("{e}"));
        let mut options = Options::new("lo", policy);
        options.position = match script.position {
            "sender" => Position::Sender,
            _ => Position::Receiver,
        };
        options.max_flows = 4096;
        options.slots = 512;
        options.selftest = true;
        let (link, raw) = match script.ethernet {
            true => (LinkKind::Ethernet, sys::AW_LINK_ETHERNET),
            false => (LinkKind::Ip, sys::AW_LINK_IP),
        };
        let programs = Scripted::load(&options, raw).unwrap_or_else(|e| panic!("{e}"));
        let model = Model::new(Setup {
            config: *programs.flow_config(),
            classes: programs.classes().to_vec(),
            link,
            at_sender: options.position == Position::Sender,
            is_acc: policy.policy().name() == "acc",
            clone_fails: options.clone_fails,
        });
        World {
            programs,
            model,
            waiting: Vec::new(),
            counted: sys::aw_counters::default(),
            cpu: stay_on_this_cpu(),
            wire: Wire::open("lo"),
            at_sender: options.position == Position::Sender,
            ethernet: script.ethernet,
            tally: Tally::default(),
        }
    }

    /// Plays a script from an empty state.
    pub fn run(&mut self, script: &Script) -> Result<(), Divergence> {
        self.model.now = script.begin;
        self.counted = self.counters();
        self.wire.drain(Duration::ZERO); // other worlds' clones
        let outcome = self.play_steps(&script.steps);
        let drained = self.drain();
        let c = &self.model.counters;
        let ends = [
            c.superseded,
            c.replaced,
            c.reemit_stale,
            c.cloned,
            c.retried,
            c.lost,
            c.open_frame,
        ];
        (self.tally.ends.iter_mut().zip(ends)).for_each(|(sum, n)| *sum += n);
        self.programs.forget().expect("maps");
        self.model.forget();
        outcome.and(drained.map_err(|what| Divergence {
            step: script.steps.len(),
            what,
        }))
    }

    fn play_steps(&mut self, steps: &[Step]) -> Result<(), Divergence> {
        for (at, step) in steps.iter().enumerate() {
            self.take(step)
                .map_err(|what| Divergence { step: at, what })?;
        }
        Ok(())
    }

    /// Nothing stays withheld: everything is eventually handed out or given up.
    fn drain(&mut self) -> Result<(), String> {
        for _ in 0..10 {
            self.tick(SECOND)?;
        }
        self.waiting.clear();
        same("something stays withheld", &self.model.is_empty(), &true)
    }

    fn take(&mut self, step: &Step) -> Result<(), String> {
        match &step.what {
            Action::Tick => self.tick(step.wait),
            Action::Frame {
                acks,
                gso_size,
                mark,
                tag,
                bytes,
            } => self.frame(
                step.wait,
                *acks,
                bytes,
                Context {
                    mark: *mark,
                    gso_size: *gso_size,
                    tag: *tag,
                },
            ),
            Action::Return(_) if self.waiting.is_empty() => Ok(()),
            Action::Return(n) => {
                let (slot, frame) = self.waiting.remove(n % self.waiting.len());
                self.tally.returns += 1;
                let mark = sys::AW_COOKIE_MAGIC | slot;
                let context = Context {
                    mark,
                    ..Context::default()
                };
                self.frame(step.wait, true, &frame, context)
            }
        }
    }

    fn frame(
        &mut self,
        wait: u64,
        acks: bool,
        frame: &[u8],
        context: Context,
    ) -> Result<(), String> {
        self.advance(wait);
        let outcome = match self.programs.run(acks, frame, context) {
            Ok(outcome) => outcome,
            Err(e) if frame.len() >= SHORTEST => return Err(format!("no test run: {e}")),
            Err(_) => {
                // The kernel refuses to make a packet of it, so no program sees it.
                self.tally.refused += 1;
                return Ok(());
            }
        };
        self.tally.frames += 1;
        self.tally.tagged += u64::from(context.tag.is_some());
        let packet = Packet {
            frame,
            tag: context.tag,
            gso_size: context.gso_size,
            mark: context.mark,
        };
        let done = match acks {
            true => self.model.on_ack(&packet),
            false => self.model.on_data(&packet),
        };
        self.note(&done);
        same("verdict", &outcome.verdict, &done.verdict)?;
        same("mark", &outcome.mark, &done.mark)?;
        same("frame", &hex(&outcome.frame), &hex(&done.frame))?;
        self.compare_clones(&packet, &done)?;
        self.compare_segment(acks, &done)?;
        self.compare_flow(&done)?;
        self.compare_counters()
    }

    fn note(&mut self, done: &Done) {
        let what = match (&done.segment, done.decision) {
            (Err(e), _) => e.to_string(),
            (Ok(_), None) => "no decision".to_owned(),
            (Ok(_), Some([_, reason, ..])) => ackwise_policy::Reason::from_id(reason)
                .map_or_else(String::new, |r| r.name().to_owned()),
        };
        *self.tally.seen.entry(what).or_default() += 1;
    }

    /// Compares what left in addition to the packet, at the interface that clones go to.
    fn compare_clones(&mut self, packet: &Packet<'_>, done: &Done) -> Result<(), String> {
        let mut left = Vec::new();
        let mut clones_counted = || {
            // An outgoing clone is seen on its way out, an incoming one once.
            let frames = self.wire.drain(Duration::ZERO);
            left.extend(frames.into_iter().filter(|f| f.outgoing != self.at_sender));
            left.len() >= done.clones.len()
        };
        if !clones_counted() && packet.gso_size == 0 {
            eventually("the clones come by", clones_counted);
        }
        if packet.gso_size > 0 {
            return Ok(()); // the device may cut it into segments
        }
        self.tally.clones += left.len() as u64;
        let left: Vec<_> = (left.into_iter())
            .map(|f| match f.tag {
                Some(tci) => (Some(tci), hex(&f.bytes)),
                None => self.outer_tag(None, f.bytes),
            })
            .collect();
        let expected: Vec<_> = (done.clones.iter())
            .map(|frame| self.outer_tag(packet.tag, frame.clone()))
            .collect();
        same("clones", &left, &expected)
    }

    /// The outermost tag of a frame, wherever it is, and the bytes without it.
    fn outer_tag(&self, beside: Option<Tag>, mut frame: Vec<u8>) -> (Option<u16>, String) {
        if let Some(tag) = beside {
            return (Some(tag.tci), hex(&frame));
        }
        if !self.ethernet || !matches!(frame[12..14], [0x81, 0x00] | [0x88, 0xa8]) {
            return (None, hex(&frame));
        }
        let tci = u16::from_be_bytes([frame[14], frame[15]]);
        frame.drain(12..16);
        (Some(tci), hex(&frame))
    }

    /// Compares the parsed packet and the decision.
    fn compare_segment(&mut self, acks: bool, done: &Done) -> Result<(), String> {
        let (true, Ok(segment)) = (acks, &done.segment) else {
            return Ok(());
        };
        let here = self.programs.percpu(self.cpu).expect("map");
        let (mut read, mut expected) = (here.seg, *segment.raw());
        // For an address family of four bytes the rest is 0 in both.
        (read.reserved, expected.reserved) = (0, 0);
        if bytes(&read) != bytes(&expected) {
            return Err(format!(
                "the segment\n  the program reads {}\n  the model reads   {}",
                hex(bytes(&read)),
                hex(bytes(&expected))
            ));
        }
        let Some(decision) = done.decision else {
            return Ok(());
        };
        let d = here.decision;
        same(
            "decision",
            &[d.kind, d.reason, d.hold_us, d.flags],
            &decision,
        )
    }

    /// Compares the whole state of the flow.
    fn compare_flow(&mut self, done: &Done) -> Result<(), String> {
        let Some(key) = done.key else {
            return Ok(());
        };
        let entry = self.programs.entry(&key.raw()).expect("map");
        let kept = self.model.flows.get(&key);
        same("is the flow kept", &entry.is_some(), &kept.is_some())?;
        let (Some(entry), Some(kept)) = (entry, kept) else {
            return Ok(());
        };
        let mut flow = entry.flow;
        flow.hs.flags &= !(WITHOUT_ECN | WITH_ECN);
        let expected = kept.flow.raw();
        let (a, b) = (bytes(&flow), bytes(expected));
        if let Some(at) = (0..a.len()).find(|at| a[*at] != b[*at]) {
            return Err(format!(
                "byte {at} of the flow\n  of the program {}\n  of the model   {}",
                hex(a),
                hex(b)
            ));
        }
        let mut count = entry.count;
        (count.first_ns, count.last_ns) = (0, 0);
        same_numbers(
            "the flow's counters",
            &numbers(&count),
            &numbers(&kept.count),
        )
    }

    fn compare_counters(&mut self) -> Result<(), String> {
        let counted = numbers(&self.counters());
        let since: Vec<u64> = (counted.iter().zip(numbers(&self.counted)))
            .map(|(now, before)| now - before)
            .collect();
        same_numbers("the counters", &since, &numbers(&self.model.counters))
    }

    /// All counters that do not measure times.
    fn counters(&mut self) -> sys::aw_counters {
        sys::aw_counters {
            late_max_us: 0,
            late: [0; sys::AW_LATE_BUCKETS as usize],
            held_ns: 0,
            held: [0; sys::AW_HOLD_BUCKETS as usize],
            ..self.programs.percpu(self.cpu).expect("map").counters
        }
    }

    fn tick(&mut self, wait: u64) -> Result<(), String> {
        self.advance(wait);
        let emitted = self.programs.tick().expect("a tick");
        let expected = self.model.tick();
        let seen: Vec<Emission> = (emitted.iter().zip(&expected))
            .map(|(e, model)| Emission {
                tag: tag_of(e),
                link: e.l2[..usize::from(e.l2_len)].to_vec(),
                packet: e.l3[..usize::from(e.l3_len)].to_vec(),
                deadline: e.deadline_ns,
                tries: e.tries.into(),
                slot: model.slot,
            })
            .collect();
        same("number of emissions", &emitted.len(), &expected.len())?;
        same("emissions", &seen, &expected)?;
        for (e, model) in emitted.iter().zip(expected) {
            self.model.hand_out(e.slot, model.slot);
            let mut frame = [model.link, model.packet].concat();
            if let Some(tag) = model.tag {
                insert_tag(&mut frame, tag);
            }
            self.waiting.push((e.slot, frame));
            self.tally.emissions += 1;
        }
        self.compare_counters()
    }

    fn advance(&mut self, wait: u64) {
        self.model.now += wait;
        self.programs.set_time(self.model.now).expect("map");
    }
}

/// The tag beside a frame that is handed to user space.
fn tag_of(e: &sys::aw_emit) -> Option<Tag> {
    (e.vlan_proto != 0).then(|| Tag {
        provider: u16::from_be(e.vlan_proto) == 0x88a8,
        tci: e.vlan_tci,
    })
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, program: &T, model: &T) -> Result<(), String> {
    if program == model {
        return Ok(());
    }
    Err(format!(
        "{what}: {program:?} by the program, {model:?} by the model"
    ))
}

fn bytes<T: Copy>(of: &T) -> &[u8] {
    // SAFETY: the compared structs are C structs of integers without padding: their headers assert
    // their sizes.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(of).cast(), size_of_val(of)) }
}

/// The 64-bit numbers of which a C struct consists.
fn numbers<T: Copy>(of: &T) -> Vec<u64> {
    (bytes(of).chunks_exact(8))
        .map(|eight| u64::from_ne_bytes(eight.try_into().expect("eight bytes")))
        .collect()
}

fn same_numbers(what: &str, program: &[u64], model: &[u64]) -> Result<(), String> {
    let differs = (0..program.len()).find(|n| program[*n] != model[*n]);
    differs.map_or(Ok(()), |n| {
        same(&format!("{what}, number {n}"), &program[n], &model[n])
    })
}

/// Counters are per CPU. Pins this thread to its CPU, and returns that.
fn stay_on_this_cpu() -> usize {
    // SAFETY: the set is a plain bit mask, valid when zeroed and of the given size.
    unsafe {
        let cpu = usize::try_from(libc::sched_getcpu()).expect("a CPU");
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        let size = size_of_val(&set);
        assert_eq!(libc::sched_setaffinity(0, size, &raw const set), 0);
        cpu
    }
}
