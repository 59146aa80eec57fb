# Two NewReno flows through 10 Mbit/s on ns-2, as scripts/bench-sim has them for ackwise.
#
#   ns scripts/peers/dumbbell.tcl SECONDS
#
# Prints: Mbit/s of both, packets dropped at the bottleneck, timeouts, and the windows at the end.
foreach seconds $argv break

set ns [new Simulator]
foreach node {a b a2 b2 n m} { set $node [$ns node] }
proc link {from to rate delay} {
	global ns
	$ns duplex-link $from $to $rate $delay DropTail
	$ns queue-limit $from $to 50
	$ns queue-limit $to $from 50
}
link $a $n 100Mb 10ms
link $b $n 100Mb 10ms
link $n $m 10Mb 20ms
link $m $a2 100Mb 10ms
link $m $b2 100Mb 10ms

proc flow {name from to start} {
	global ns tcp sink ftp
	set tcp($name) [new Agent/TCP/Newreno]
	set sink($name) [new Agent/TCPSink]
	$tcp($name) set packetSize_ 1460
	$tcp($name) set window_ 10000
	$ns attach-agent $from $tcp($name)
	$ns attach-agent $to $sink($name)
	$ns connect $tcp($name) $sink($name)
	set ftp($name) [new Application/FTP]
	$ftp($name) attach-agent $tcp($name)
	$ns at $start "$ftp($name) start"
}
flow a $a $a2 0.3
flow b $b $b2 0.7
set bottleneck [$ns monitor-queue $n $m ""]

proc mbps {name} {
	global tcp seconds
	return [expr [$tcp($name) set ack_] * 1460.0 * 8 / $seconds / 1e6]
}
$ns at $seconds {
	puts "[mbps a] [mbps b] [$bottleneck set pdrops_]\
		[expr [$tcp(a) set nrexmit_] + [$tcp(b) set nrexmit_]] [$tcp(a) set cwnd_] [$tcp(b) set cwnd_]"
	exit 0
}
$ns run
