// What several of the programs for ns-3 share: links without a queue discipline above the device, bulk
// flows, and what is counted.
#ifndef ACKWISE_PEERS_COMMON_H
#define ACKWISE_PEERS_COMMON_H

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

namespace peers
{

/// Packets that a queue had no room for.
inline uint64_t dropped = 0;

/// TCP as in the scenarios, but with SACK: without it ns-3.37 is in recovery most of the time.
inline void tcp(uint32_t segment, uint32_t window)
{
	using namespace ns3;
	Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpNewReno::GetTypeId()));
	Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
	Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
	Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
	Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(segment));
	Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(2));
	Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
	Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(segment * window));
	Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(segment * window));
}

/// A link; its addresses are those of the next network.
inline ns3::NetDeviceContainer link(ns3::Ptr<ns3::Node> a, ns3::Ptr<ns3::Node> b,
				    const std::string &rate, ns3::Time delay,
				    const std::string &queue)
{
	using namespace ns3;
	static Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
	PointToPointHelper helper;
	helper.SetDeviceAttribute("DataRate", StringValue(rate));
	helper.SetChannelAttribute("Delay", TimeValue(delay));
	helper.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue(queue));
	NetDeviceContainer devices = helper.Install(a, b);
	addresses.Assign(devices);
	addresses.NewNetwork();
	TrafficControlHelper().Uninstall(devices);
	return devices;
}

inline ns3::Ptr<ns3::Queue<ns3::Packet>> queue(ns3::Ptr<ns3::NetDevice> device)
{
	return ns3::DynamicCast<ns3::PointToPointNetDevice>(device)->GetQueue();
}

/// Counts what a node drops because a device's queue is full: the layer above knows, not the queue.
inline void watch(ns3::Ptr<ns3::Node> node)
{
	auto count = +[](ns3::Ptr<const ns3::Packet>) { dropped++; };
	node->GetObject<ns3::TrafficControlLayer>()->TraceConnectWithoutContext(
		"TcDrop", ns3::MakeCallback(count));
}

/// Bulk data from one node to another.
struct Flow {
	double start;
	ns3::Ptr<ns3::PacketSink> sink;
	ns3::Ptr<ns3::BulkSendApplication> source;
	uint32_t window = 0;

	Flow(ns3::Ptr<ns3::Node> from, ns3::Ptr<ns3::Node> to, uint16_t port, double at) : start(at)
	{
		using namespace ns3;
		auto ip = to->GetObject<Ipv4>();
		InetSocketAddress address(ip->GetAddress(1, 0).GetLocal(), port);
		PacketSinkHelper receive("ns3::TcpSocketFactory", address);
		sink = DynamicCast<PacketSink>(receive.Install(to).Get(0));
		BulkSendHelper send("ns3::TcpSocketFactory", address);
		send.SetAttribute("MaxBytes", UintegerValue(0));
		ApplicationContainer sender = send.Install(from);
		sender.Start(Seconds(at));
		source = DynamicCast<BulkSendApplication>(sender.Get(0));
		// The socket is there once the application has started.
		Simulator::Schedule(Seconds(at) + NanoSeconds(1), &Flow::attach, this);
	}
	Flow(const Flow &) = delete;

	void attach()
	{
		auto socket = source->GetSocket();
		socket->TraceConnectWithoutContext("CongestionWindow",
						   ns3::MakeCallback(&Flow::changed, this));
	}

	void changed(uint32_t, uint32_t now)
	{
		window = now;
	}

	double mbps(double seconds) const
	{
		return sink->GetTotalRx() * 8 / seconds / 1e6;
	}
};

} // namespace peers

#endif
