// TCP over a chain of IEEE 802.15.4 radios, 30 m apart, with static routes: the world of
// scenarios/papers/ayadi-2013 as far as ns-3 has it. IPv4 goes into frames as it is, without
// 6LoWPAN: the device says that whatever comes is IPv4, and neighbours are known.
//
//   lrwpan HOPS SEED D BYTES    TCP with an ACK for every D segments; seconds until BYTES are there
//   lrwpan HOPS SEED 0 BYTES    datagrams of 88 bytes as fast as the radio takes them
#include <cstdio>
#include <cstdlib>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/lr-wpan-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/propagation-module.h"
#include "ns3/spectrum-module.h"

using namespace ns3;

namespace
{

const uint16_t PORT = 5001;
const uint32_t SEGMENT = 48;
const uint32_t IP_TCP = 40;

/// Frames of 802.15.4 do not say what is in them.
class Ipv4Radio : public LrWpanNetDevice
{
      public:
	void SetReceiveCallback(ReceiveCallback upper) override
	{
		m_upper = upper;
		LrWpanNetDevice::SetReceiveCallback(MakeCallback(&Ipv4Radio::Up, this));
	}

      private:
	bool Up(Ptr<NetDevice> device, Ptr<const Packet> packet, uint16_t, const Address &from)
	{
		return m_upper(device, packet, Ipv4L3Protocol::PROT_NUMBER, from);
	}

	ReceiveCallback m_upper;
};

uint64_t wanted, arrived;
Time started, done;

void received(Ptr<const Packet> packet, const Address &)
{
	arrived += packet->GetSize();
	if (arrived >= wanted) {
		done = Simulator::Now();
		Simulator::Stop();
	}
}

/// Everybody within 100 m is heard; at 30 m a frame survives one from 60 m.
Ptr<SingleModelSpectrumChannel> air()
{
	auto channel = CreateObject<SingleModelSpectrumChannel>();
	auto loss = CreateObject<LogDistancePropagationLossModel>();
	loss->SetAttribute("Exponent", DoubleValue(2));
	loss->SetAttribute("ReferenceLoss", DoubleValue(56.58));
	channel->AddPropagationLossModel(loss);
	channel->SetPropagationDelayModel(CreateObject<ConstantSpeedPropagationDelayModel>());
	return channel;
}

NetDeviceContainer radios(const NodeContainer &nodes)
{
	NetDeviceContainer devices;
	Ptr<SingleModelSpectrumChannel> channel = air();
	for (uint32_t i = 0; i < nodes.GetN(); i++) {
		auto device = CreateObject<Ipv4Radio>();
		device->SetAddress(Mac16Address::Allocate());
		device->GetMac()->SetPanId(7);
		device->SetChannel(channel);
		nodes.Get(i)->AddDevice(device);
		device->GetPhy()->SetMobility(nodes.Get(i)->GetObject<MobilityModel>());
		devices.Add(device);
	}
	return devices;
}

void routes(const NodeContainer &nodes, const NetDeviceContainer &devices)
{
	const uint32_t last = nodes.GetN() - 1;
	auto address = [](uint32_t node) { return Ipv4Address(0x0a000001 + node); };
	for (uint32_t i = 0; i <= last; i++) {
		auto ip = nodes.Get(i)->GetObject<Ipv4>();
		uint32_t interface = ip->AddInterface(devices.Get(i));
		ip->AddAddress(interface, Ipv4InterfaceAddress(address(i), "255.255.255.255"));
		ip->SetUp(interface);
		auto table =
			Ipv4RoutingHelper::GetRouting<Ipv4StaticRouting>(ip->GetRoutingProtocol());
		for (uint32_t to = 0; to <= last; to++) {
			if (to != i)
				table->AddHostRouteTo(address(to), address(to > i ? i + 1 : i - 1),
						      interface);
		}
		auto cache =
			ip->GetObject<Ipv4L3Protocol>()->GetInterface(interface)->GetArpCache();
		for (uint32_t to : { i - 1, i + 1 }) {
			if (to <= last) {
				auto entry = cache->Add(address(to));
				entry->SetMacAddress(devices.Get(to)->GetAddress());
				entry->MarkPermanent();
			}
		}
	}
}

void tcp(uint32_t every)
{
	Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpNewReno::GetTypeId()));
	Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
	Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
	Config::SetDefault("ns3::TcpSocketBase::WindowScaling", BooleanValue(false));
	Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Seconds(1)));
	Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT));
	Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(1));
	Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(every));
	Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(200)));
	Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(14 * SEGMENT));
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 5) {
		std::fprintf(stderr, "usage: lrwpan HOPS SEED D BYTES\n");
		return 2;
	}
	const uint32_t hops = std::atoi(argv[1]), every = std::atoi(argv[3]);
	wanted = std::atoll(argv[4]);
	RngSeedManager::SetSeed(1);
	RngSeedManager::SetRun(std::atoi(argv[2]));
	if (every)
		tcp(every);

	NodeContainer nodes(hops + 1);
	MobilityHelper mobility;
	mobility.SetPositionAllocator("ns3::GridPositionAllocator", "DeltaX", DoubleValue(30),
				      "GridWidth", UintegerValue(hops + 1));
	mobility.Install(nodes);
	NetDeviceContainer devices = radios(nodes);
	InternetStackHelper stack;
	stack.SetIpv6StackInstall(false);
	stack.Install(nodes);
	routes(nodes, devices);

	const Ipv4Address to(0x0a000001 + hops);
	const std::string kind = every ? "ns3::TcpSocketFactory" : "ns3::UdpSocketFactory";
	PacketSinkHelper sink(kind, InetSocketAddress(to, PORT));
	auto app = sink.Install(nodes.Get(hops)).Get(0);
	app->TraceConnectWithoutContext("Rx", MakeCallback(&received));
	if (every) {
		BulkSendHelper bulk(kind, InetSocketAddress(to, PORT));
		bulk.SetAttribute("MaxBytes", UintegerValue(wanted));
		bulk.SetAttribute("SendSize", UintegerValue(SEGMENT));
		bulk.Install(nodes.Get(0)).Start(Seconds(1));
	} else {
		// Faster than the radio, which keeps what it cannot send yet.
		OnOffHelper source(kind, InetSocketAddress(to, PORT));
		source.SetConstantRate(DataRate("150kbps"), SEGMENT + IP_TCP - 28);
		source.Install(nodes.Get(0)).Start(Seconds(1));
	}
	started = Seconds(1);
	Simulator::Stop(Seconds(3600));
	Simulator::Run();
	if (done.IsZero()) {
		std::fprintf(stderr, "lrwpan: %llu of %llu bytes came\n",
			     (unsigned long long)arrived, (unsigned long long)wanted);
		return 1;
	}
	std::printf("%.6f %llu\n", (done - started).GetSeconds(), (unsigned long long)arrived);
	Simulator::Destroy();
}
