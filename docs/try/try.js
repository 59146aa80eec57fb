// The page on which a capture is dropped. ACKWISE_WASM is the program in base64; `make try` puts it
// and this script into the page.
"use strict";

const program = WebAssembly.instantiate(
	Uint8Array.from(atob(ACKWISE_WASM), (character) => character.charCodeAt(0)),
	{},
);

// Runs the analysis on the bytes of a capture. Rates in Mbit/s, 0 for unknown.
async function analyze(capture, up, down) {
	const {
		instance: { exports: own },
	} = await program;
	// Addresses come as signed numbers.
	const at = own.ackwise_alloc(capture.length) >>> 0;
	new Uint8Array(own.memory.buffer).set(capture, at);
	const answer = own.ackwise_analyze(at, capture.length, up * 1e6, down * 1e6) >>> 0;
	own.ackwise_free(at, capture.length);
	// The memory may have grown: only now may it be looked at again.
	const length = new DataView(own.memory.buffer).getUint32(answer, true);
	const text = new TextDecoder().decode(new Uint8Array(own.memory.buffer, answer + 4, length));
	own.ackwise_free(answer, length + 4);
	return JSON.parse(text);
}

function element(name, text, parent) {
	const made = document.createElement(name);
	if (text !== undefined) {
		made.textContent = text;
	}
	parent?.append(made);
	return made;
}

function table(parent, head, rows) {
	const wide = element("div", undefined, parent);
	wide.className = "wide";
	const made = element("table", undefined, wide);
	const line = element("tr", undefined, made);
	// The reasons of a policy are text; all else but the first column are numbers.
	const cell = (kind, text, column, line) => {
		if (head[column] === "reasons") {
			element(kind, text, line).className = "left";
		} else {
			element(kind, text, line);
		}
	};
	head.forEach((text, column) => cell("th", text, column, line));
	for (const row of rows) {
		const line = element("tr", undefined, made);
		row.forEach((text, column) => cell("td", text, column, line));
	}
}

const percent = (share) => `${(share * 100).toFixed(1)} %`;
const count = (n) => n.toLocaleString("en");

function show(name, found) {
	const result = document.getElementById("result");
	result.replaceChildren();
	if (found.error !== undefined) {
		element("div", `${name}: ${found.error}`, result).className = "error";
		return;
	}
	element("h2", name, result);
	const advice = element("div", undefined, result);
	advice.className = "advice";
	for (const sentence of found.advice.text) {
		element("div", sentence, advice);
	}
	if (found.cut_at !== null) {
		element("p", `The capture is cut off after byte ${found.cut_at}; the part before is analysed here.`, result);
	}
	element("h2", "What the ACKs cost", result);
	table(
		result,
		["", "pure ACKs", "of all"],
		[
			["packets", count(found.tcp.acks), percent(found.tcp.ack_share_of_packets)],
			["bytes", count(found.tcp.ack_bytes), percent(found.tcp.ack_share_of_bytes)],
		],
	);
	element("h2", "What a policy would have saved", result);
	table(
		result,
		["policy", "judged", "saved", "share", "bytes", "reasons"],
		found.policies.map((one) => [
			one.policy,
			count(one.pure_acks),
			count(one.saved),
			percent(one.saved_share),
			count(one.saved_bytes),
			one.reasons.map((reason) => `${reason.reason} ${count(reason.acks)}`).join(", "),
		]),
	);
	element("h2", "Segments per ACK", result);
	table(
		result,
		["segments", "ACKs"],
		found.stretch.map((one) => [
			one.to === null ? `${one.from} and more` : one.to === one.from ? `${one.to}` : `${one.from} to ${one.to}`,
			count(one.acks),
		]),
	);
	const all = element("a", "All of it, as JSON", element("p", undefined, result));
	all.href = URL.createObjectURL(new Blob([JSON.stringify(found, undefined, 2)], { type: "application/json" }));
	all.download = `${name}.json`;
}

async function take(file) {
	const result = document.getElementById("result");
	result.textContent = `reading ${file.name}`;
	const rate = (id) => Number(document.getElementById(id).value) || 0;
	try {
		show(file.name, await analyze(new Uint8Array(await file.arrayBuffer()), rate("up"), rate("down")));
	} catch (error) {
		// A capture that is larger than a page may be.
		show(file.name, { error: `${error.message}; \`ackwise analyze\` reads captures of any size` });
	}
	document.body.dataset.done = file.name;
}

const drop = document.getElementById("drop");
for (const name of ["dragenter", "dragover"]) {
	drop.addEventListener(name, (event) => {
		event.preventDefault();
		drop.classList.add("over");
	});
}
drop.addEventListener("dragleave", () => drop.classList.remove("over"));
drop.addEventListener("drop", (event) => {
	event.preventDefault();
	drop.classList.remove("over");
	if (event.dataTransfer.files.length > 0) {
		take(event.dataTransfer.files[0]);
	}
});
document.getElementById("file").addEventListener("change", (event) => {
	if (event.target.files.length > 0) {
		take(event.target.files[0]);
	}
});
