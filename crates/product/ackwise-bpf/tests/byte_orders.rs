//! The BPF objects of both byte orders compile without a warning. The build contains those of its
//! target's order, and the loader's library reads them. `scripts/test-foreign` also runs this test
//! as a program of a big-endian machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use aya_obj::Object;

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    root.canonicalize().expect("the workspace")
}

/// All programs of `bpf/`.
fn sources() -> Vec<PathBuf> {
    let files = root().join("bpf").read_dir().expect("a directory");
    let files = files.map(|file| file.expect("a file").path());
    let mut sources: Vec<_> = files
        .filter(|path| path.to_string_lossy().ends_with(".bpf.c"))
        .collect();
    sources.sort();
    sources
}

/// The directory that contains `asm/`, where a clang that targets BPF does not look.
fn asm_headers() -> PathBuf {
    let arch = match std::env::consts::ARCH {
        "arm" => "arm-linux-gnueabihf".to_owned(),
        arch => format!("{arch}-linux-gnu"),
    };
    let all = [
        format!("/usr/include/{arch}"),
        format!("/usr/{arch}/include"),
    ];
    let mut all = all.map(PathBuf::from).into_iter();
    all.find(|dir| dir.is_dir()).expect("the kernel's headers")
}

/// Compiles a source as the build does.
fn compile(source: &Path, target: &str, object: &Path) -> Vec<u8> {
    let clang = std::env::var("ACKWISE_CLANG").unwrap_or_else(|_| "clang-19".to_owned());
    let status = Command::new(clang)
        .args(["-target", target, "-mcpu=v3", "-O2", "-g", "-Wall"])
        .args(["-Wextra", "-Werror", "-Wno-unused-parameter"])
        .args(["-Wno-sign-compare", "-c", "-I"])
        .arg(asm_headers())
        .arg("-o")
        .args([object, source])
        .status()
        .expect("clang runs");
    assert!(status.success(), "{} for {target}", source.display());
    std::fs::read(object).expect("an object")
}

/// Returns whether an ELF file is for a big-endian machine.
fn is_big_endian(object: &[u8]) -> bool {
    assert_eq!(&object[..4], b"\x7fELF");
    // EI_DATA: 1 is little endian, 2 is big endian.
    object[5] == 2
}

#[test]
fn programs_compile_in_both_byte_orders_and_the_native_one_is_read() {
    let out = tempfile::tempdir().expect("a directory");
    let object = out.path().join("object");
    let sources = sources();
    assert!(sources.len() >= 7, "{sources:?}");
    for source in sources {
        let [little, big] = ["bpfel", "bpfeb"].map(|target| compile(&source, target, &object));
        assert!(!is_big_endian(&little) && is_big_endian(&big));
        let native = if cfg!(target_endian = "big") {
            &big
        } else {
            &little
        };
        let read = Object::parse(native);
        let read = read.unwrap_or_else(|error| panic!("{}: {error}", source.display()));
        assert!(!read.programs.is_empty(), "{}", source.display());
        assert!(read.btf.is_some(), "{}", source.display());
    }
}

#[test]
fn the_build_has_the_objects_of_its_target() {
    for object in [
        ackwise_bpf::datapath::OBJECT,
        ackwise_bpf::gateway::OBJECT,
        ackwise_bpf::tunnel::OBJECT,
    ] {
        assert_eq!(is_big_endian(object), cfg!(target_endian = "big"));
        let read = Object::parse(object).expect("an object");
        assert!(!read.programs.is_empty() && !read.maps.is_empty());
    }
}
