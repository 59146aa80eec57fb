//! The guest's root file system: an archive with our program as `/init`, the few tools that it
//! runs, and their libraries.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::record::{Between, Job};
use crate::command;
use crate::error::LabError;

/// Programs that the guest runs besides itself.
const TOOLS: [&str; 2] = ["ip", "ethtool"];
/// Additional program for a guest with a router and a bridge.
const SHAPING: &str = "tc";
/// Directory of the tools, and the guest's `PATH`.
pub const TOOL_DIRECTORY: &str = "/bin";
/// Path of the job in the guest.
pub const JOB_PATH: &str = "/job.json";
/// Directories that must exist to be mounted on.
const MOUNT_POINTS: [&str; 5] = ["/proc", "/sys", "/dev", "/run", "/tmp"];

/// Builds the archive in memory.
///
/// # Errors
/// A file cannot be read, or a tool is not installed.
pub fn build(init: &Path, job: &Job) -> Result<Vec<u8>, LabError> {
    let text = serde_json::to_string(job)
        .map_err(|error| LabError::Scenario(format!("the job cannot be written: {error}")))?;
    let shaping = (job.between != Between::Wire).then_some(SHAPING);
    let mut files: Vec<(PathBuf, PathBuf)> = vec![("/init".into(), init.to_owned())];
    for tool in TOOLS.into_iter().chain(shaping) {
        files.push((Path::new(TOOL_DIRECTORY).join(tool), find(tool)?));
    }
    let mut libraries = BTreeSet::new();
    for (_, source) in &files {
        libraries.extend(libraries_of(source)?);
    }
    files.extend(libraries.into_iter().map(|path| (path.clone(), path)));

    let mut archive = Archive::default();
    for directory in MOUNT_POINTS {
        archive.directory(Path::new(directory));
    }
    for (target, source) in &files {
        let mut content =
            fs::read(source).map_err(LabError::os(format!("cannot read {}", source.display())))?;
        content.truncate(loaded(&content).unwrap_or(content.len()));
        archive.file(target, 0o755, &content);
    }
    archive.file(Path::new(JOB_PATH), 0o644, text.as_bytes());
    Ok(archive.finish())
}

/// The part of a 64-bit ELF file that its program headers name, or `None` for other files. The
/// kernel and the dynamic linker read no more, and a slow machine has to unpack all of it.
fn loaded(elf: &[u8]) -> Option<usize> {
    let word = |at: usize| Some(u64::from_le_bytes(elf.get(at..at + 8)?.try_into().ok()?));
    let half = |at: usize| Some(u16::from_le_bytes(elf.get(at..at + 2)?.try_into().ok()?));
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, size, count) = (word(32)?, half(54)?, half(56)?);
    let mut end = table + u64::from(size) * u64::from(count);
    for index in 0..u64::from(count) {
        let entry = usize::try_from(table + index * u64::from(size)).ok()?;
        end = end.max(word(entry + 8)?.checked_add(word(entry + 32)?)?);
    }
    usize::try_from(end).ok().filter(|&end| end <= elf.len())
}

fn find(tool: &str) -> Result<PathBuf, LabError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/sbin".into(), "/usr/sbin".into()])
        .map(|directory| directory.join(tool))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| LabError::Missing {
            what: format!("`{tool}` is not installed, and the emulated machine needs it"),
            hint: "run scripts/setup, or install iproute2 and ethtool".to_owned(),
        })
}

/// The shared libraries of a program, and its interpreter.
fn libraries_of(program: &Path) -> Result<Vec<PathBuf>, LabError> {
    let listed = command::run("ldd", &[program.as_os_str()])?;
    Ok(parse_ldd(&listed))
}

/// Parses the output of `ldd`: `name => /path (address)`, or `/path (address)` for the interpreter.
/// An entry without a path (the vDSO) is not a file.
fn parse_ldd(listed: &str) -> Vec<PathBuf> {
    listed
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

/// An archive in the "newc" format of cpio, as
/// `Documentation/driver-api/early-userspace/buffer-format.rst` describes it. Every file belongs to
/// root and is dated 1970, so that equal content gives equal bytes.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    known: BTreeSet<PathBuf>,
    inode: u32,
}

const DIRECTORY: u32 = 0o040_755;
const REGULAR: u32 = 0o100_000;

impl Archive {
    fn directory(&mut self, path: &Path) {
        if path == Path::new("/") || path == Path::new("") || !self.known.insert(path.to_owned()) {
            return;
        }
        if let Some(parent) = path.parent() {
            self.directory(parent);
        }
        self.entry(&path.to_string_lossy(), DIRECTORY, &[]);
    }

    fn file(&mut self, path: &Path, permissions: u32, content: &[u8]) {
        if let Some(parent) = path.parent() {
            self.directory(parent);
        }
        self.entry(&path.to_string_lossy(), REGULAR | permissions, content);
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.inode += 1;
        let name = name.trim_start_matches('/');
        let fields = [
            self.inode,
            mode,
            0,
            0,
            if mode == DIRECTORY { 2 } else { 1 },
            0,
            content.len() as u32,
            0,
            0,
            0,
            0,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ldd_is_read() {
        let listed = "\tlinux-vdso.so.1 (0x00007ffd)\n\
            \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
            \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(
            parse_ldd(listed),
            [
                PathBuf::from("/lib/x86_64-linux-gnu/libc.so.6"),
                PathBuf::from("/lib64/ld-linux-x86-64.so.2")
            ]
        );
        assert_eq!(parse_ldd("\tstatically linked\n"), Vec::<PathBuf>::new());
    }

    #[test]
    fn of_a_program_what_is_loaded_is_kept_and_runs() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        let kept = loaded(&own).unwrap();
        // Most of a test binary is debug information.
        assert!(kept < own.len() / 2, "{kept} of {}", own.len());
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        fs::write(&program, &own[..kept]).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&program, mode).unwrap();
        let listed = command::run(&program.to_string_lossy(), &["--list"]).unwrap();
        assert!(listed.contains("an_archive_has"), "{listed}");

        assert_eq!(loaded(&own[..kept - 1]), None);
        assert_eq!(loaded(&own[..40]), None);
        assert_eq!(loaded(b"#!/bin/sh\n"), None);
    }

    #[test]
    fn an_archive_has_each_directory_once_and_before_its_files() {
        let mut archive = Archive::default();
        archive.file(Path::new("/a/b/one"), 0o644, b"12345");
        archive.file(Path::new("/a/b/two"), 0o644, b"");
        let bytes = archive.finish();
        let names: Vec<(String, usize)> = entries(&bytes);
        assert_eq!(
            names,
            [
                ("a".to_owned(), 0),
                ("a/b".to_owned(), 0),
                ("a/b/one".to_owned(), 5),
                ("a/b/two".to_owned(), 0),
                ("TRAILER!!!".to_owned(), 0)
            ]
        );
    }

    /// Reads names and sizes back.
    fn entries(mut bytes: &[u8]) -> Vec<(String, usize)> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let field = |at: usize| {
                let text = std::str::from_utf8(&bytes[6 + 8 * at..14 + 8 * at]).unwrap();
                usize::from_str_radix(text, 16).unwrap()
            };
            assert_eq!(&bytes[..6], b"070701");
            let (size, name_length) = (field(6), field(11));
            let name = String::from_utf8(bytes[110..110 + name_length - 1].to_vec()).unwrap();
            let content = (110 + name_length).next_multiple_of(4);
            bytes = &bytes[content + size.next_multiple_of(4)..];
            found.push((name, size));
        }
        found
    }
}
