// Marhoon's network on ns-3: 20 uploads over 10 Mbit/s whose ACKs return over 300 kbit/s, its
// baseline; settings as in scenarios/papers/marhoon/marhoon.toml. ns-3 filters no ACKs.
//
//   marhoon SEED
//
// Prints what marhoon.tcl does, but no timeouts, which ns-3 does not count.
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "common.h"

using namespace ns3;

static const double SECONDS = 50;
static const uint32_t SEGMENT = 550;

/// RED before the device of the ACKs, with ns-2's settings.
static Ptr<QueueDisc> red(Ptr<NetDevice> device)
{
	peers::queue(device)->SetMaxSize(QueueSize("1p"));
	TrafficControlHelper helper;
	helper.SetRootQueueDisc("ns3::RedQueueDisc", "MaxSize", StringValue("25000B"), "MinTh",
				DoubleValue(2500), "MaxTh", DoubleValue(7500), "QW",
				DoubleValue(-1), "MeanPktSize", UintegerValue(500), "LinkBandwidth",
				StringValue("300kbps"), "LinkDelay", StringValue("30ms"));
	return helper.Install(device).Get(0);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return std::fprintf(stderr, "usage: marhoon SEED\n"), 2;
	RngSeedManager::SetRun(std::strtoul(argv[1], nullptr, 10));
	peers::tcp(SEGMENT, 1000);
	NodeContainer routers, sources;
	routers.Create(3);
	sources.Create(20);
	InternetStackHelper internet;
	internet.Install(routers);
	internet.Install(sources);
	auto r0 = routers.Get(0), r1 = routers.Get(1), server = routers.Get(2);
	peers::link(server, r1, "100Mbps", MilliSeconds(1), "10000p");
	auto shared = peers::link(r0, r1, "10Mbps", MilliSeconds(30), "50p");
	DynamicCast<PointToPointNetDevice>(shared.Get(1))->SetDataRate(DataRate("300kbps"));
	peers::watch(r0);
	auto acks = red(shared.Get(1));
	auto random = CreateObject<UniformRandomVariable>();
	std::vector<std::unique_ptr<peers::Flow>> flows;
	for (uint32_t i = 0; i < sources.GetN(); i++) {
		peers::link(sources.Get(i), r0, "100Mbps", MicroSeconds(1000 + 200 * i), "10000p");
		flows.push_back(std::make_unique<peers::Flow>(sources.Get(i), server, 5001 + i,
							      random->GetValue(0, 5)));
	}
	Ipv4GlobalRoutingHelper::PopulateRoutingTables();
	Simulator::Stop(Seconds(SECONDS));
	Simulator::Run();
	std::sort(flows.begin(), flows.end(),
		  [](const auto &x, const auto &y) { return x->start < y->start; });
	double all = 0, five = 0, windows = 0;
	for (size_t i = 0; i < flows.size(); i++) {
		double wire = flows[i]->mbps(SECONDS) * (SEGMENT + 40) / SEGMENT;
		all += wire;
		five += i < 5 ? wire / 5 : 0;
		windows += flows[i]->window / double(SEGMENT) / flows.size();
	}
	std::printf("%.3f %.3f %lu %u - %.1f\n", all, five,
		    static_cast<unsigned long>(peers::dropped),
		    acks->GetStats().nTotalDroppedPackets, windows);
	Simulator::Destroy();
}
