/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the datapath's programs share with their loader. scripts/bindings makes the loader's
 * copy from this file.
 */
#ifndef ACKWISE_SHARED_H
#define ACKWISE_SHARED_H

#include "../policy/include/ackwise/flow.h"
#include "../policy/options/ack_rate_request.h"

/*
 * A hold has one of these lengths; any other is rounded down. Within a class, the order of
 * arrival is the order of the deadlines, so a FIFO does where a heap would otherwise be
 * needed. The classes include every D that the contract grants (aw_flow_hold_us()) between
 * 1 and 300 ms. FIFO 0 holds the ACKs that were handed out and have yet to be seen at the
 * hook.
 */
#define AW_CLASSES 36
#define AW_CLASS_TABLE 64 /* a power of two above AW_CLASSES, for a binary search */
#define AW_CLASS_UNUSED 0x7fffffffU
#define AW_RETRY_CLASS 0
#define AW_RETRY_NS 20000000ULL
#define AW_RETRIES 6 /* how often user space is handed an ACK before it is given up */

#define AW_BUSY_CPUS 32 /* words of aw_control.busy_cpus: 1,024 CPUs */

#define AW_LOCKS 1024 /* flow locks; a flow is assigned one when it is created */

/* SO_MARK of a re-emission: the magic in the high bits, the slot in the low ones. */
#define AW_COOKIE_MAGIC 0xac500000U
#define AW_COOKIE_SLOT 0x000fffffU
#define AW_SLOTS_MAX (AW_COOKIE_SLOT + 1)

enum aw_position {
	AW_AT_RECEIVER = 0, /* or at a router: ACKs leave by egress */
	AW_AT_SENDER = 1,   /* ACKs arrive by ingress */
};

/* The side of a flow that a match refers to. */
enum aw_side {
	AW_SIDE_ACKS = 0, /* the ACK sender, which is the data receiver */
	AW_SIDE_DATA = 1,
};

struct aw_match {
	struct aw_addr addr[2], mask[2]; /* by enum aw_side */
	aw_u16 port_lo[2], port_hi[2];	 /* host order; 0..65535 is any */
	aw_u8 version[2];		 /* of addr; 0: any address */
	aw_u8 used;			 /* 0: everything matches */
	aw_u8 reserved;
};

/* Constant once loaded, so the verifier removes code that is not needed. */
struct aw_options {
	struct aw_flow_cfg flow;
	struct aw_match match;
	aw_u32 class_us[AW_CLASS_TABLE]; /* ascending from 0; AW_CLASS_UNUSED from `classes` on */
	aw_u32 classes;			 /* classes in use, including FIFO 0 */
	aw_u32 slots;
	aw_u32 position; /* enum aw_position */
	aw_u32 link;	 /* enum aw_link */
	aw_u32 ifindex;
	aw_u32 ack_priority; /* the queue priority of departing pure ACKs; 0: unchanged */
	aw_u8 clsact;	     /* STOLEN is honoured; tcx knows only PASS, DROP, REDIRECT */
	aw_u8 dry_run;
	aw_u8 cwnd_hint;     /* see cwnd_hint.h */
	aw_u8 uplink;	     /* flows learn who fills the link: egress.h */
	aw_u8 obey_ack_rate; /* see obey.h */
	aw_u8 ack_request;   /* see ack_request.h */
	aw_u8 ipsec; /* frames may come from IPsec, and the kernel tells for each whether it did */
	aw_u8 reserved;
};

/* A single map entry, which user space rewrites every 100 ms. */
struct aw_control {
	aw_u64 alive_until_ns;		/* CLOCK_MONOTONIC; nothing is held after it */
	aw_u64 shared_until_ns;		/* shared_us is unknown after it */
	aw_u32 shared_us;		/* aw_flow.shared */
	aw_u32 use_ack_priority;	/* not 0: departing pure ACKs get aw_options.ack_priority */
	aw_u32 busy_cpus[AW_BUSY_CPUS]; /* one bit per CPU: aw_flow.busy of what it handles */
};

struct aw_key {
	struct aw_addr acks, data;   /* addresses of the two sides */
	aw_u16 acks_port, data_port; /* network order */
	aw_u32 vlans; /* VLAN identifiers of 12 bits, the innermost lowest; 0: none */
};

AW_ASSERT(sizeof(struct aw_key) == 40, "aw_key");

struct aw_flow_counters {
	aw_u64 acks; /* segments of the ACK direction; those not withheld passed */
	aw_u64 withheld;
	aw_u64 reemitted; /* withheld ones that left at their deadline */
	aw_u64 data_segments;
	aw_u64 data_bytes;
	aw_u64 withheld_bytes, reemitted_bytes; /* from the IP header on */
	aw_u64 first_ns, last_ns;
};

struct aw_entry {
	struct aw_key key; /* the owner of this entry: an LRU map reuses memory */
	struct aw_flow flow;
	struct aw_flow_counters count;
	aw_u64 handle; /* slot << 32 | generation of the newest hold */
	aw_u32 lock;
	/* dry run: the ACK that would be held, and its deadline */
	aw_u32 dry_ack, dry_tsval;
	aw_u16 dry_window, dry_opts;
	aw_u32 dry_len;
	aw_u32 missed;	     /* an ACK passed that was not noted */
	aw_u64 dry_until_ns; /* 0: none */
	/* cwnd_hint: when the ACK sender last sent data; 0: never */
	aw_u64 reverse_data_ns;
	struct aw_ack_rate asked; /* obey_ack_rate: written by the data side */
	/* ack_request: the end of the outstanding request, and whether there is one */
	aw_u32 request_end, requested;
};

#define AW_FRAME_L2 24
#define AW_FRAME_L3 120 /* IPv4 and TCP with all options */

/* A held ACK on its way out. */
struct aw_emit {
	aw_u64 deadline_ns;
	aw_u32 slot, generation;
	aw_u16 l2_len, l3_len;
	aw_u16 protocol; /* of the start of l3, network order */
	aw_u16 tries;
	aw_u16 vlan_proto; /* of a tag beside the frame, network order; 0: none */
	aw_u16 vlan_tci;   /* of that tag, host order */
	aw_u32 reserved;
	aw_u8 l2[AW_FRAME_L2];
	aw_u8 l3[AW_FRAME_L3];
};

/* Lateness: 16 us steps up to 1024 us, then 256 us steps, the last is "more". */
#define AW_LATE_FINE 64
#define AW_LATE_COARSE 63
#define AW_LATE_BUCKETS (AW_LATE_FINE + AW_LATE_COARSE + 1)

/* Hold times in steps of 2^19 ns, about half a millisecond; the last is "more". */
#define AW_HOLD_BUCKET_SHIFT 19
#define AW_HOLD_BUCKETS 64

/* Per CPU. The names are those that `ackwise status` prints. */
struct aw_counters {
	aw_u64 packets, bytes; /* at both hooks */
	aw_u64 not_tcp, fragments, unparsable;
	aw_u64 data_segments, data_bytes;
	aw_u64 acks, ack_bytes; /* ACK direction, of flows that are kept */
	/* ACK direction: segments of acks with payload, and frames that are not an ACK
	 * of a kept flow */
	aw_u64 payload_segments, payload_bytes, other_bytes;
	aw_u64 no_flow;	  /* ACK direction, before the first pure ACK */
	aw_u64 unmatched; /* pure ACKs that do not match */
	aw_u64 syns;
	aw_u64 withheld, withheld_bytes; /* removed at the hook */
	/* acks and withheld are sums of reasons, which user space adds up */
	aw_u64 superseded; /* runs of holds that a newer ACK ended */
	aw_u64 replaced;   /* newer held ACKs that replaced a held one */
	aw_u64 reemitted, reemitted_bytes;
	aw_u64 reemit_stale;	  /* returned after a newer one had left */
	aw_u64 cloned;		  /* duplicates sent twice */
	aw_u64 cwnd_hints;	  /* data whose window field holds the congestion window */
	aw_u64 ack_rate_requests; /* requests obeyed */
	aw_u64 ack_requests;	  /* data packets sent with the bit that asks for an ACK */
	aw_u64 acks_skipped;	  /* ACKs sent that say that they cover more than R: see obey.h */
	aw_u64 flows_created, flows_failed;
	/* fail open */
	aw_u64 open_stale_heartbeat, open_no_slot, open_queue_full, open_timer;
	aw_u64 open_too_short, open_frame;
	aw_u64 open_busy; /* not even noted: the lock was taken, or the entry was reused */
	/* the way out */
	aw_u64 ticks, ring_full, retried, lost;
	aw_u64 unlocked; /* re-emissions that left while the flow's lock was taken */
	aw_u64 reason[AW_REASON_COUNT];
	aw_u64 late_max_us;
	aw_u64 late[AW_LATE_BUCKETS];
	aw_u64 held_ns;		      /* sum over all holds */
	aw_u64 held[AW_HOLD_BUCKETS]; /* holds by duration */
};

/* A held ACK that leaves before the current packet: see release.h. */
struct aw_released {
	aw_u8 l3[AW_FRAME_L3];
	aw_u64 since_ns; /* the start of the hold */
	aw_u32 len;	 /* bytes in l3 */
	aw_u32 mark, priority;
	aw_u32 cloning;	   /* not 0: the next packet at the hook is the clone that it takes over */
	aw_u32 skipped;	   /* it covers more than R segments: see obey.h */
	aw_u32 generation; /* of its slot */
};

/* A map's value: counters, and memory that a BPF stack of 512 bytes cannot provide. */
struct aw_percpu {
	struct aw_counters counters;
	struct aw_seg seg; /* the current packet: nothing preempts the hook */
	struct aw_key key; /* of its flow */
	aw_u32 lock;	   /* the number of the flow's lock, while it is held */
	struct aw_decision decision;
	struct aw_entry fresh; /* of a flow that is about to be created */
	struct aw_released released;
	struct aw_ack_rate_search search; /* of the options of the current packet */
	aw_u64 coarse_tick;		  /* jiffies when the coarse clock was read */
	aw_u64 coarse_ns, coarse_us;	  /* the time that was read */
	aw_u64 left_rest_bytes;		  /* the rest of what left, as uplink.h counts */
	aw_u64 left_others_bytes;	  /* others */
};

#endif
