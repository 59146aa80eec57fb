//! Writes the packets of failed cases as captures.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::device::{Arrival, Error};
use crate::judge::DeviceReport;
use crate::packet;
use crate::schedule::Schedule;

/// Magic number of a pcap file with nanoseconds, in the byte order of the writer.
const MAGIC: u32 = 0xa1b2_3c4d;
/// Link type of packets that begin with their IP header.
const LINK_TYPE_RAW: u32 = 101;
const SNAP: u32 = 65_535;

/// The directory of a device's captures, named after the device.
#[must_use]
pub fn directory(captures: &Path, device: &str) -> PathBuf {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '.' {
            c
        } else {
            '-'
        }
    };
    captures.join(device.chars().map(plain).collect::<String>())
}

/// Writes, for each failed case, `CASE.sent.pcap` and `CASE.arrived.pcap` with both directions of
/// the first run that failed.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn write(
    directory: &Path,
    schedule: &Schedule,
    arrivals: &[Arrival],
    report: &DeviceReport,
) -> Result<(), Error> {
    for (case, _) in report.failed() {
        let mut runs = schedule.runs.iter().enumerate();
        let of_case = runs.by_ref().filter(|(_, run)| run.case.name == case.case);
        let Some((number, run)) = of_case.into_iter().nth(case.first_failed as usize) else {
            continue;
        };
        let sent = run.script.steps.iter().map(|step| {
            let at = run.start_ns + step.at_ns;
            (at, step.segment.to_packet())
        });
        let arrived = arrivals.iter().filter(|arrival| {
            packet::read(&arrival.packet)
                .is_some_and(|segment| schedule.run_of(segment.flow) == Some(number))
        });
        let arrived = arrived.map(|it| (it.at_ns, it.packet.clone()));
        let path = |end: &str| directory.join(format!("{}.{end}.pcap", case.case));
        let failed = |path: &Path| {
            let path = path.to_owned();
            |source: io::Error| Error::File { path, source }
        };
        fs::create_dir_all(directory).map_err(failed(directory))?;
        let (to, bytes) = (path("sent"), pcap(sent));
        fs::write(&to, bytes).map_err(failed(&to))?;
        let (to, bytes) = (path("arrived"), pcap(arrived));
        fs::write(&to, bytes).map_err(failed(&to))?;
    }
    Ok(())
}

fn pcap(packets: impl Iterator<Item = (u64, Vec<u8>)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(MAGIC.to_ne_bytes());
    bytes.extend(2_u16.to_ne_bytes());
    bytes.extend(4_u16.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend(SNAP.to_ne_bytes());
    bytes.extend(LINK_TYPE_RAW.to_ne_bytes());
    for (at_ns, packet) in packets {
        let length = packet.len() as u32;
        for word in [
            (at_ns / 1_000_000_000) as u32,
            (at_ns % 1_000_000_000) as u32,
            length,
            length,
        ] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(packet);
    }
    bytes
}

/// Copies the files of a directory, which need not exist.
///
/// # Errors
/// A file cannot be copied.
pub(crate) fn move_files(from: &Path, to: &Path) -> Result<(), Error> {
    let Ok(entries) = fs::read_dir(from) else {
        return Ok(());
    };
    let failed = |source: io::Error| Error::File {
        path: to.to_owned(),
        source,
    };
    fs::create_dir_all(to).map_err(failed)?;
    for entry in entries {
        let entry = entry.map_err(failed)?;
        fs::copy(entry.path(), to.join(entry.file_name())).map_err(failed)?;
    }
    Ok(())
}
