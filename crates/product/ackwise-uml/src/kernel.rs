//! Finds the kernel to boot, and identifies it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::Error;

/// The variable that names a kernel to use instead of 6.12, in the form of [`KernelChoice`].
pub const VARIABLE: &str = "ACKWISE_KERNEL";

/// A line of Linux releases for which `kernel/build um` builds a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// 6.12 with the series of `kernel/patches`: the default.
    Linux6_12,
    /// Debian's newest 7.x, without the series. It negotiates AccECN.
    Linux7,
    /// 6.12 as above plus nftables, for testing rule sets.
    Netfilter,
}

impl Release {
    /// All releases.
    pub const ALL: [Self; 3] = [Self::Linux6_12, Self::Linux7, Self::Netfilter];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linux6_12 => "6.12",
            Self::Linux7 => "7",
            Self::Netfilter => "6.12-netfilter",
        }
    }

    /// The directory of the kernel that `kernel/build` built last.
    const fn directory(self) -> &'static str {
        match self {
            Self::Linux6_12 => "um-ackwise",
            Self::Linux7 => "um-7",
            Self::Netfilter => "um-netfilter",
        }
    }

    /// The command that builds it.
    const fn command(self) -> &'static str {
        match self {
            Self::Linux6_12 => "kernel/build um",
            Self::Linux7 => "kernel/build um --kernel 7",
            Self::Netfilter => {
                "kernel/build um --config kernel/config/netfilter.config --as netfilter"
            }
        }
    }
}

/// The kernel to boot: `6.12`, `7`, or the path of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelChoice {
    /// The kernel of a release that `kernel/build` built last.
    Release(Release),
    /// The path of an image.
    Image(PathBuf),
}

impl FromStr for KernelChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if let Some(release) = Release::ALL.into_iter().find(|it| it.name() == text) {
            return Ok(Self::Release(release));
        }
        let is_number = text.starts_with(|c: char| c.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_digit() || c == '.');
        if is_number && !PathBuf::from(text).exists() {
            let names = Release::ALL.map(Release::name).join(", ");
            return Err(Error::NoSuchKernel {
                what: format!("there is no kernel {text} for virtual time: there are {names}"),
                hint: "name one of these, or the path of an image".to_owned(),
            });
        }
        Ok(Self::Image(text.into()))
    }
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Release(release) => f.write_str(release.name()),
            Self::Image(path) => path.display().fmt(f),
        }
    }
}

/// A User Mode Linux kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The path of the program.
    pub image: PathBuf,
    /// A description of the build, for the record; the same on every machine.
    pub about: Option<String>,
    /// The version of the package that it was built from, e.g. `6.12.95-1`.
    pub version: Option<String>,
    /// A digest of everything that went into it, except the compiler.
    pub sources: Option<String>,
}

impl Kernel {
    /// Finds the kernel `wanted`, or that of [`VARIABLE`], or the 6.12 that `kernel/build` built
    /// last.
    ///
    /// # Errors
    /// [`Error::NoSuchKernel`] if the one that was named does not exist, [`Error::Missing`] if none
    /// was named and 6.12 has not been built.
    pub fn find(wanted: Option<&KernelChoice>) -> Result<Self, Error> {
        let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        let (choice, variable) = match (wanted, named) {
            (Some(choice), _) => (choice.clone(), Some(format!("--kernel {choice}"))),
            (None, Some(name)) => {
                let variable = format!("{VARIABLE}={}", name.display());
                (from_environment(name, &variable)?, Some(variable))
            }
            (None, None) => (KernelChoice::Release(Release::Linux6_12), None),
        };
        let (image, command) = match choice {
            KernelChoice::Release(release) => (built(release)?, release.command()),
            KernelChoice::Image(path) => (path, Release::Linux6_12.command()),
        };
        // The link changes when another kernel is built; this run keeps its own.
        let image = program(&image).map_err(|error| {
            let what = format!(
                "there is no kernel for virtual time at {}: {error}",
                image.display()
            );
            let hint = format!(
                "run `{command}` in ackwise's source (some minutes, once; no root), or name one \
                 with --kernel or ACKWISE_KERNEL"
            );
            match variable {
                Some(variable) => Error::NoSuchKernel {
                    what: format!("{variable}: {what}"),
                    hint,
                },
                None => Error::Missing { what, hint },
            }
        })?;
        let info = image
            .parent()
            .and_then(|directory| fs::read_to_string(directory.join("info")).ok())
            .unwrap_or_default();
        Ok(Self::with_info(image, &info))
    }

    fn with_info(image: PathBuf, info: &str) -> Self {
        let facts: HashMap<&str, &str> = info
            .lines()
            .filter_map(|line| line.split_once('='))
            .collect();
        let fact = |name: &str| facts.get(name).map(|value| (*value).to_owned());
        let about = match (
            fact("package"),
            fact("version"),
            fact("flavour"),
            fact("sources"),
        ) {
            (Some(package), Some(version), Some(flavour), Some(sources)) => {
                Some(format!("{package} {version}, {flavour}, sources {sources}"))
            }
            _ => None,
        };
        Self {
            image,
            about,
            version: fact("version"),
            sources: fact("sources"),
        }
    }
}

/// The program at a path, with links resolved.
fn program(path: &Path) -> io::Result<PathBuf> {
    let path = fs::canonicalize(path)?;
    let meta = path.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    if meta.permissions().mode() & 0o111 == 0 {
        return Err(io::Error::other("it is not executable"));
    }
    Ok(path)
}

/// Parses [`VARIABLE`]; `variable` names its source in an error.
fn from_environment(name: OsString, variable: &str) -> Result<KernelChoice, Error> {
    let text = match name.into_string() {
        Ok(text) => text,
        Err(path) => return Ok(KernelChoice::Image(path.into())),
    };
    text.parse().map_err(|error| match error {
        Error::NoSuchKernel { what, hint } => Error::NoSuchKernel {
            what: format!("{variable}: {what}"),
            hint,
        },
        other => other,
    })
}

/// The kernel of a release that `kernel/build` built last.
fn built(release: Release) -> Result<PathBuf, Error> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))
        .ok_or_else(|| Error::Missing {
            what: "the kernel for virtual time is kept in a cache directory, and neither \
                   XDG_CACHE_HOME nor HOME says where"
                .to_owned(),
            hint: "set one of them, or name a kernel with --kernel".to_owned(),
        })?;
    let images = cache.join("ackwise/kernel/images");
    Ok(images.join(release.directory()).join("linux"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_says_what_it_was_built_from() {
        let info = "package=linux-source-6.12\nversion=6.12.95-1\ntarget=um\nflavour=stock\n\
                    sources=0123456789abcdef\nkey=fedcba\n";
        let kernel = Kernel::with_info("/k/linux".into(), info);
        assert_eq!(
            kernel.about.as_deref(),
            Some("linux-source-6.12 6.12.95-1, stock, sources 0123456789abcdef")
        );
        assert_eq!(kernel.version.as_deref(), Some("6.12.95-1"));
        assert_eq!(Kernel::with_info("/k/linux".into(), "").about, None);
    }

    #[test]
    fn a_kernel_that_is_missing_is_told_how_to_be_made() {
        let text = Kernel::find(Some(&KernelChoice::Image("/nowhere/linux".into())))
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("/nowhere/linux") && text.contains("kernel/build"),
            "{text}"
        );
    }

    #[test]
    fn a_kernel_is_chosen_by_its_release_or_its_path() {
        let choose = |text: &str| text.parse::<KernelChoice>();
        assert_eq!(choose("7").unwrap(), KernelChoice::Release(Release::Linux7));
        assert_eq!(
            choose("6.12").unwrap(),
            KernelChoice::Release(Release::Linux6_12)
        );
        for path in ["out/linux", "./7", "linux-7"] {
            assert_eq!(choose(path).unwrap(), KernelChoice::Image(path.into()));
        }
        let text = choose("6.18").unwrap_err().to_string();
        assert!(
            text.contains("6.18") && text.contains("6.12, 7, 6.12-netfilter"),
            "{text}"
        );
    }
}
