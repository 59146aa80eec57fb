//! For tests and benchmarks only: the programs of `bpf/selftest.bpf.c`, an object that is not
//! shipped. It also contains the datapath, compiled from the same source.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ackwise_bpf::selftest as sys;
use ackwise_netdev::{AttachOptions, Attachment};
use ackwise_policy::{Config, Event, Policy, Verdict};
use aya::maps::{Array, HashMap};

use crate::programs::{ACKS, BACK, DATA, Object, Programs, SETUP, map};
use crate::{Error, Options};

const EMPTY_PROGRAM: &str = "ackwise_empty";
const REPLAY_PROGRAM: &str = "ackwise_replay";
const CONTEND_PROGRAM: &str = "ackwise_contend";
const BOX_PROGRAM: &str = "ackwise_box";
const COUNT_PROGRAMS: [&str; 3] = ["ackwise_count_0", "ackwise_count_1", "ackwise_count_2"];

/// How long the locks stay free between two rounds.
const UNLOCKED_TIME: Duration = Duration::from_micros(200);

/// The datapath and the programs for tests.
pub(crate) const OBJECT: Object<'static> = Object {
    bytes: sys::OBJECT,
    programs: &[
        ACKS,
        DATA,
        BACK,
        SETUP,
        EMPTY_PROGRAM,
        REPLAY_PROGRAM,
        CONTEND_PROGRAM,
    ],
    global: None,
};

/// What [`Programs::recycle`] reuses for another flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recycled {
    /// The whole entry.
    Entry,
    /// The handle of the slot.
    Slot,
}

/// Returns the bytes of the constant `selftest`.
pub(crate) fn constant(options: sys::aw_selftest_options) -> [u8; 12] {
    let words = [options.ack_step, options.clone_fails, options.scripted].map(u32::to_ne_bytes);
    let mut bytes = [0; size_of::<sys::aw_selftest_options>()];
    bytes.copy_from_slice(words.as_flattened());
    bytes
}

/// Returns the object with this constant.
pub(crate) fn object(constant: &[u8]) -> Object<'_> {
    Object {
        global: Some(("selftest", constant)),
        ..OBJECT
    }
}

impl Programs {
    /// Loads the programs for [`Programs::run`] only: every ACK acknowledges `step` bytes more than
    /// the one before, and data are always in order.
    ///
    /// # Errors
    /// If the options are wrong, or the kernel refuses the programs.
    pub fn for_benchmark(options: &Options, step: u32) -> Result<Self, Error> {
        options.check()?;
        let global = constant(sys::aw_selftest_options {
            ack_step: step,
            ..Default::default()
        });
        let object = object(&global);
        Self::load_object(options, &options.to_bpf_unattached(), &object)
    }

    /// Loads the programs for [`Programs::replay`] only, without the datapath, since verifying that
    /// takes time. Any policy is accepted, whatever it needs of its environment.
    ///
    /// # Errors
    /// If the kernel refuses the programs.
    pub fn for_replay(policy: Config) -> Result<Self, Error> {
        let mut options = Options::new("", policy);
        (options.max_flows, options.slots) = (64, 1);
        let object = Object {
            programs: &[REPLAY_PROGRAM],
            ..OBJECT
        };
        Self::load_object(&options, &options.to_bpf_unattached(), &object)
    }

    /// Runs one step of the policy alone, from the state that earlier steps left.
    ///
    /// # Errors
    /// If the program cannot be run, or its map cannot be read.
    pub fn replay(&mut self, event: &Event) -> Result<Verdict, Error> {
        let raw = event.raw();
        // SAFETY: aw_event is plain data without padding (its size is asserted in types.h), so all
        // its bytes are initialised.
        let bytes = unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(&raw).cast::<u8>(), size_of_val(&raw))
        };
        self.run(REPLAY_PROGRAM, bytes, 1)?;
        let map: Array<_, sys::aw_replay> = Array::try_from(map(&mut self.bpf, "replays")?)?;
        let verdict = map.get(&0, 0)?.verdict;
        Ok(Verdict::from_raw(verdict.kind, verdict.hold_us))
    }

    /// Makes the entry of the flow from port `to` look as a stale pointer to it would after the
    /// kernel has reused its memory for the flow from port `from`: all of that flow's entry or, for
    /// an instant before or after, only its slot.
    ///
    /// # Errors
    /// If the map cannot be read or written.
    ///
    /// # Panics
    /// If one of the flows is not tracked.
    pub fn recycle(&mut self, from: u16, to: u16, what: Recycled) -> Result<(), Error> {
        use crate::sys::{aw_entry, aw_key};

        let mut flows: HashMap<_, aw_key, aw_entry> =
            HashMap::try_from(map(&mut self.bpf, "flows")?)?;
        let all: Vec<(aw_key, aw_entry)> = flows.iter().collect::<Result<_, _>>()?;
        let find = |port: u16| {
            let found = all.iter().find(|(key, _)| key.acks_port == port.to_be());
            *found.unwrap_or_else(|| panic!("no flow from port {port}"))
        };
        let (_, other) = find(from);
        let (key, mut entry) = find(to);
        match what {
            Recycled::Entry => entry = other,
            Recycled::Slot => entry.handle = other.handle,
        }
        Ok(flows.insert(key, entry, 0)?)
    }

    /// Takes the locks of all flows for longer than a program waits for one.
    pub(crate) fn contend_locks(&self) -> Result<(), Error> {
        self.run(CONTEND_PROGRAM, &[0; 64], 1).map(|_| ())
    }
}

/// Loads programs of the object without the datapath, so the options do not matter.
fn beside_the_datapath(programs: &'static [&'static str]) -> Result<Programs, Error> {
    let object = Object { programs, ..OBJECT };
    let policy = Policy::all().next().expect("there are policies");
    let mut unused = Options::new("", Config::new(policy));
    (unused.max_flows, unused.slots) = (64, 1);
    Programs::load_object(&unused, &unused.to_bpf_unattached(), &object)
}

/// What a middlebox does to the pure ACKs that pass it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AckBoxRules {
    /// Drop every n-th; 0 drops none.
    pub drop_every: u32,
    /// Clear the reserved bit that says that no ACK is missing before this one.
    pub clear: bool,
}

/// What a middlebox has seen since it was attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AckBoxCounts {
    /// Pure ACKs that arrived.
    pub acks: u64,
    /// Pure ACKs that it dropped.
    pub dropped: u64,
    /// Pure ACKs that arrived with the bit.
    pub skipped: u64,
}

/// A middlebox on the path of pure ACKs, attached until this is dropped.
pub struct AckBox {
    programs: Programs,
    _attachment: Attachment,
}

impl std::fmt::Debug for AckBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AckBox").finish_non_exhaustive()
    }
}

impl AckBox {
    /// Attaches a middlebox that does nothing yet.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn attach(options: &AttachOptions<'_>) -> Result<Self, Error> {
        let mut programs = beside_the_datapath(&[SETUP, BOX_PROGRAM])?;
        let attachment = Attachment::attach(&mut programs.bpf, BOX_PROGRAM, options)?;
        Ok(Self {
            programs,
            _attachment: attachment,
        })
    }

    /// Applies these rules from now on.
    ///
    /// # Errors
    /// If its map cannot be written.
    pub fn set(&mut self, rules: AckBoxRules) -> Result<(), Error> {
        let mut map: Array<_, sys::aw_ack_box> =
            Array::try_from(map(&mut self.programs.bpf, "boxes")?)?;
        let mut state = map.get(&0, 0)?;
        state.drop_every = rules.drop_every;
        state.clear = u32::from(rules.clear);
        Ok(map.set(0, state, 0)?)
    }

    /// Returns what it has seen.
    ///
    /// # Errors
    /// If its map cannot be read.
    pub fn counts(&self) -> Result<AckBoxCounts, Error> {
        let map = self.programs.bpf.map("boxes");
        let map = map.ok_or_else(|| Error::Object("map boxes".into()))?;
        let map: Array<_, sys::aw_ack_box> = Array::try_from(map)?;
        let state = map.get(&0, 0)?;
        Ok(AckBoxCounts {
            acks: state.acks,
            dropped: state.dropped,
            skipped: state.skipped,
        })
    }
}

/// A program that counts the pure ACKs that it sees, and lets everything pass. It is attached until
/// this is dropped.
pub struct AckCounter {
    programs: Programs,
    attachment: Attachment,
}

impl std::fmt::Debug for AckCounter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AckCounter").finish_non_exhaustive()
    }
}

impl AckCounter {
    /// Attaches a counter to an Ethernet interface. Counters on one interface need different
    /// numbers `nth`, from 0 to 2.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn attach(nth: usize, options: &AttachOptions<'_>) -> Result<Self, Error> {
        let mut programs = beside_the_datapath(&[
            SETUP,
            COUNT_PROGRAMS[0],
            COUNT_PROGRAMS[1],
            COUNT_PROGRAMS[2],
        ])?;
        let attachment = Attachment::attach(&mut programs.bpf, COUNT_PROGRAMS[nth], options)?;
        Ok(Self {
            programs,
            attachment,
        })
    }

    /// Returns the kernel's id of the program.
    #[must_use]
    pub fn program(&self) -> u32 {
        self.attachment.program()
    }

    /// Returns the number of pure ACKs so far.
    ///
    /// # Errors
    /// If its map cannot be read.
    pub fn count(&self) -> Result<u64, Error> {
        let map = self.programs.bpf.map("counted");
        let map = map.ok_or_else(|| Error::Object("map counted".into()))?;
        let map: Array<_, u64> = Array::try_from(map)?;
        Ok(map.get(&0, 0)?)
    }
}

/// Takes the locks of all flows repeatedly until this is dropped.
#[derive(Debug)]
pub struct LockContention {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LockContention {
    /// `once` takes the locks for a moment, and returns whether it can be called again.
    pub(crate) fn start(once: impl Fn() -> bool + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) && once() {
                std::thread::sleep(UNLOCKED_TIME);
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for LockContention {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
