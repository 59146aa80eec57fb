//! Writes the Rust bindings of the C headers, or checks that they are up to date.
//!
//! The bindings are committed (docs/decisions/0022-committed-bindings.md), so this
//! program is the only part of the repository that needs libclang. `scripts/bindings`
//! runs it.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use anyhow::{Context, Result};
use bindgen::callbacks::{DeriveTrait, ImplementsTrait, ParseCallbacks};

const USAGE: &str = "usage: scripts/bindings [--check]";

/// A header and the file that has its bindings, both relative to the workspace.
struct Binding {
    header: &'static str,
    output: &'static str,
}

/// Headers of `bpf/`, whose types from `policy/` are those of the crate `ackwise-policy`.
const BPF: [Binding; 9] = [
    Binding {
        header: "bpf/ackwise_shared.h",
        output: "crates/product/ackwise-bpf/src/bindings/datapath.rs",
    },
    Binding {
        header: "bpf/gateway_shared.h",
        output: "crates/product/ackwise-bpf/src/bindings/gateway.rs",
    },
    Binding {
        header: "bpf/echo_shared.h",
        output: "crates/product/ackwise-bpf/src/bindings/echo.rs",
    },
    Binding {
        header: "bpf/delay_shared.h",
        output: "crates/product/ackwise-bpf/src/bindings/delay.rs",
    },
    Binding {
        header: "bpf/tunnel_shared.h",
        output: "crates/product/ackwise-bpf/src/bindings/tunnel.rs",
    },
    Binding {
        header: "bpf/inject_shared.h",
        output: "crates/product/ackwise-bpf/src/bindings/inject.rs",
    },
    Binding {
        header: "bpf/silence_shared.h",
        output: "crates/product/ackwise-bpf/src/bindings/silence.rs",
    },
    Binding {
        header: "bpf/ack_rate_shared.h",
        output: "crates/product/ackwise-bpf/src/bindings/ack_rate.rs",
    },
    Binding {
        header: "bpf/selftest_shared.h",
        output: "crates/product/ackwise-bpf/src/bindings/selftest.rs",
    },
];

/// The functions, tables, types and constants of `policy/`.
const POLICY: Binding = Binding {
    header: "policy/src/shim.h",
    output: "crates/core/ackwise-policy/src/sys.rs",
};

fn main() -> Result<ExitCode> {
    let check = match env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => {
            eprintln!("{USAGE}");
            return Ok(ExitCode::from(2));
        }
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().context("the workspace")?;
    let mut stale = Vec::new();
    let policy = (&POLICY, policy_bindings(&root, POLICY.header)?);
    let bpf = BPF
        .iter()
        .map(|binding| Ok((binding, bpf_bindings(&root, binding.header)?)))
        .collect::<Result<Vec<_>>>()?;
    for (binding, text) in std::iter::once(policy).chain(bpf) {
        let path = root.join(binding.output);
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            continue;
        }
        if check {
            stale.push(binding);
        } else {
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            println!("bindings: wrote {}", binding.output);
        }
    }
    for binding in &stale {
        eprintln!(
            "bindings: {} is not what {} says",
            binding.output, binding.header
        );
    }
    if stale.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("bindings: run scripts/bindings and commit what it writes");
    Ok(ExitCode::FAILURE)
}

/// Says that the types of `policy/`, which `ackwise-policy` binds, are plain data.
#[derive(Debug)]
struct PolicyTypes;

impl ParseCallbacks for PolicyTypes {
    fn blocklisted_type_implements_trait(
        &self,
        _name: &str,
        _derive: DeriveTrait,
    ) -> Option<ImplementsTrait> {
        Some(ImplementsTrait::Yes)
    }
}

/// The types and constants of a header in `bpf/` that begin with `aw_` or `AW_`.
fn bpf_bindings(root: &Path, header: &str) -> Result<String> {
    let path = root.join(header);
    let uses_policy = fs::read_to_string(&path)
        .with_context(|| format!("reading {header}"))?
        .contains("policy/include/");
    let mut builder = common(header)?
        .header(utf8(&path)?)
        .allowlist_type("aw_.*")
        .allowlist_var("AW_.*")
        .blocklist_file(".*/policy/(include|options)/.*");
    if uses_policy {
        builder = builder
            .raw_line("")
            .raw_line("use ackwise_policy::sys::*;")
            .parse_callbacks(Box::new(PolicyTypes));
    }
    let bindings = builder
        .generate()
        .with_context(|| format!("binding {header}"))?;
    Ok(bindings.to_string())
}

/// Everything in `policy/src/shim.h` that begins with `aw_` or `AW_`.
///
/// The tables (`aw_*_meta`) have pointers, whose size is the target's: their layout is not
/// asserted, and `repr(C)` alone makes them fit. So they are bound in a pass of their own.
fn policy_bindings(root: &Path, header: &str) -> Result<String> {
    const TABLES: &str = "aw_.*_meta";
    let path = root.join(header);
    let include = root.join("policy/include");
    let types = common(header)?
        .header(utf8(&path)?)
        .clang_arg(format!("-I{}", utf8(&include)?))
        .generate_comments(false)
        .derive_debug(true)
        .allowlist_type("aw_.*")
        .allowlist_var("AW_.*")
        .blocklist_type(TABLES)
        // Have pointers as well, and only the C parsers use them.
        .blocklist_type("aw_(opt|ack_rate)_reader")
        // The tables have these texts.
        .blocklist_item("AW_.*_(SUMMARY|SOURCE)");
    let functions = bindgen::Builder::default()
        .disable_header_comment()
        .header(utf8(&path)?)
        .clang_arg(format!("-I{}", utf8(&include)?))
        .rust_target(rust_target()?)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .generate_comments(false)
        .layout_tests(false)
        .use_core()
        .allowlist_recursively(false)
        .allowlist_type(TABLES)
        .allowlist_function("aw_shim_.*");
    let mut text = String::new();
    for builder in [types, functions] {
        let bindings = builder
            .generate()
            .with_context(|| format!("binding {header}"))?;
        text.push_str(&bindings.to_string());
    }
    Ok(text)
}

fn rust_target() -> Result<bindgen::RustTarget> {
    bindgen::RustTarget::stable(87, 0).map_err(|e| anyhow::anyhow!("{e}"))
}

/// What all bindings have in common: where they come from, and how C becomes Rust.
fn common(header: &str) -> Result<bindgen::Builder> {
    Ok(bindgen::Builder::default()
        .rust_target(rust_target()?)
        .disable_header_comment()
        .raw_line(format!(
            "// @generated from {header} by scripts/bindings; do not edit."
        ))
        // Ordinary comments of the headers become documentation.
        .clang_arg("-fparse-all-comments")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .derive_debug(false)
        .layout_tests(true)
        .use_core()
        .rust_edition(bindgen::RustEdition::Edition2024)
        .generate_cstr(true))
}

fn utf8(path: &Path) -> Result<String> {
    let text = path.to_str().context("the workspace's path is not UTF-8")?;
    Ok(text.to_owned())
}
