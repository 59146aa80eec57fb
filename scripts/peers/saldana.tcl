# Saldana's experiments on ns-2, with settings as in scenarios/papers/saldana-2013/: one flow by
# itself (Fig. 2), or flow A beside flow B, whose ACKs a multiplexer releases at multiples of a
# period (Table I).
#
#   ns scripts/peers/saldana.tcl alone|pair tahoe|reno|newreno|sack PERIOD_MS [SECONDS [START [PHASE_MS]]]
#
# A period of 0 releases each ACK at once. START is when flow B starts, in seconds, and PHASE_MS
# when the first tick is: neither is printed by the paper, and both are 0 otherwise. Prints, over the last half of 1000 s or of SECONDS: Mbit/s
# of A and of B, packets with headers as the sinks count them, and (A - B) in per cent of the link.
foreach {what cc period} $argv break
set seconds [expr {[llength $argv] > 3 ? [lindex $argv 3] : 1000}]
set start [expr {[llength $argv] > 4 ? [lindex $argv 4] : 0}]
set phase [expr {[llength $argv] > 5 ? [lindex $argv 5] : 0}]
set agent [dict get {tahoe TCP reno TCP/Reno newreno TCP/Newreno sack TCP/Sack1} $cc]

set ns [new Simulator]
foreach node {sourceA sourceB m n q p a b} { set $node [$ns node] }
proc link {from to rate delay queue} {
	global ns
	$ns duplex-link $from $to $rate $delay DropTail
	$ns queue-limit $from $to $queue
	$ns queue-limit $to $from $queue
}
link $sourceA $m 100Mb 1ms 10000
link $sourceB $m 100Mb 1ms 10000
link $m $n 10Mb 37ms 50
# A crosses a node as well, so that both ways are equal.
link $n $q 100Mb 1ms 10000
link $q $a 100Mb 1ms 10000
link $n $p 100Mb 1ms 10000
link $p $b 100Mb 1ms 10000

# The multiplexer: until the next tick is how long the way from P takes, set anew each half
# millisecond. What would overtake is put behind what it would overtake.
if {$period > 0} {
	set held [[$ns link $p $n] link]
	$held set avoidReordering_ true
	proc tick {} {
		global ns held period phase
		set now [$ns now]
		set ms [expr {round($now * 2000) / 2.0}]
		set next [expr {(floor(($ms - $phase) / $period) + 1) * $period + $phase}]
		$held set delay_ [expr {($next - $ms + 1) / 1000.0}]
		$ns at [expr {($ms + 0.5) / 1000.0}] tick
	}
	$ns at 0 tick
}

proc flow {from to at} {
	global ns agent cc
	set tcp [new Agent/$agent]
	set sink [new Agent/[expr {$cc eq "sack" ? "TCPSink/Sack1" : "TCPSink"}]]
	$tcp set packetSize_ 1460
	$tcp set window_ 10000
	$ns attach-agent $from $tcp
	$ns attach-agent $to $sink
	$ns connect $tcp $sink
	set ftp [new Application/FTP]
	$ftp attach-agent $tcp
	$ns at $at "$ftp start"
	return $sink
}
set sinkB [flow $sourceB $b $start]
if {$what eq "pair"} { set sinkA [flow $sourceA $a 0] }

proc bytes {} {
	global what sinkA sinkB
	return [list [expr {$what eq "pair" ? [$sinkA set bytes_] : 0}] [$sinkB set bytes_]]
}
set half [expr {$seconds / 2.0}]
$ns at $half { set before [bytes] }
$ns at $seconds {
	foreach {oldA oldB} $before {newA newB} [bytes] break
	set rateA [expr {($newA - $oldA) * 8 / $half / 1e6}]
	set rateB [expr {($newB - $oldB) * 8 / $half / 1e6}]
	puts [format "%.3f %.3f %.1f" $rateA $rateB [expr {($rateA - $rateB) * 10}]]
	exit 0
}
$ns run
