// Two flows through 10 Mbit/s on ns-3, as scripts/bench-sim has them for ackwise.
//
//   dumbbell SECONDS
//
// Prints what dumbbell.tcl does, but no timeouts, which ns-3 does not count.
#include <cstdlib>

#include "common.h"

using namespace ns3;

int main(int argc, char **argv)
{
	if (argc != 2)
		return std::fprintf(stderr, "usage: dumbbell SECONDS\n"), 2;
	const double seconds = std::atof(argv[1]);
	peers::tcp(1460, 10000);
	NodeContainer nodes;
	nodes.Create(6);
	InternetStackHelper().Install(nodes);
	auto a = nodes.Get(0), b = nodes.Get(1), a2 = nodes.Get(2), b2 = nodes.Get(3);
	auto n = nodes.Get(4), m = nodes.Get(5);
	peers::link(a, n, "100Mbps", MilliSeconds(10), "50p");
	peers::link(b, n, "100Mbps", MilliSeconds(10), "50p");
	peers::link(n, m, "10Mbps", MilliSeconds(20), "50p");
	peers::link(m, a2, "100Mbps", MilliSeconds(10), "50p");
	peers::link(m, b2, "100Mbps", MilliSeconds(10), "50p");
	Ipv4GlobalRoutingHelper::PopulateRoutingTables();
	peers::watch(n);
	peers::Flow first(a, a2, 5001, 0.3), second(b, b2, 5001, 0.7);
	Simulator::Stop(Seconds(seconds));
	Simulator::Run();
	std::printf("%.3f %.3f %lu - %.1f %.1f\n", first.mbps(seconds), second.mbps(seconds),
		    static_cast<unsigned long>(peers::dropped), first.window / 1460.0,
		    second.window / 1460.0);
	Simulator::Destroy();
}
