//! The series of `kernel/` as `kernel/series` writes it for others to apply. `kernel/tests/run`
//! shows that it applies, and what it does in a kernel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The letters of the series, the cover letter first.
fn letters(dir: &Path) -> Vec<String> {
    let to = dir.join("series");
    let output = Command::new(root().join("kernel/series"))
        .arg(&to)
        .output()
        .expect("kernel/series runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let mut files: Vec<PathBuf> = fs::read_dir(&to)
        .expect("the directory of letters")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    let read = |path: &PathBuf| fs::read_to_string(path).expect("a letter");
    files.iter().map(read).collect()
}

/// The lines that a patch adds to a file.
fn added<'a>(letter: &'a str, file: &str) -> Vec<&'a str> {
    letter
        .split("\ndiff --git ")
        .filter(|part| part.contains(&format!("\n+++ b/{file}\n")))
        .flat_map(str::lines)
        .filter(|line| !line.starts_with("+++"))
        .filter_map(|line| line.strip_prefix('+'))
        .collect()
}

#[test]
fn l13_the_series_is_numbered_and_complete() {
    let dir = tempfile::tempdir().expect("a directory");
    let letters = letters(dir.path());
    let last = letters.len() - 1;
    assert!(last > 10, "{last} patches");
    for (n, letter) in letters.iter().enumerate() {
        let subject = letter.lines().find(|line| line.starts_with("Subject: "));
        let number = format!("[PATCH {n:02}/{last:02}] ");
        assert!(
            subject.is_some_and(|subject| subject.contains(&number)),
            "{number}: {subject:?}"
        );
    }
    assert!(!letters[0].contains("*** "), "the cover letter is a form");

    // The series needs nothing from outside: it contains the policies' headers byte for byte.
    let headers = root().join("policy/include/ackwise");
    let mut compared = 0;
    for entry in fs::read_dir(&headers).expect("headers") {
        let path = entry.expect("an entry").path();
        let Some(name) = path.file_name().filter(|_| path.is_file()) else {
            continue;
        };
        let file = format!("include/ackwise/{}", name.display());
        let text = fs::read_to_string(&path).expect("a header");
        assert_eq!(
            added(&letters[1], &file),
            text.lines().collect::<Vec<_>>(),
            "{file}"
        );
        compared += 1;
    }
    assert!(compared > 8, "{compared}");
}

/// Memory allocated for a socket or a namespace is charged to its user.
#[test]
fn l13_memory_is_accounted() {
    let dir = tempfile::tempdir().expect("a directory");
    let letters = letters(dir.path());
    let code: Vec<&str> = letters[2..]
        .iter()
        .flat_map(|letter| letter.lines())
        .filter_map(|line| line.strip_prefix('+'))
        .collect();
    let allocations: Vec<_> = (code.iter())
        .filter(|line| line.contains(" kzalloc(") || line.contains(" kmalloc("))
        .collect();
    assert!(!allocations.is_empty());
    for line in allocations {
        assert!(line.contains("_ACCOUNT"), "not accounted: {line}");
    }
}
