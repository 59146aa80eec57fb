# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# policy/vectors/<policy>.vec -> C initialisers for tcp_ack_policy_test.c. The
# format is described in policy/vectors/README.md. What is not understood ends
# the build.

function fail(what) {
	printf "%s:%d: %s\n", FILENAME, FNR, what > "/dev/stderr"
	failed = 1
	exit 1
}

function number(text) {
	if (text !~ /^[0-9]+$/)
		fail("\"" text "\" is not a number")
	return text
}

# From "name=value": the value. Sets `name`.
function pair(word) {
	if (split(word, part, "=") != 2)
		fail("\"" word "\" is not name=value")
	name = part[1]
	return number(part[2])
}

function end_trace() {
	if (trace == "")
		return
	if (!expects)
		fail("trace \"" trace "\" expects nothing")
	traces = traces sprintf("\t{ \"%s\", \"%s\", \"%s\", %d, %d },\n", \
		policy, trace, spec, first, steps - first)
}

function begin_trace() {
	end_trace()
	trace = substr($0, index($0, "trace") + 6)
	spec = policy
	first = steps
	expects = 0
	known = "mss rcv_wnd srtt_us min_rtt_us hold_us"
	split(known, names, " ")
	for (i in names)
		fact[names[i]] = 0
}

function read_facts(    i) {
	for (i in fact)
		fact[i] = 0
	for (i = 2; i <= NF; i++) {
		value = pair($i)
		if (!(name in fact))
			fail("no fact \"" name "\"")
		fact[name] = value
	}
}

# enum aw_event_flag; the compiler knows which there are.
function flag(word) {
	if (word !~ /^[a-z-]+$/)
		fail("\"" word "\" is neither a flag nor name=value")
	gsub(/-/, "_", word)
	return (kind == "AW_EV_DATA" ? "AW_D_" : "AW_A_") toupper(word)
}

# Kind, flags and fields up to the arrow, from word i on.
function read_event(i,    bytes, flags) {
	if (!($i in kinds))
		fail("no event \"" $i "\"")
	kind = kinds[$i]
	field["segments"] = 1
	field["len"] = $i == "data" ? 0 : 52
	field["hops"] = field["peer_wnd"] = 0
	bytes = ""
	flags = "0"
	for (i++; i <= NF && $i != "->"; i++) {
		if ($i !~ /=/) {
			flags = flags " | " flag($i)
			continue
		}
		value = pair($i)
		if (name == "bytes")
			bytes = value
		else if (name in field)
			field[name] = value
		else
			fail("no field \"" name "\"")
	}
	if (bytes == "")
		bytes = field["segments"] * fact["mss"]
	if (bytes > 4294967295)
		bytes = 4294967295
	event = sprintf("%s, %s, %.0fU, %sU, %sU, %sU, %sU", kind, flags, bytes, \
		field["segments"], field["len"], field["hops"], field["peer_wnd"])
	return i
}

function read_verdict(i) {
	if (i > NF)
		return "VEC_ANY, 0"
	expects = 1
	if ($(i + 1) == "send" && NF == i + 1)
		return "AW_SEND, 0"
	if ($(i + 1) == "drop" && NF == i + 1)
		return "AW_DROP, 0"
	if ($(i + 1) == "hold" && NF == i + 1)
		return "AW_HOLD, " fact["hold_us"] "U"
	if ($(i + 1) == "hold" && NF == i + 2)
		return "AW_HOLD, " number($(i + 2)) "U"
	fail("a verdict is -> send, hold [us] or drop")
}

function read_step(    at, times, i, verdict) {
	at = substr($1, 1, 1)
	times = 1
	i = 2
	if (at != "@" && at != "+")
		fail("\"" $1 "\" is not policy, trace, param, facts, @time or +time")
	if ($i ~ /^x/)
		times = number(substr($(i++), 2))
	i = read_event(i)
	verdict = read_verdict(i)
	table = table sprintf("\t{ %d, %d, %s, %sULL, %s, %sU, %sU, %sU, %sU, %sU, %s },\n", \
		FNR, at == "@", times, number(substr($1, 2)), event, fact["mss"], \
		fact["rcv_wnd"], fact["srtt_us"], fact["min_rtt_us"], fact["hold_us"], verdict)
	steps++
}

BEGIN {
	kinds["data"] = "AW_EV_DATA"
	kinds["ack"] = "AW_EV_ACK"
	kinds["deadline"] = "AW_EV_DEADLINE"
	print "/* Made from the vectors by vectors.awk. */"
}

FNR == 1 {
	end_trace()
	trace = policy = ""
}

{
	sub(/#.*/, "")
	sub(/[ \t]+$/, "")
}

NF == 0 { next }
$1 == "policy" { policy = $2; next }
policy == "" { fail("the file must begin with: policy <name>") }
$1 == "trace" { begin_trace(); next }
trace == "" { fail("before the first trace") }
$1 == "param" {
	if (steps != first)
		fail("parameters come before the events of a trace")
	spec = spec (spec == policy ? ":" : ",") $2 "=" number($3)
	next
}
$1 == "facts" { read_facts(); next }
{ read_step() }

END {
	if (failed)
		exit 1
	end_trace()
	printf "static const struct vec_step vec_steps[] = {\n%s};\n\n", table
	printf "static const struct vec_trace vec_traces[] = {\n%s};\n", traces
}
