//! Runs shared by many machines: whoever does them, and whoever is killed, the report is that of
//! one machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ackwise_testbed::program::Program;
use serde_json::Value;

/// The command under test.
const LAB: Program = Program::new(env!("CARGO_BIN_EXE_ackwise-lab"));

const SCENARIO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../scenarios/first-look.toml"
);

/// Runs the scenario into a directory, and returns the command's counts.
fn into(directory: &Path, duration: &str, more: &[&str]) -> Value {
    let mut command = LAB.command();
    command.args(["run", SCENARIO, "--duration", duration, "--format", "json"]);
    command.arg("--into").arg(directory).args(more);
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The bytes of the merged record and of its table.
fn merged(directory: &Path) -> (Vec<u8>, Vec<u8>) {
    let out = tempfile::tempdir().unwrap();
    let (record, table) = (out.path().join("r.json"), out.path().join("r.parquet"));
    let mut command = LAB.command();
    command.arg("report").arg("--merge").arg(directory);
    command
        .arg("--output")
        .arg(&record)
        .arg("--parquet")
        .arg(&table);
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    (fs::read(record).unwrap(), fs::read(table).unwrap())
}

/// The bytes of the record and of the table of a run on one machine.
fn alone(duration: &str) -> (Vec<u8>, Vec<u8>) {
    let out = tempfile::tempdir().unwrap();
    let (record, table) = (out.path().join("r.json"), out.path().join("r.parquet"));
    let mut command = LAB.command();
    command.args(["run", SCENARIO, "--duration", duration, "--jobs", "1"]);
    command
        .arg("--output")
        .arg(&record)
        .arg("--parquet")
        .arg(&table);
    assert!(command.output().unwrap().status.success());
    (fs::read(record).unwrap(), fs::read(table).unwrap())
}

fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap().path())
        // A file that is being written is renamed at any moment.
        .filter(|path| path.extension().is_some_and(|it| it == "parquet"))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(path).unwrap())
        })
        .collect()
}

#[test]
fn three_shards_in_any_order_are_the_record_of_one_machine() {
    let one = tempfile::tempdir().unwrap();
    let all = into(one.path(), "1s", &[]);
    assert_eq!((&all["present"], &all["failed"]), (&0.into(), &0.into()));
    let runs = all["runs"].as_u64().unwrap();
    assert_eq!(all["added"].as_u64(), Some(runs));
    assert!(runs >= 6, "{all}");

    let many = tempfile::tempdir().unwrap();
    let parts = ["3/3", "1/3", "2/3"].map(|shard| into(many.path(), "1s", &["--shard", shard]));
    let added = parts.iter().map(|part| part["added"].as_u64().unwrap());
    assert_eq!(added.sum::<u64>(), runs);
    // Each result is the same, whoever made it, and so is the merged report.
    assert_eq!(files(one.path()), files(many.path()));
    assert_eq!(merged(one.path()), alone("1s"));
    assert_eq!(merged(many.path()), alone("1s"));

    // Users who may read other files may read them.
    let plain = one.path().join("plain");
    fs::write(&plain, "").unwrap();
    let modes = fs::read_dir(one.path()).unwrap();
    let modes = modes.map(|file| file.unwrap().metadata().unwrap().permissions().mode());
    let modes: BTreeSet<u32> = modes.collect();
    assert_eq!(modes.len(), 1, "{modes:?}");

    // Existing results are not run again; lost ones are.
    assert_eq!(into(many.path(), "1s", &[])["added"], 0);
    let lost = files(many.path()).into_keys().next().unwrap();
    fs::remove_file(many.path().join(lost)).unwrap();
    assert_eq!(into(many.path(), "1s", &[])["added"], 1);
    assert_eq!(files(one.path()), files(many.path()));
}

#[test]
fn who_is_killed_at_any_moment_leaves_whole_results_or_none() {
    let directory = tempfile::tempdir().unwrap();
    let whole = alone("4s");
    let mut interrupted = 0;
    for kill_after in 1..=4 {
        let mut command = Command::new(LAB.path());
        command.args(["run", SCENARIO, "--duration", "4s", "--jobs", "1"]);
        command.arg("--into").arg(directory.path());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(120);
        while files(directory.path()).len() < kill_after && Instant::now() < end {
            if child.try_wait().unwrap().is_some() {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        interrupted += usize::from(!child.wait().unwrap().success());
    }
    assert!(interrupted > 0, "each was faster than its killer");
    into(directory.path(), "4s", &[]);
    assert_eq!(merged(directory.path()), whole);
}

#[test]
fn an_arm_for_another_engine_is_not_missing() {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("two.toml");
    let text = fs::read_to_string(SCENARIO).unwrap();
    let arm = "[[arm]]\nname = \"elsewhere\"\non = \"virtual\"\n";
    fs::write(&file, format!("{text}\n{arm}")).unwrap();
    let results = out.path().join("results");
    let run = |duration: &str, shard: &str| {
        let mut command = LAB.command();
        command.arg("run").arg(&file).arg("--into").arg(&results);
        command.args(["--on", "sim", "--duration", duration, "--shard", shard]);
        assert!(command.output().unwrap().status.success());
    };
    let merge = |more: &[&str]| {
        let mut command = LAB.command();
        command
            .arg("report")
            .arg("--merge")
            .arg(&results)
            .args(more);
        let output = command.output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    run("1s", "1/2");
    let warning = merge(&[]);
    let (_, counts) = warning.split_once("results of ").unwrap();
    let words: Vec<&str> = counts.split_whitespace().collect();
    let (there, all): (usize, usize) = (words[0].parse().unwrap(), words[4].parse().unwrap());
    assert_eq!(all, 2 * there, "{warning}");
    run("1s", "2/2");
    assert_eq!(merge(&[]), "");
    run("2s", "1/1");
    let several = merge(&[]);
    let whole = format!("{all} of {all} runs");
    assert_eq!(several.matches(&whole).count(), 2, "{several}");
}

#[test]
fn bad_input_is_told_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let run = ["run", SCENARIO, "--duration", "1s", "--into", path];
    for shard in ["4/3", "0/3", "third"] {
        let arguments = [&run[..], &["--shard", shard]].concat();
        LAB.refuses(&arguments, &["--shard", "the third of eight"]);
    }
    LAB.refuses(&["run", SCENARIO, "--shard", "1/3"], &["--into"]);
    let live = [&run[..], &["--on", "live"]].concat();
    LAB.refuses(&live, &["--into", "differ", "--on sim"]);
    let radio = SCENARIO.replace("first-look", "papers/ayadi-2013/chain");
    for (flag, value) in [("--into", path), ("--parquet", "/tmp/never.parquet")] {
        LAB.refuses(&["run", &radio, flag, value], &[flag]);
    }
    LAB.refuses(
        &["report", "--merge", "/nowhere"],
        &["/nowhere", "directory"],
    );
    LAB.refuses(&["report", "--merge", path], &["no results", "--into"]);

    into(directory.path(), "1s", &["--shard", "1/3"]);
    let first = into(directory.path(), "1s", &["--shard", "1/3"]);
    let second = into(directory.path(), "2s", &["--shard", "1/3"]);
    let sets = [&first, &second].map(|it| it["set"].as_str().unwrap().to_owned());
    let needles = ["2 sets", "--set", &sets[0], &sets[1]];
    LAB.refuses(&["report", "--merge", path], &needles);
    let unknown = ["report", "--merge", path, "--set", "zz"];
    LAB.refuses(&unknown, &["'zz'", &sets[0]]);
    let chosen = ["report", "--merge", path, "--set", &sets[1]];
    assert!(
        LAB.command()
            .args(chosen)
            .output()
            .unwrap()
            .status
            .success()
    );

    // A truncated file is named, and the others stay.
    let (name, bytes) = files(directory.path()).into_iter().next().unwrap();
    fs::write(directory.path().join(&name), &bytes[..bytes.len() / 2]).unwrap();
    LAB.refuses(&["report", "--merge", path], &[&name, "remove this file"]);
}
