//! `ackwise-lab conform`: tests devices that drop, delay or change ACKs.

use std::fs;

use ackwise_cli::error::BadInput;
use ackwise_cli::outputs::{self, Results};
use ackwise_cli::{Format, text};
use ackwise_conform::{
    BUILT_IN, Between, BuiltIn, Device, DeviceReport, Document, Error, Level, Outcome, Place,
    Router, SIMPLEMUX, Schedule, Setup, Spec, by_name, captures_of, cases, chosen, in_virtual_time,
    not_run, run,
};
use ackwise_engines::command;
use ackwise_engines::virt::KernelChoice;
use ackwise_report::parts::{Page, escape};
use anyhow::bail;

use super::cli::ConformArgs;

/// Runs the subcommand.
pub fn conform(args: &ConformArgs, format: Format) -> anyhow::Result<()> {
    if args.list {
        return list(format);
    }
    let schedule = Schedule::new(&chosen(&args.cases)?);
    check_outputs(args)?;
    let requested_devices = requested_devices(args)?;
    if requested_devices.is_empty() {
        let error = BadInput::new("there is no device to judge")
            .hint("name one: --all, --device, --qdisc, --setup or --between");
        return Err(error.into());
    }
    let alone = requested_devices.len() == 1 && !args.all;
    let mut document = Document::default();
    let mut unsafe_devices = Vec::new();
    for device in &requested_devices {
        match device.judge(args, &schedule) {
            Ok(report) => {
                text::note(&format!("{}: {}", report.name, report.outcome().name()));
                if report.outcome() == Outcome::Unsafe {
                    unsafe_devices.push(report.name.clone());
                }
                document.add(&report);
            }
            Err(error) if alone => return Err(error.into()),
            Err(error) => {
                text::note(&format!("{}: error", device.name()));
                document.broken(device.name(), error);
            }
        }
    }
    if args.all {
        let simplemux = requested_devices
            .iter()
            .any(|it| it.name() == SIMPLEMUX.name);
        for (name, why) in not_run(simplemux) {
            document.not_run(name, why);
        }
    }
    let mut results = Results::default();
    show(&document, args, format, &mut results);
    results.take(verdict(args, &document, &unsafe_devices));
    results.end()
}

/// Checks that the outputs are writable and replace no input, before all cases run in vain.
fn check_outputs(args: &ConformArgs) -> Result<(), BadInput> {
    outputs::check(args.html.as_deref(), args.setup.as_deref())?;
    let Some(directory) = &args.pcap else {
        return Ok(());
    };
    fs::create_dir_all(directory).map_err(|error| {
        BadInput::new(format!("{}: cannot be made: {error}", directory.display()))
            .hint("--pcap takes a directory for the captures")
    })
}

/// Returns an error if a device could not be judged, or fails what it must pass.
fn verdict(
    args: &ConformArgs,
    document: &Document,
    unsafe_devices: &[String],
) -> anyhow::Result<()> {
    if !document.broken.is_empty() {
        let broken: Vec<_> = document.broken.iter().map(|it| it.name.as_str()).collect();
        bail!(
            "{} could not be judged: the report has the error of each",
            broken.join(", ")
        );
    }
    if !args.all && !unsafe_devices.is_empty() {
        bail!("{} fails what it must pass", unsafe_devices.join(", "));
    }
    Ok(())
}

/// A device named in the arguments.
enum RequestedDevice {
    BuiltIn(BuiltIn),
    Given(Spec),
    Between([String; 2]),
}

/// The devices named in the arguments, without duplicates.
fn requested_devices(args: &ConformArgs) -> anyhow::Result<Vec<RequestedDevice>> {
    let given = args.qdisc.is_some() || args.setup.is_some();
    if !given && args.kernel.is_some() {
        let error = BadInput::new("--kernel is for --qdisc and --setup, and neither is there")
            .hint("leave it out: a built-in device has a kernel of its own, see --list");
        return Err(error.into());
    }
    if !given && args.live && args.between.is_none() {
        let error = BadInput::new("--live is for --qdisc and --setup, and neither is there")
            .hint("leave it out: a built-in device runs in virtual time");
        return Err(error.into());
    }
    let mut requested_devices = Vec::new();
    if args.all {
        requested_devices.extend(BUILT_IN.iter().copied().map(RequestedDevice::BuiltIn));
        if command::exists(SIMPLEMUX.name) {
            requested_devices.push(RequestedDevice::BuiltIn(SIMPLEMUX));
        }
    }
    for (index, name) in args.device.iter().enumerate() {
        let device = by_name(name)?;
        if !args.device[..index].contains(name) {
            requested_devices.push(RequestedDevice::BuiltIn(device));
        }
    }
    if let Some(qdisc) = &args.qdisc {
        requested_devices.push(RequestedDevice::Given(Spec {
            name: qdisc.clone(),
            setup: Setup::Qdisc(qdisc.clone()),
        }));
    }
    if let Some(path) = &args.setup {
        let script = fs::read_to_string(path)
            .map_err(|error| BadInput::new(format!("{}: {error}", path.display())))?;
        requested_devices.push(RequestedDevice::Given(Spec {
            name: path.display().to_string(),
            setup: Setup::Script(script),
        }));
    }
    if let Some([receiver, sender]) = args.between.as_deref() {
        requested_devices.push(RequestedDevice::Between([receiver.clone(), sender.clone()]));
    }
    Ok(requested_devices)
}

impl RequestedDevice {
    fn name(&self) -> String {
        match self {
            RequestedDevice::BuiltIn(device) => device.name.to_owned(),
            RequestedDevice::Given(spec) => spec.name.clone(),
            RequestedDevice::Between(interfaces) => Between {
                interfaces: interfaces.clone(),
            }
            .name(),
        }
    }

    fn judge(&self, args: &ConformArgs, schedule: &Schedule) -> Result<DeviceReport, Error> {
        match self {
            RequestedDevice::BuiltIn(device) => {
                match device.place(schedule, args.pcap.as_deref())? {
                    Place::Process(report) => Ok(*report),
                    Place::Kernel(spec, kernel) => virtually(&spec, Some(&kernel), args),
                }
            }
            RequestedDevice::Given(spec) if args.live => {
                here(&mut Router::new(spec, false), args, schedule)
            }
            RequestedDevice::Given(spec) => virtually(spec, args.kernel.as_ref(), args),
            RequestedDevice::Between(interfaces) => {
                let interfaces = interfaces.clone();
                here(&mut Between { interfaces }, args, schedule)
            }
        }
    }
}

/// Runs the cases on a kernel in virtual time.
fn virtually(
    spec: &Spec,
    kernel: Option<&KernelChoice>,
    args: &ConformArgs,
) -> Result<DeviceReport, Error> {
    in_virtual_time(spec, &args.cases, kernel, None, args.pcap.as_deref())
}

/// Runs the cases in this host's real time.
fn here(
    device: &mut dyn Device,
    args: &ConformArgs,
    schedule: &Schedule,
) -> Result<DeviceReport, Error> {
    let captures = args.pcap.as_deref();
    let captures = captures.map(|it| captures_of(it, &device.name()));
    run(device, schedule, captures.as_deref())
}

fn show(document: &Document, args: &ConformArgs, format: Format, results: &mut Results) {
    results.take(match format {
        Format::Json => text::print_json(document),
        Format::Text => {
            let right = [false, false, true, true, true, true, true];
            let table = text::columns(&document.rows(), &right);
            text::print(&format!("{table}{}", document.details()))
        }
    });
    if let Some(path) = &args.html {
        let page = Page {
            title: "ACK conformance",
            lead: "<p class=\"about\">What each device lost, delayed or changed of what RFCs call news.</p>",
            main: &document.html(escape),
            version: env!("CARGO_PKG_VERSION"),
            ..Page::default()
        };
        results.write(path, page.html());
    }
}

/// Every device that has a name.
fn known() -> impl Iterator<Item = BuiltIn> {
    BUILT_IN.iter().copied().chain([SIMPLEMUX])
}

fn list(format: Format) -> anyhow::Result<()> {
    if format == Format::Json {
        let devices: Vec<&str> = known().map(|it| it.name).collect();
        let cases: Vec<&str> = cases().iter().map(|it| it.name).collect();
        return text::print_json(&serde_json::json!({ "devices": devices, "cases": cases }));
    }
    let devices = known();
    let devices = devices.map(|it| vec![it.name.to_owned(), it.about.to_owned()]);
    let cases = cases().into_iter().map(|it| {
        let level = match it.level {
            Level::Must => "must",
            Level::Should => "should",
        };
        [it.name, level, it.rfc, it.what]
            .map(str::to_owned)
            .to_vec()
    });
    let devices = text::columns(&devices.collect::<Vec<_>>(), &[]);
    let cases = text::columns(&cases.collect::<Vec<_>>(), &[]);
    text::print(&format!("{devices}\n{cases}"))
}
