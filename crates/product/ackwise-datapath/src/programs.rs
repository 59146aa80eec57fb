//! The BPF programs and their maps.

#[cfg(feature = "selftest")]
pub(crate) mod scripted;
#[cfg(feature = "selftest")]
pub(crate) mod selftest;

use std::collections::{BTreeMap, HashSet};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use ackwise_netdev::clock::monotonic_ns;
use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray};
use aya::programs::{SchedClassifier, TestRun, TestRunOptions};
use aya::{Ebpf, EbpfLoader, VerifierLogLevel};

use crate::error::{check_capabilities, check_preemption, load_error, program_error, version};
use crate::{Error, FlowStats, Options, stats, sys};

pub(crate) const ACKS: &str = "ackwise_acks";
pub(crate) const DATA: &str = "ackwise_data";
pub(crate) const BACK: &str = "ackwise_back";
pub(crate) const SETUP: &str = "ackwise_setup";

/// A BPF object, and which of its programs are loaded.
#[derive(Clone, Copy)]
pub(crate) struct Object<'a> {
    pub bytes: &'a [u8],
    pub programs: &'static [&'static str],
    /// The name and the bytes of a constant that the programs read besides `options`.
    pub global: Option<(&'static str, &'a [u8])>,
}

/// The shipped datapath.
const DATAPATH: Object<'static> = Object {
    bytes: sys::OBJECT,
    programs: &[ACKS, DATA, BACK, SETUP],
    global: None,
};

/// The programs and their maps, loaded but not attached.
pub struct Programs {
    pub(crate) bpf: Ebpf,
    names: &'static [&'static str],
    memory: BTreeMap<String, u64>,
}

impl Programs {
    /// Loads the programs for an interface. `link` is an `enum aw_link`.
    ///
    /// # Errors
    /// If the options are wrong, a capability is missing, or the kernel refuses the programs.
    pub fn load(options: &Options, ifindex: u32, link: u32, clsact: bool) -> Result<Self, Error> {
        options.check()?;
        #[cfg(feature = "selftest")]
        let constant = selftest::constant(ackwise_bpf::selftest::aw_selftest_options {
            clone_fails: u32::from(options.clone_fails),
            ..Default::default()
        });
        #[cfg(feature = "selftest")]
        let object = if options.selftest {
            &selftest::object(&constant)
        } else {
            &DATAPATH
        };
        #[cfg(not(feature = "selftest"))]
        let object = &DATAPATH;
        Self::load_object(options, &options.to_bpf(ifindex, link, clsact), object)
    }

    pub(crate) fn load_object(
        options: &Options,
        raw: &sys::aw_options,
        object: &Object<'_>,
    ) -> Result<Self, Error> {
        check_capabilities()?;
        check_preemption(&version())?;
        let deadlines = (2 * options.slots).max(1024);
        // Each entry that is handed to user space stays in this FIFO for AW_RETRY_NS: room for
        // 400,000 a second.
        let retries = deadlines.max(8192);
        // Room for about one emission per slot, and at least 1 MB.
        let ring = (options.slots * 256).next_power_of_two().max(1 << 20);
        // A FIFO that no hold needs has room for one entry, the kernel's minimum.
        let queues: Vec<(String, u32)> = (0..=sys::AW_CLASSES)
            .map(|n| {
                let entries = match n {
                    sys::AW_RETRY_CLASS => retries,
                    n if n < raw.classes => deadlines,
                    _ => 1,
                };
                (format!("queue_{n}"), entries)
            })
            .collect();
        let mut loader = EbpfLoader::new();
        loader
            .verifier_log_level(VerifierLogLevel::STATS)
            .override_global("options", raw, true)
            .map_max_entries("flows", options.max_flows)
            .map_max_entries("handshakes", handshakes(options.max_flows))
            .map_max_entries("slots", options.slots)
            .map_max_entries("free_slots", options.slots)
            .map_max_entries("emissions", ring);
        for (name, entries) in &queues {
            loader.map_max_entries(name, *entries);
        }
        if let Some((name, bytes)) = object.global {
            loader.override_global(name, bytes, true);
        }
        // The other maps are small compared with these two.
        let bytes = u64::from(options.max_flows) * (size_of::<sys::aw_entry>() as u64 + 112)
            + u64::from(options.slots) * 1024;
        let mut bpf = loader
            .load(object.bytes)
            .map_err(|e| load_error(e, bytes))?;
        for name in object.programs {
            program(&mut bpf, name)?
                .load()
                .map_err(|e| program_error(name, e))?;
        }
        let memory = bpf
            .maps()
            .filter_map(|(name, map)| Some((name.to_owned(), map_memory(map)?)))
            .collect();
        let mut programs = Self {
            bpf,
            names: object.programs,
            memory,
        };
        if object.programs.contains(&SETUP) {
            programs.set_up()?;
        }
        Ok(programs)
    }

    /// Runs the setup program. Allocating a timer may fail temporarily when memory is short.
    fn set_up(&mut self) -> Result<(), Error> {
        let mut errno = 0;
        for round in 0..50 {
            let (code, _) = self.run(SETUP, &[0; 64], 1)?;
            if code == 0 {
                return Ok(());
            }
            errno = code.cast_signed().wrapping_neg();
            tracing::debug!("setting up the timer, round {round}: errno {errno}");
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(Error::System {
            what: "set up the BPF timer and its slots (50 tries)",
            source: std::io::Error::from_raw_os_error(errno),
        })
    }

    /// Runs a program on a packet. Returns its verdict, and the mean time of a run.
    ///
    /// # Errors
    ///
    /// If there is no program of that name, or the kernel refuses to run it.
    pub fn run(&self, name: &str, packet: &[u8], repeat: u32) -> Result<(u32, Duration), Error> {
        let program: &SchedClassifier = self
            .bpf
            .program(name)
            .and_then(|p| p.try_into().ok())
            .ok_or_else(|| Error::Object(format!("program {name}")))?;
        let mut options = TestRunOptions::new();
        options.data_in = Some(packet);
        options.repeat = repeat;
        let r = program
            .test_run(options)
            .map_err(|e| program_error("test run", e))?;
        Ok((r.return_value, r.duration))
    }

    /// The file descriptor of a program.
    pub(crate) fn descriptor(&self, name: &'static str) -> Result<BorrowedFd<'_>, Error> {
        let program: &SchedClassifier = self
            .bpf
            .program(name)
            .and_then(|p| p.try_into().ok())
            .ok_or_else(|| Error::Object(format!("program {name}")))?;
        let descriptor = program.fd().map_err(|e| program_error(name, e))?;
        Ok(descriptor.as_fd())
    }

    /// Refreshes the heartbeat, without which no ACK is held. For test runs.
    ///
    /// # Errors
    ///
    /// If the heartbeat's map cannot be written.
    pub fn keep_alive(&mut self, how_long: Duration) -> Result<(), Error> {
        let alive_until_ns =
            monotonic_ns() + u64::try_from(how_long.as_nanos()).unwrap_or(u64::MAX);
        self.write_control(sys::aw_control {
            alive_until_ns,
            ..Default::default()
        })
    }

    /// Writes the heartbeat and the other control values.
    pub(crate) fn write_control(&mut self, control: sys::aw_control) -> Result<(), Error> {
        let mut map: Array<_, sys::aw_control> = Array::try_from(map(&mut self.bpf, "control")?)?;
        Ok(map.set(0, control, 0)?)
    }

    /// The counters, summed over all CPUs.
    ///
    /// # Errors
    ///
    /// If the counters' map cannot be read.
    pub fn counters(&self) -> Result<sys::aw_counters, Error> {
        let map = self
            .bpf
            .map("counters")
            .ok_or_else(|| Error::Object("map counters".into()))?;
        let map: PerCpuArray<_, sys::aw_percpu> = PerCpuArray::try_from(map)?;
        Ok(stats::total(&map.get(&0, 0)?))
    }

    fn flow_map(&self) -> Result<HashMap<&MapData, sys::aw_key, sys::aw_entry>, Error> {
        let map = self.bpf.map("flows");
        let map = map.ok_or_else(|| Error::Object("map flows".into()))?;
        Ok(HashMap::try_from(map)?)
    }

    /// The flows that are tracked now, in no particular order.
    ///
    /// # Errors
    ///
    /// If the flows' map cannot be read.
    pub fn flows(&self, limit: usize) -> Result<Vec<FlowStats>, Error> {
        let map = self.flow_map()?;
        let now = monotonic_ns();
        let mut flows = Vec::new();
        let mut seen = HashSet::new();
        // A flow may be evicted during the iteration, which then ends, or restarts with keys that
        // were seen before.
        for key in map.keys().take(limit.max(64).saturating_mul(4)) {
            if flows.len() >= limit {
                break;
            }
            match key {
                Ok(key) => {
                    let Ok(entry) = map.get(&key, 0) else {
                        continue;
                    };
                    let flow = FlowStats::new(&key, &entry, now);
                    if seen.insert((flow.ack_sender.clone(), flow.data_sender.clone(), key.vlans)) {
                        flows.push(flow);
                    }
                }
                Err(MapError::KeyNotFound) => break,
                Err(e) => return Err(e.into()),
            }
        }
        Ok(flows)
    }

    /// In a dry run: the number and the bytes of ACKs that would have left at their deadline, but
    /// are not counted yet because their flow has been silent since.
    pub(crate) fn overdue(&self) -> Result<(u64, u64), Error> {
        let map = self.flow_map()?;
        let now = monotonic_ns();
        let late = map
            .iter()
            .flatten()
            .filter(|(_, e)| stats::is_overdue(e, now));
        Ok(late.fold((0, 0), |(n, bytes), (_, e)| {
            (n + 1, bytes + u64::from(e.dry_len))
        }))
    }

    /// The number of instructions that the verifier processed, by program.
    #[must_use]
    pub fn verified(&self) -> BTreeMap<&'static str, u32> {
        self.names
            .iter()
            .copied()
            .filter_map(|name| {
                let p: &SchedClassifier = self.bpf.program(name)?.try_into().ok()?;
                Some((name, p.info().ok()?.verified_instruction_count()?))
            })
            .collect()
    }

    /// Kernel memory of each map, in bytes.
    #[must_use]
    pub fn memory(&self) -> &BTreeMap<String, u64> {
        &self.memory
    }
}

pub(crate) fn program<'a>(bpf: &'a mut Ebpf, name: &str) -> Result<&'a mut SchedClassifier, Error> {
    bpf.program_mut(name)
        .and_then(|p| p.try_into().ok())
        .ok_or_else(|| Error::Object(format!("program {name}")))
}

pub(crate) fn map<'a>(bpf: &'a mut Ebpf, name: &str) -> Result<&'a mut Map, Error> {
    bpf.map_mut(name)
        .ok_or_else(|| Error::Object(format!("map {name}")))
}

/// The maximum number of handshakes that are tracked. A flow is new only for a moment: with many
/// flows, a quarter of their number is enough.
fn handshakes(max_flows: u32) -> u32 {
    (max_flows / 4).clamp(1024, 16_384)
}

/// The memory of a map as the kernel reports it, in bytes.
fn map_memory(map: &Map) -> Option<u64> {
    let data: &MapData = match map {
        Map::Array(d)
        | Map::PerCpuArray(d)
        | Map::LruHashMap(d)
        | Map::Queue(d)
        | Map::RingBuf(d) => d,
        _ => return None,
    };
    let fd = data.fd().as_fd().as_raw_fd();
    let info = std::fs::read_to_string(format!("/proc/thread-self/fdinfo/{fd}")).ok()?;
    info.lines()
        .find_map(|l| l.strip_prefix("memlock:"))
        .and_then(|v| v.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::handshakes;

    #[test]
    fn handshakes_follow_the_flows_between_bounds() {
        assert_eq!([64, 1000, 20_000].map(handshakes), [1024, 1024, 5000]);
        assert_eq!([65_536, 1 << 20].map(handshakes), [16_384, 16_384]);
    }
}
