//! Compiles policy/ with the C compiler, and fails the build if the committed bindings
//! (`src/sys.rs`) do not fit its headers. It does not need libclang.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let crate_dir = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let policy = crate_dir.join("../../../policy");
    let (include, src) = (policy.join("include"), policy.join("src"));
    let bindings = crate_dir.join("src/sys.rs");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let options = policy.join("options");
    for path in [&include, &options, &src, &bindings] {
        println!("cargo::rerun-if-changed={}", path.display());
    }

    let layout = out.join("layout.c");
    let rust = fs::read_to_string(&bindings)?;
    let assertions = ackwise_layout_check::c_assertions(Path::new("shim.h"), &rust);
    fs::write(&layout, assertions)?;
    let checked = compiler(&include, &src)
        .file(&layout)
        .try_compile("ackwise_policy_layout");
    if let Err(error) = checked {
        return Err(format!(
            "{} does not fit policy/src/shim.h: run scripts/bindings and commit what it \
             writes ({error})",
            bindings.display()
        )
        .into());
    }

    compiler(&include, &src)
        .file(src.join("shim.c"))
        .file(src.join("hosted.c"))
        .warnings(true)
        .extra_warnings(true)
        // Even an unoptimised simulator runs millions of policy steps.
        .opt_level(2)
        .compile("ackwise_policy");
    Ok(())
}

fn compiler(include: &Path, src: &Path) -> cc::Build {
    let mut build = cc::Build::new();
    build.include(include).include(src).std("gnu11");
    build
}
