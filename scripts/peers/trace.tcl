# What a sender of ns-2 sends, and when: the golden traces of crates/lab/ackwise-sim/tests/ns2/.
#
#   ns scripts/peers/trace.tcl tahoe|reno|newreno|asym ACK_KBIT/S MODULUS {LOST...} >NAME.txt
#
# One flow over 10 Mbit/s and 20 ms each way, for 8 s. Of the packets that enter a direction,
# numbered n from 0, those are lost whose n % MODULUS is in LOST (data), or whose n % 5 is 1 or 3 (ACKs,
# from 5 on). Prints the microseconds since the start and the packet's number (0 is the SYN).
foreach {variant kbps modulus lost} $argv break
set seconds 8
# The clock that times round trips has a random phase; it ticks when the flow starts here.
set start 0.00444126

set agents(tahoe) {TCP TCPSink}
set agents(reno) {TCP/Reno TCPSink}
set agents(newreno) {TCP/Newreno TCPSink}
set agents(asym) {TCP/Newreno/Asym TCPSink/Asym}

set ns [new Simulator]
set a [$ns node]
set b [$ns node]
$ns simplex-link $a $b 10Mb 20.0137ms DropTail
$ns simplex-link $b $a [expr $kbps]kb 20.0137ms DropTail
$ns queue-limit $a $b 10000
$ns queue-limit $b $a 10000

proc lose {from to first modulus rests} {
	global ns
	for {set n $first} {$n < 100000} {incr n} {
		if {[lsearch $rests [expr $n % $modulus]] >= 0} { lappend list $n }
	}
	set model [new ErrorModel/List]
	$model droplist $list
	$ns lossmodel $model $from $to
}
lose $a $b 0 $modulus $lost
lose $b $a 5 5 {1 3}

set tcp [new Agent/[lindex $agents($variant) 0]]
set sink [new Agent/[lindex $agents($variant) 1]]
$tcp set packetSize_ 550
$tcp set window_ 1000
if {$variant == "asym"} { $tcp set maxburst_ 4 }
$ns attach-agent $a $tcp
$ns attach-agent $b $sink
$ns connect $tcp $sink
set ftp [new Application/FTP]
$ftp attach-agent $tcp
$ns at $start "$ftp start"

set file "/tmp/ackwise-trace-[pid]"
set out [open $file w]
$ns trace-queue $a $b $out
$ns at [expr $start + $seconds] {
	close $out
	set in [open $file]
	while {[gets $in line] >= 0} {
		if {[lindex $line 0] == "+"} {
			puts "[expr round(([lindex $line 1] - $start) * 1e6)] [lindex $line 10]"
		}
	}
	file delete $file
	exit 0
}
$ns run
