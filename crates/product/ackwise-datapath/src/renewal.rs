//! Replaces running programs by ones with other parameters of the policy.
//!
//! A policy's parameters are constants of the programs, from which the verifier prunes what is not
//! needed. So other parameters need other programs: the same instructions over the same maps, with
//! another map of constants. Loading them needs privileges that the running process has dropped,
//! and that a separate process keeps for this alone.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use ackwise_netdev::bpf;
use ackwise_netdev::helper::Helper;
use ackwise_policy::Config;
use aya::maps::{Map, MapData};

use crate::programs::{ACKS, DATA, Programs, map, program};
use crate::{Error, sys};

/// The section of the constants, which is also the name of their map.
const CONSTANTS: &str = ".rodata";
/// How long loading may take: the verifier walks every path.
const LOAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The process that loads programs for the existing maps.
#[derive(Debug)]
pub(crate) struct Renewal {
    helper: Helper,
}

/// The programs of an interface, loaded but not attached.
pub(crate) struct Renewed {
    pub data: OwnedFd,
    pub acks: OwnedFd,
}

impl Renewal {
    /// Starts the process, which becomes the given user. This process must have one thread, and all
    /// its privileges. `raw` is what the programs were loaded with.
    pub fn start(
        programs: &mut Programs,
        policy: &Config,
        raw: &sys::aw_options,
        user: Option<&str>,
    ) -> Result<Self, Error> {
        let mut constants = Constants::of(programs, raw)?;
        let mut policy = *policy;
        let helper = Helper::start(c"ackwise-loader", user, |request| {
            // The daemon may be compromised by now: it can choose parameters that the policy
            // permits, and nothing else.
            let words = request.as_chunks::<4>().0;
            let wanted: Vec<_> = words.iter().map(|word| u32::from_ne_bytes(*word)).collect();
            for (param, value) in policy.policy().params().iter().zip(&wanted) {
                let set = policy.set_number(param.name, u64::from(*value));
                set.map_err(|error| error.to_string())?;
            }
            constants.raw.flow.policy.param = policy.raw().param;
            constants.load(programs).map_err(|error| error.to_string())
        })?;
        Ok(Self { helper })
    }

    /// Loads the programs with the parameters of this policy; gives up once they are no longer
    /// wanted.
    pub fn load(&self, policy: &Config, is_wanted: impl Fn() -> bool) -> Result<Renewed, Error> {
        let params = policy.policy().params().iter();
        let values = params.map(|param| policy.raw().param[param.index]);
        let request: Vec<u8> = values.flat_map(u32::to_ne_bytes).collect();
        let loaded = self.helper.ask(&request, LOAD_TIMEOUT, is_wanted);
        let loaded = loaded.map_err(Error::system("load the programs with other parameters"))?;
        let [data, acks]: [OwnedFd; 2] = loaded
            .try_into()
            .map_err(|_| Error::Object("programs of another number".into()))?;
        Ok(Renewed { data, acks })
    }
}

/// The bytes of the constants, and the offset of the options in them.
struct Constants {
    bytes: Vec<u8>,
    at: usize,
    raw: sys::aw_options,
}

impl Constants {
    /// Reads the constants from the kernel.
    fn of(programs: &mut Programs, raw: &sys::aw_options) -> Result<Self, Error> {
        let bytes = bpf::first_value(constants_of(programs)?);
        let bytes = bytes.map_err(Error::system("read the constants of the programs"))?;
        let wanted = bytes_of(raw);
        let mut places = bytes.windows(wanted.len()).enumerate();
        let mut places = places.by_ref().filter(|(_, window)| *window == wanted);
        match (places.next(), places.next()) {
            (Some((at, _)), None) => Ok(Self {
                at,
                raw: *raw,
                bytes,
            }),
            _ => Err(Error::Object(format!("options in {CONSTANTS}"))),
        }
    }

    /// Runs in the loading process: creates the map, puts it where the instructions look for it,
    /// and loads both programs again.
    fn load(&mut self, programs: &mut Programs) -> Result<Vec<OwnedFd>, Error> {
        let raw = bytes_of(&self.raw);
        self.bytes[self.at..self.at + raw.len()].copy_from_slice(raw);
        let new = bpf::constant_map(&self.bytes);
        let new = new.map_err(Error::system("make the map of constants"))?;
        let old = constants_of(programs)?.fd().as_fd().as_raw_fd();
        // The instructions refer to a map by its file descriptor.
        // SAFETY: no pointers; the owner of the descriptor owns another map from now on.
        if unsafe { libc::dup2(new.as_raw_fd(), old) } != old {
            let error = std::io::Error::last_os_error();
            return Err(Error::system("place the map of constants")(error));
        }
        [DATA, ACKS]
            .into_iter()
            .map(|name| {
                let program = program(&mut programs.bpf, name)?;
                // The daemon has the program loaded and attached; this only closes a descriptor.
                // After a failed load there is none.
                let _ = program.unload();
                program
                    .load()
                    .map_err(|error| crate::error::program_error(name, error))?;
                let loaded = program
                    .fd()
                    .map_err(|e| crate::error::program_error(name, e))?;
                let loaded = loaded.as_fd().try_clone_to_owned();
                loaded.map_err(Error::system("duplicate a program's descriptor"))
            })
            .collect()
    }
}

fn constants_of(programs: &mut Programs) -> Result<&MapData, Error> {
    match map(&mut programs.bpf, CONSTANTS)? {
        Map::Array(data) => Ok(data),
        _ => Err(Error::Object(format!("map {CONSTANTS}"))),
    }
}

fn bytes_of(raw: &sys::aw_options) -> &[u8] {
    let size = size_of::<sys::aw_options>();
    // SAFETY: `size` bytes, all initialised: the fields fill the C struct without padding (asserted
    // below).
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(raw).cast(), size) }
}

const _: () = {
    let flow = size_of::<sys::aw_cfg>() + 4 * size_of::<u32>();
    let matches = 2 * 2 * size_of::<sys::aw_addr>() + 4 * size_of::<u16>() + 4;
    let rest = (sys::AW_CLASS_TABLE as usize + 6) * size_of::<u32>() + 8;
    assert!(size_of::<sys::aw_options>() == flow + matches + rest);
};
