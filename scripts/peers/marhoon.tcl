# Marhoon's network on ns-2: 20 NewReno uploads over 10 Mbit/s whose ACKs return over 300 kbit/s,
# with settings as in scenarios/papers/marhoon/marhoon.toml.
#
#   ns scripts/peers/marhoon.tcl baseline|asym-af SEED
#
# Prints: Mbit/s of all flows, the mean of the five that start first, packets dropped on the data
# link, ACKs that its way back took out, timeouts, and the mean window at the end, segments.
foreach {arm seed} $argv break
set asym [expr {$arm == "asym-af"}]
set payload [expr {$asym ? 560 : 550}]
set seconds 50

set ns [new Simulator]
set rng [new RNG]
$rng seed $seed
foreach node {r0 r1 server} { set $node [$ns node] }

$ns simplex-link $r0 $r1 10Mb 30ms DropTail
$ns queue-limit $r0 $r1 50
$ns simplex-link $r1 $r0 300Kb 30ms [expr {$asym ? "RED/Semantic" : "RED"}]
if {$asym} {
	set filter [new PacketQueue/Semantic]
	$filter set filteracks_ true
	[[$ns link $r1 $r0] queue] packetqueue-attach $filter
}
proc wide {a b delay} {
	global ns
	$ns duplex-link $a $b 100Mb $delay DropTail
	$ns queue-limit $a $b 10000
	$ns queue-limit $b $a 10000
}
wide $r1 $server 1ms

for {set i 0} {$i < 20} {incr i} {
	set source($i) [$ns node]
	wide $source($i) $r0 [expr 1 + 0.2 * $i]ms
	if {$asym} {
		set tcp($i) [new Agent/TCP/Newreno/Asym]
		set sink($i) [new Agent/TCPSink/Asym]
		$tcp($i) set maxburst_ 4
	} else {
		set tcp($i) [new Agent/TCP/Newreno]
		set sink($i) [new Agent/TCPSink]
	}
	$tcp($i) set packetSize_ $payload
	$tcp($i) set window_ 1000
	$ns attach-agent $source($i) $tcp($i)
	$ns attach-agent $server $sink($i)
	$ns connect $tcp($i) $sink($i)
	set ftp($i) [new Application/FTP]
	$ftp($i) attach-agent $tcp($i)
	set start($i) [$rng uniform 0 5]
	$ns at $start($i) "$ftp($i) start"
}
set data [$ns monitor-queue $r0 $r1 ""]
set acks [$ns monitor-queue $r1 $r0 ""]

$ns at $seconds {
	set all 0
	set timeouts 0
	set windows 0
	set flows {}
	for {set i 0} {$i < 20} {incr i} {
		# Asym sinks count no bytes: what is acknowledged, then.
		set sent [expr [$tcp($i) set ack_] * ($payload + 40)]
		incr all $sent
		incr timeouts [$tcp($i) set nrexmit_]
		set windows [expr $windows + [$tcp($i) set cwnd_]]
		lappend flows [list $start($i) $sent]
	}
	set first 0
	foreach flow [lrange [lsort -real -index 0 $flows] 0 4] { incr first [lindex $flow 1] }
	# What the filter frees is neither dropped nor does it leave.
	set removed [expr $asym ? [$acks set parrivals_] - [$acks set pdepartures_] : [$acks set pdrops_]]
	puts "[expr $all * 8 / $seconds / 1e6] [expr $first / 5 * 8 / $seconds / 1e6]\
		[$data set pdrops_] $removed $timeouts [expr $windows / 20]"
	exit 0
}
$ns run
