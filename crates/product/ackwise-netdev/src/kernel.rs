//! The version of the running kernel, and what it says of itself.

use std::path::Path;

/// Where the kernel says what it has.
pub const SYSFS: &str = "/sys/kernel";

/// Returns what `uname -r` prints, or `unknown` if the kernel does not say.
#[must_use]
pub fn release() -> String {
    nix::sys::utsname::uname().map_or_else(
        |_| "unknown".to_owned(),
        |name| name.release().to_string_lossy().into_owned(),
    )
}

/// Returns the major and the minor version of the running kernel, 6 and 12 for `6.12.8-amd64`;
/// `None` if the kernel does not say.
#[must_use]
pub fn version() -> Option<(u32, u32)> {
    version_of(&release())
}

fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Returns whether the kernel has types of its own (BTF). `sysfs` is its directory about itself:
/// `None` if that is missing, or if a container hides what it has.
#[must_use]
pub fn has_types(sysfs: &Path) -> Option<bool> {
    let is_shown = std::fs::read_dir(sysfs).is_ok_and(|mut entries| entries.next().is_some());
    is_shown.then(|| sysfs.join("btf").exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_begins_with_its_version() {
        assert_eq!(version_of("6.12.8-amd64"), Some((6, 12)));
        assert_eq!(version_of("6.12.43-uml+"), Some((6, 12)));
        assert_eq!(version_of("7.0"), Some((7, 0)));
        assert_eq!(version_of("next"), None);
        assert_eq!(version_of("unknown"), None);
    }

    #[test]
    fn types_that_are_hidden_are_not_missing() {
        let sysfs = tempfile::tempdir().expect("a directory");
        assert_eq!(has_types(sysfs.path()), None);
        assert_eq!(has_types(&sysfs.path().join("missing")), None);
        std::fs::create_dir(sysfs.path().join("mm")).expect("a directory");
        assert_eq!(has_types(sysfs.path()), Some(false));
        std::fs::create_dir(sysfs.path().join("btf")).expect("a directory");
        assert_eq!(has_types(sysfs.path()), Some(true));
    }

    #[test]
    fn the_running_kernel_has_a_release() {
        let file = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
        assert_eq!(release(), file.trim());
        assert!(version() >= Some((6, 1)), "{:?}", version());
    }
}
