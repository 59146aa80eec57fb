//! The programs under a clock set by a test, run frame by frame. What they do depends on nothing
//! else, so their memory can be compared with a model's.

use aya::maps::{Array, HashMap, PerCpuArray, RingBuf};
use aya::programs::{SchedClassifier, TestRun, TestRunOptions};

use ackwise_bpf::selftest as raw;
use ackwise_policy::FlowConfig;

use crate::programs::selftest::{OBJECT, constant};
use crate::programs::{ACKS, DATA, Object, Programs, SETUP, map};
use crate::{Error, Options, sys};

const TICK_PROGRAM: &str = "ackwise_tick";

/// Offsets in `struct __sk_buff` of the fields that a test run uses.
const MARK: usize = 8;
const CB: usize = 48;
const GSO_SIZE: usize = 176;
const CONTEXT: usize = 192;
/// The maximum growth of a frame: the headers of another one with all options.
const MAX_GROWTH: usize = 128;

/// The bytes of a `struct aw_handshake`.
type Handshake = [u8; size_of::<sys::aw_handshake>()];

/// The metadata of a packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Context {
    /// `SO_MARK`.
    pub mark: u32,
    /// Payload bytes of each segment of an aggregated packet; 0 for a single segment.
    pub gso_size: u32,
    /// A VLAN tag beside the frame, as a device that removed it reports it.
    pub tag: Option<Tag>,
}

/// A VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// Whether its type is 802.1ad (0x88a8) rather than 802.1Q (0x8100).
    pub provider: bool,
    /// Priority and identifier, as on the wire.
    pub tci: u16,
}

impl Tag {
    /// Returns the EtherType of this tag inside a frame.
    #[must_use]
    pub fn ether_type(self) -> u16 {
        if self.provider { 0x88a8 } else { 0x8100 }
    }

    fn word(self) -> u32 {
        let provider = u32::from(self.provider) * raw::AW_SELFTEST_TAG_AD;
        raw::AW_SELFTEST_TAG | provider | u32::from(self.tci)
    }
}

/// The result of a run of the programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The verdict, a `TC_ACT_*`.
    pub verdict: u32,
    /// The packet's mark afterwards.
    pub mark: u32,
    /// The frame afterwards, without a tag beside it.
    pub frame: Vec<u8>,
}

/// The datapath on no interface, under a scripted clock.
pub struct Scripted {
    programs: Programs,
    flow: FlowConfig,
    classes: Vec<u32>,
}

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scripted").finish_non_exhaustive()
    }
}

impl Scripted {
    /// Loads the programs for a link, an `enum aw_link`. Time starts at 0, and user space counts as
    /// alive.
    ///
    /// # Errors
    /// If the options are wrong, or the kernel refuses the programs.
    pub fn load(options: &Options, link: u32) -> Result<Self, Error> {
        options.check()?;
        let global = constant(raw::aw_selftest_options {
            clone_fails: u32::from(options.clone_fails),
            scripted: 1,
            ..Default::default()
        });
        let object = Object {
            programs: &[ACKS, DATA, SETUP, TICK_PROGRAM],
            global: Some(("selftest", &global)),
            ..OBJECT
        };
        let bpf = options.to_bpf(1, link, false);
        let flow = options.flow();
        let programs = Programs::load_object(options, &bpf, &object)?;
        let classes = options.classes();
        let mut scripted = Self {
            programs,
            flow,
            classes,
        };
        scripted.write_control(Default::default())?;
        Ok(scripted)
    }

    /// Tells the programs that others fill the link (`aw_flow.shared`), and until when that is
    /// valid, ns. The heartbeat written with it never expires.
    ///
    /// # Errors
    /// If the map cannot be written.
    pub fn set_shared(&mut self, shared_us: u32, until: u64) -> Result<(), Error> {
        self.write_control(sys::aw_control {
            shared_until_ns: until,
            shared_us,
            ..Default::default()
        })
    }

    /// Tells the programs which CPUs are busy, one bit per CPU, with a heartbeat that never
    /// expires.
    ///
    /// # Errors
    /// If the map cannot be written.
    pub fn set_busy(&mut self, busy_cpus: [u32; sys::AW_BUSY_CPUS as usize]) -> Result<(), Error> {
        self.write_control(sys::aw_control {
            busy_cpus,
            ..Default::default()
        })
    }

    fn write_control(&mut self, control: sys::aw_control) -> Result<(), Error> {
        let control = sys::aw_control {
            alive_until_ns: u64::MAX,
            ..control
        };
        let mut map: Array<_, sys::aw_control> =
            Array::try_from(map(&mut self.programs.bpf, "control")?)?;
        Ok(map.set(0, control, 0)?)
    }

    /// Returns the configuration that the programs pass to the policy.
    #[must_use]
    pub fn flow_config(&self) -> &FlowConfig {
        &self.flow
    }

    /// Returns the possible hold times in us, ascending.
    #[must_use]
    pub fn classes(&self) -> &[u32] {
        &self.classes
    }

    /// Sets the clock, ns.
    ///
    /// # Errors
    /// If the map cannot be written.
    pub fn set_time(&mut self, now: u64) -> Result<(), Error> {
        let mut time: Array<_, u64> =
            Array::try_from(map(&mut self.programs.bpf, "scripted_time")?)?;
        Ok(time.set(0, now, 0)?)
    }

    /// Runs the program of a direction on a frame.
    ///
    /// # Errors
    /// If the kernel cannot make a packet from the frame.
    pub fn run(&mut self, acks: bool, frame: &[u8], context: Context) -> Result<Outcome, Error> {
        self.run_program(if acks { ACKS } else { DATA }, frame, context)
    }

    /// Does what the timer does. Returns what it hands to user space.
    ///
    /// # Errors
    /// If the program cannot be run.
    pub fn tick(&mut self) -> Result<Vec<sys::aw_emit>, Error> {
        self.run_program(TICK_PROGRAM, &[0; 64], Context::default())?;
        let mut ring = RingBuf::try_from(map(&mut self.programs.bpf, "emissions")?)?;
        let mut emissions = Vec::new();
        while let Some(item) = ring.next() {
            assert_eq!(item.len(), size_of::<sys::aw_emit>());
            // SAFETY: the item has the size of the struct, for which every bit pattern is valid.
            emissions.push(unsafe { item.as_ptr().cast::<sys::aw_emit>().read_unaligned() });
        }
        Ok(emissions)
    }

    fn run_program(&self, name: &str, frame: &[u8], context: Context) -> Result<Outcome, Error> {
        let program: &SchedClassifier = self
            .programs
            .bpf
            .program(name)
            .and_then(|p| p.try_into().ok())
            .ok_or_else(|| Error::Object(format!("program {name}")))?;
        let mut before = [0; CONTEXT];
        before[MARK..MARK + 4].copy_from_slice(&context.mark.to_ne_bytes());
        before[GSO_SIZE..GSO_SIZE + 4].copy_from_slice(&context.gso_size.to_ne_bytes());
        let tag = context.tag.map_or(0, Tag::word);
        before[CB..CB + 4].copy_from_slice(&tag.to_ne_bytes());
        let mut after = [0; CONTEXT];
        let mut left = vec![0; frame.len() + MAX_GROWTH];
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.ctx_in = Some(&before);
        options.ctx_out = Some(&mut after);
        options.data_out = Some(&mut left);
        let result = program
            .test_run(options)
            .map_err(|e| crate::error::program_error("test run", e))?;
        left.truncate(result.data_size_out as usize);
        let mut mark = [0; 4];
        mark.copy_from_slice(&after[MARK..MARK + 4]);
        Ok(Outcome {
            verdict: result.return_value,
            mark: u32::from_ne_bytes(mark),
            frame: left,
        })
    }

    /// Returns the entry of a flow, if it is tracked.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn entry(&mut self, key: &sys::aw_key) -> Result<Option<sys::aw_entry>, Error> {
        let flows: HashMap<_, sys::aw_key, sys::aw_entry> =
            HashMap::try_from(map(&mut self.programs.bpf, "flows")?)?;
        match flows.get(key, 0) {
            Ok(entry) => Ok(Some(entry)),
            Err(aya::maps::MapError::KeyNotFound) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Returns the entries of all tracked flows.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn entries(&mut self) -> Result<Vec<sys::aw_entry>, Error> {
        let flows: HashMap<_, sys::aw_key, sys::aw_entry> =
            HashMap::try_from(map(&mut self.programs.bpf, "flows")?)?;
        let entries = flows.iter().map(|entry| Ok(entry?.1));
        entries.collect()
    }

    /// Returns the counters of the programs, summed over all CPUs.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn counters(&mut self) -> Result<sys::aw_counters, Error> {
        let map: PerCpuArray<_, sys::aw_percpu> =
            PerCpuArray::try_from(map(&mut self.programs.bpf, "counters")?)?;
        Ok(crate::stats::total(&map.get(&0, 0)?))
    }

    /// Removes all flows and handshakes.
    ///
    /// # Errors
    /// If a map cannot be read or written.
    pub fn forget(&mut self) -> Result<(), Error> {
        let mut flows: HashMap<_, sys::aw_key, sys::aw_entry> =
            HashMap::try_from(map(&mut self.programs.bpf, "flows")?)?;
        for key in flows.keys().collect::<Result<Vec<_>, _>>()? {
            flows.remove(&key)?;
        }
        let mut handshakes: HashMap<_, sys::aw_key, Handshake> =
            HashMap::try_from(map(&mut self.programs.bpf, "handshakes")?)?;
        for key in handshakes.keys().collect::<Result<Vec<_>, _>>()? {
            handshakes.remove(&key)?;
        }
        Ok(())
    }

    /// Returns the programs' state for one CPU: counters, and the packet being processed.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn percpu(&mut self, cpu: usize) -> Result<sys::aw_percpu, Error> {
        let map: PerCpuArray<_, sys::aw_percpu> =
            PerCpuArray::try_from(map(&mut self.programs.bpf, "counters")?)?;
        Ok(map.get(&0, 0)?[cpu])
    }
}
