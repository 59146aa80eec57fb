//! Where the kernel is, and which it is.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;

/// Names a kernel to use instead of the one that `kernel/build` made.
pub const VARIABLE: &str = "ACKWISE_KERNEL";

/// A User Mode Linux kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The program.
    pub image: PathBuf,
    /// What was built, in words, for the record; the same on every machine.
    pub about: Option<String>,
    /// Version of the package that it was built from, e.g. `6.12.95-1`.
    pub version: Option<String>,
    /// Of all that went into it but the compiler.
    pub sources: Option<String>,
}

impl Kernel {
    /// The kernel at a path, or that of [`VARIABLE`], or what `kernel/build`
    /// made last.
    ///
    /// # Errors
    /// There is none.
    pub fn find(wanted: Option<&Path>) -> Result<Self, Error> {
        let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        let image = match (wanted, named) {
            (Some(path), _) => path.to_owned(),
            (None, Some(path)) => path.into(),
            (None, None) => built()?,
        };
        // Its link moves when another is built; this run stays with what it has.
        let image =
            fs::canonicalize(&image).map_err(|error| {
                Error::Missing {
            what: format!("there is no kernel for virtual time at {}: {error}", image.display()),
            mend: "run kernel/build in ackwise's source (some minutes, once; no root), or name one \
                   with --kernel or ACKWISE_KERNEL"
                .to_owned(),
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

/// Where `kernel/build` leaves what it made last.
fn built() -> Result<PathBuf, Error> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))
        .ok_or_else(|| Error::Missing {
            what: "the kernel for virtual time is kept in a cache directory, and neither \
                   XDG_CACHE_HOME nor HOME says where"
                .to_owned(),
            mend: "set one of them, or name a kernel with --kernel".to_owned(),
        })?;
    Ok(cache.join("ackwise/kernel/images/um-ackwise/linux"))
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
        let text = Kernel::find(Some(Path::new("/nowhere/linux")))
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("/nowhere/linux") && text.contains("kernel/build"),
            "{text}"
        );
    }
}
