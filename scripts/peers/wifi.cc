// Two stations of 802.11n and a wired host behind one of them: what ACKs cost where they contend with
// data for the air. One stream, 20 MHz, a long guard interval, MCS 7; control frames at 24 Mbit/s.
//
//   wifi FRAMES SEED D    TCP with an ACK for every D segments, 10 s; Mbit/s and ACKs
//   wifi FRAMES SEED 0    datagrams as fast as the air takes them, 10 s; Mbit/s and 0
//   wifi FRAMES SEED -1   the same both ways; Mbit/s of either
//
// FRAMES is 64 for A-MPDUs of up to 65,535 bytes, or 1.
#include <cstdlib>

#include "common.h"
#include "ns3/mobility-module.h"
#include "ns3/wifi-module.h"

using namespace ns3;

namespace
{

const uint32_t SEGMENT = 1448, WINDOW = 250, DATAGRAM = 1472;
const double START = 1, SECONDS = 10;

uint64_t acks;

void left(Ptr<const Packet> packet, Ptr<Ipv4>, uint32_t)
{
	Ptr<Packet> copy = packet->Copy();
	Ipv4Header ip;
	TcpHeader tcp;
	copy->RemoveHeader(ip);
	copy->RemoveHeader(tcp);
	acks += copy->GetSize() == 0;
}

NetDeviceContainer air(const NodeContainer &stations, int frames)
{
	YansWifiChannelHelper channel = YansWifiChannelHelper::Default();
	YansWifiPhyHelper phy;
	phy.SetChannel(channel.Create());
	phy.Set("ChannelSettings", StringValue("{36, 20, BAND_5GHZ, 0}"));
	WifiHelper wifi;
	wifi.SetStandard(WIFI_STANDARD_80211n);
	wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager", "DataMode",
				     StringValue("HtMcs7"), "ControlMode",
				     StringValue("OfdmRate24Mbps"));
	WifiMacHelper mac;
	mac.SetType("ns3::AdhocWifiMac", "BE_MaxAmpduSize", UintegerValue(frames > 1 ? 65535 : 0));
	NetDeviceContainer devices = wifi.Install(phy, mac, stations);
	for (uint32_t i = 0; i < devices.GetN(); i++)
		DynamicCast<WifiNetDevice>(devices.Get(i))
			->GetRemoteStationManager()
			->AddBasicMode(OfdmPhy::GetOfdmRate24Mbps());
	MobilityHelper mobility;
	mobility.SetPositionAllocator("ns3::GridPositionAllocator", "DeltaX", DoubleValue(1));
	mobility.Install(stations);
	return devices;
}

/// Datagrams faster than the air is; returns what comes.
Ptr<PacketSink> datagrams(Ptr<Node> from, Ptr<Node> to, Ipv4Address address)
{
	InetSocketAddress there(address, 5001);
	auto sink = PacketSinkHelper("ns3::UdpSocketFactory", there).Install(to).Get(0);
	OnOffHelper source("ns3::UdpSocketFactory", there);
	source.SetConstantRate(DataRate("80Mbps"), DATAGRAM);
	source.Install(from).Start(Seconds(START));
	return DynamicCast<PacketSink>(sink);
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 4) {
		std::fprintf(stderr, "usage: wifi FRAMES SEED D\n");
		return 2;
	}
	const int frames = std::atoi(argv[1]), every = std::atoi(argv[3]);
	if ((frames != 1 && frames != 64) || every < -1) {
		std::fprintf(stderr, "wifi: FRAMES is 1 or 64, and D is -1 or more\n");
		return 2;
	}
	RngSeedManager::SetRun(std::atoi(argv[2]));
	peers::tcp(SEGMENT, WINDOW);
	Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(true));
	Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
	Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(every > 0 ? every : 1));
	Config::SetDefault("ns3::BulkSendApplication::SendSize", UintegerValue(SEGMENT));
	Config::SetDefault("ns3::WifiMacQueue::MaxSize", StringValue("300p"));

	NodeContainer nodes(3);
	const Ptr<Node> server = nodes.Get(0), ap = nodes.Get(1), station = nodes.Get(2);
	const NodeContainer stations(ap, station);
	InternetStackHelper().Install(nodes);
	peers::link(server, ap, "1Gbps", MilliSeconds(10), "1000p");
	NetDeviceContainer devices = air(stations, frames);
	auto addresses = Ipv4AddressHelper("10.1.0.0", "255.255.255.0").Assign(devices);
	TrafficControlHelper().Uninstall(devices);
	Ipv4GlobalRoutingHelper::PopulateRoutingTables();

	Simulator::Stop(Seconds(START + SECONDS));
	if (every > 0) {
		peers::Flow flow(server, station, 5001, START);
		station->GetObject<Ipv4L3Protocol>()->TraceConnectWithoutContext(
			"Tx", MakeCallback(&left));
		Simulator::Run();
		std::printf("%.3f %llu\n", flow.mbps(SECONDS), (unsigned long long)acks);
	} else {
		auto down = datagrams(ap, station, addresses.GetAddress(1));
		auto up = every < 0 ? datagrams(station, ap, addresses.GetAddress(0)) : nullptr;
		Simulator::Run();
		auto mbps = [](Ptr<PacketSink> sink) {
			return sink ? sink->GetTotalRx() * 8 / SECONDS / 1e6 : 0.0;
		};
		std::printf("%.3f %.3f\n", mbps(down), mbps(up));
	}
	Simulator::Destroy();
}
