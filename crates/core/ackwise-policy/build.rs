//! Compiles policy/ with the C compiler and makes the bindings from its headers.

use std::env;
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let policy = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../../policy");
    let (include, src) = (policy.join("include"), policy.join("src"));
    let out = PathBuf::from(env::var("OUT_DIR")?);

    println!("cargo::rerun-if-changed={}", include.display());
    println!("cargo::rerun-if-changed={}", src.display());

    cc::Build::new()
        .file(src.join("shim.c"))
        .include(&include)
        .include(&src)
        .std("gnu11")
        .warnings(true)
        .extra_warnings(true)
        // Even an unoptimised simulator steps policies by the million.
        .opt_level(2)
        .compile("ackwise_policy");

    bindgen::Builder::default()
        .header(src.join("shim.h").to_string_lossy())
        .clang_arg(format!("-I{}", include.display()))
        .allowlist_function("aw_shim_.*")
        .allowlist_type("aw_.*")
        .allowlist_var("AW_.*")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .use_core()
        .layout_tests(true)
        .rust_target(bindgen::RustTarget::stable(87, 0).map_err(|e| e.to_string())?)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .generate()?
        .write_to_file(out.join("sys.rs"))?;
    Ok(())
}
