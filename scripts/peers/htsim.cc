// Bulk flows over one bottleneck on htsim, as scripts/bench-sim has them for ackwise: a fast line,
// the bottleneck, a fast line, and the same lines back for the ACKs.
//
//   htsim LINES FLOWS BOTTLENECK_MBIT QUEUE_PACKETS SECONDS
//
// LINES is 3, or 1 for the bottleneck alone.
//
// Prints Mbit/s of payload (1460 of 1500 bytes), packets that the bottleneck dropped, and packets
// handed over from line to line or to an end.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <vector>

#include "eventlist.h"
#include "network.h"
#include "pipe.h"
#include "queue.h"
#include "tcp.h"

namespace
{

/// A queue with its rate, and the delay after it.
struct Line {
	Queue queue;
	Pipe pipe;

	Line(EventList &events, int mbps, int packets, int delay_ms)
	    : queue(speedFromMbps(static_cast<uint64_t>(mbps)), memFromPkt(packets), events, nullptr),
	      pipe(timeFromMs(delay_ms), events)
	{
	}

	void join(Route &route)
	{
		route.push_back(&queue);
		route.push_back(&pipe);
	}
};

} // namespace

int main(int argc, char **argv)
{
	if (argc != 6)
		return std::fprintf(stderr, "usage: htsim LINES FLOWS BOTTLENECK_MBIT QUEUE_PACKETS SECONDS\n"), 2;
	const bool alone = std::atoi(argv[1]) == 1;
	const int flows = std::atoi(argv[2]), mbps = std::atoi(argv[3]), packets = std::atoi(argv[4]);
	const double seconds = std::atof(argv[5]);
	// It tells of every timeout, which is no part of the work.
	std::cout.setstate(std::ios::failbit);
	Packet::set_packet_size(1500);
	EventList &events = EventList::getTheEventList();
	events.setEndtime(timeFromSec(seconds));
	srand(1);

	const int ample = 10 * packets;
	Line in(events, 10 * mbps, ample, 10), narrow(events, mbps, packets, 20),
		out(events, 10 * mbps, ample, 10);
	Line back_in(events, 10 * mbps, ample, 10), back(events, mbps, packets, 20),
		back_out(events, 10 * mbps, ample, 10);
	TcpRtxTimerScanner timers(timeFromMs(10), events);
	std::vector<std::unique_ptr<TcpSrc>> sources;
	std::vector<std::unique_ptr<TcpSink>> sinks;
	std::vector<std::unique_ptr<Route>> routes;
	for (int flow = 0; flow < flows; flow++) {
		sources.push_back(std::make_unique<TcpSrc>(nullptr, nullptr, events));
		sinks.push_back(std::make_unique<TcpSink>());
		TcpSrc &source = *sources.back();
		TcpSink &sink = *sinks.back();
		source.set_cwnd(2 * 1500);
		source.set_ssthresh(0x7fffffff);
		timers.registerTcp(source);
		auto there = std::make_unique<Route>(), back_route = std::make_unique<Route>();
		for (Line *line : {&in, &narrow, &out})
			if (!alone || line == &narrow)
				line->join(*there);
		for (Line *line : {&back_in, &back, &back_out})
			if (!alone || line == &back)
				line->join(*back_route);
		there->push_back(&sink);
		back_route->push_back(&source);
		source.connect(*there, *back_route, sink, static_cast<simtime_picosec>(drand() * timeFromSec(1.0)));
		routes.push_back(std::move(there));
		routes.push_back(std::move(back_route));
	}
	while (events.doNextEvent()) {
	}
	double bytes = 0;
	uint64_t sent = 0, received = 0;
	for (int flow = 0; flow < flows; flow++) {
		bytes += static_cast<double>(sinks[flow]->_cumulative_ack) / 1500 * 1460;
		sent += sources[flow]->_packets_sent / 1500;
		received += sinks[flow]->_packets / 1500;
	}
	std::printf("%.3f %d %.0f\n", bytes * 8 / seconds / 1e6, narrow.queue.num_drops(),
		    static_cast<double>(sent + (alone ? 1 : 5) * received));
}
