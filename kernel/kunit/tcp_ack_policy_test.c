// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Tests the policies in the kernel: they replay policy/vectors, and check the syntax in
 * which a policy is named and what tcp_ack_policy.c makes of a socket's state.
 * kernel/tests/wire.c tests packets on a wire.
 */
#include <kunit/test.h>
#include <linux/in.h>
#include <linux/skbuff.h>
#include <net/sock.h>
#include <net/tcp.h>

#include "../tcp_ack_policy.h"

#define VEC_ANY -1

struct vec_step {
	int line;
	bool absolute;
	u32 times;
	u64 us;
	u32 kind, flags, bytes, segments, len, hops, peer_wnd;
	u32 mss, rcv_wnd, srtt_us, min_rtt_us, hold_us;
	int verdict;
	u32 verdict_us;
};

struct vec_trace {
	const char *policy, *name, *spec;
	u32 first, steps;
};

#include "vectors.h"

/* ---- vectors --------------------------------------------------------------- */

static void replay_step(struct kunit *test, const struct vec_trace *t, const struct vec_step *v,
			const struct aw_cfg *cfg, union aw_policy_state *state, u64 now_us)
{
	struct aw_event e = {
		.now_us = now_us,
		.kind = v->kind,
		.flags = v->flags,
		.bytes = v->bytes,
		.segments = v->segments,
		.len = v->len,
		.hops = v->hops,
		.peer_wnd = v->peer_wnd,
		.mss = v->mss,
		.rcv_wnd = v->rcv_wnd,
		.srtt_us = v->srtt_us,
		.min_rtt_us = v->min_rtt_us,
		.hold_us = v->hold_us,
	};
	struct aw_verdict got = aw_policy_step(state, cfg, &e);

	if (v->verdict == VEC_ANY)
		return;
	KUNIT_EXPECT_EQ_MSG(test, got.kind, v->verdict, "%s.vec:%d (%s)", t->policy, v->line,
			    t->name);
	if (v->verdict == AW_HOLD)
		KUNIT_EXPECT_EQ_MSG(test, got.hold_us, v->verdict_us, "%s.vec:%d (%s)", t->policy,
				    v->line, t->name);
}

/* A policy that a receiver cannot run must be refused, and is not replayed here. */
static bool refused(const char *policy)
{
	char list[TCP_ACK_POLICY_SPEC_MAX], *rest = list, *name;

	tcp_ack_policy_list(list, sizeof(list));
	while ((name = strsep(&rest, " ")) != NULL)
		if (!strcmp(name, policy))
			return false;
	return true;
}

static void vectors_test(struct kunit *test)
{
	union aw_policy_state *state = kunit_kzalloc(test, sizeof(*state), GFP_KERNEL);
	struct tcp_ack_policy_conf *conf = kunit_kzalloc(test, sizeof(*conf), GFP_KERNEL);
	u32 i, j, k, replayed = 0;

	KUNIT_ASSERT_NOT_NULL(test, state);
	KUNIT_ASSERT_NOT_NULL(test, conf);
	for (i = 0; i < ARRAY_SIZE(vec_traces); i++) {
		const struct vec_trace *t = &vec_traces[i];
		int err = tcp_ack_policy_parse(conf, t->spec, false);
		u64 now_us = 0;

		if (refused(t->policy)) {
			KUNIT_EXPECT_EQ_MSG(test, err, -EOPNOTSUPP, "%s", t->spec);
			continue;
		}
		KUNIT_ASSERT_EQ_MSG(test, err, 0, "%s.vec: %s", t->policy, t->spec);
		memset(state, 0, sizeof(*state));
		for (j = t->first; j < t->first + t->steps; j++) {
			for (k = 0; k < vec_steps[j].times; k++) {
				now_us = vec_steps[j].us + (vec_steps[j].absolute ? 0 : now_us);
				replay_step(test, t, &vec_steps[j], &conf->cfg, state, now_us);
				replayed++;
			}
		}
	}
	kunit_info(test, "%zu traces, %u events\n", ARRAY_SIZE(vec_traces), replayed);
	KUNIT_EXPECT_GE(test, replayed, 100);
}

/* ---- names ----------------------------------------------------------------- */

static void parse_test(struct kunit *test)
{
	static const struct {
		const char *spec;
		int err;
	} cases[] = {
		{ "none", 0 },
		{ "every-n", 0 },
		{ " every-n:n=16,warm=0\n", 0 },
		{ "adaptive:acks_per_rtt=4", 0 },
		{ "", -ENOENT },
		{ "every", -ENOENT },
		{ "every-n:", -EINVAL },
		{ "every-n:n", -EINVAL },
		{ "every-n:n=", -EINVAL },
		{ "every-n:n=x", -EINVAL },
		{ "every-n:n=-1", -EINVAL },
		{ "every-n:m=1", -EINVAL },
		{ "every-n:n=0", -ERANGE },
		{ "every-n:n=257", -ERANGE },
		{ "every-n:n=4294967296", -EINVAL },
		{ "every-n:n=16,", -EINVAL },
		{ "none:n=1", -EINVAL },
	};
	struct tcp_ack_policy_conf *conf = kunit_kzalloc(test, sizeof(*conf), GFP_KERNEL);
	char *longest = kunit_kzalloc(test, 2 * TCP_ACK_POLICY_SPEC_MAX, GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, conf);
	KUNIT_ASSERT_NOT_NULL(test, longest);
	for (i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, tcp_ack_policy_parse(conf, cases[i].spec, false),
				    cases[i].err, "\"%s\"", cases[i].spec);
	memset(longest, 'x', 2 * TCP_ACK_POLICY_SPEC_MAX - 1);
	KUNIT_EXPECT_EQ(test, tcp_ack_policy_parse(conf, longest, false), -EINVAL);
}

static void format_test(struct kunit *test)
{
	struct tcp_ack_policy_conf *conf = kunit_kzalloc(test, 2 * sizeof(*conf), GFP_KERNEL);
	char list[TCP_ACK_POLICY_SPEC_MAX], text[TCP_ACK_POLICY_SPEC_MAX], *rest = list, *name;
	int n;

	KUNIT_ASSERT_NOT_NULL(test, conf);
	tcp_ack_policy_list(list, sizeof(list));
	while ((name = strsep(&rest, " ")) != NULL) {
		KUNIT_ASSERT_EQ_MSG(test, tcp_ack_policy_parse(&conf[0], name, false), 0, "%s",
				    name);
		n = tcp_ack_policy_format(&conf[0], text, sizeof(text));
		KUNIT_EXPECT_LT_MSG(test, n, (int)sizeof(text) - 1, "%s", name);
		KUNIT_EXPECT_EQ_MSG(test, tcp_ack_policy_parse(&conf[1], text, false), 0, "%s",
				    text);
		KUNIT_EXPECT_MEMEQ(test, &conf[0].cfg, &conf[1].cfg, sizeof(conf[0].cfg));
	}
	tcp_ack_policy_parse(&conf[0], "every-n:warm=0,n=16", false);
	tcp_ack_policy_format(&conf[0], text, sizeof(text));
	KUNIT_EXPECT_STREQ(test, text, "every-n:n=16,warm=0");
}

/* ---- a socket's state ------------------------------------------------------- */

#define MSS 1000

/* A connection without a peer: segments are put into its state by hand. */
struct fake {
	struct socket *sock;
	struct sock *sk;
	struct tcp_sock *tp;
	u32 acks;
};

static void fake_policy(struct kunit *test, const char *spec)
{
	struct fake *f = test->priv;

	f->tp->rcv_nxt = f->tp->rcv_wup = f->tp->copied_seq = 0;
	f->tp->compressed_ack = 0;
	f->acks = 0;
	KUNIT_ASSERT_EQ(test, tcp_ack_policy_set(f->sk, spec), 0);
}

static int fake_init(struct kunit *test)
{
	struct fake *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	int err;

	if (!f)
		return -ENOMEM;
	err = sock_create_kern(&init_net, PF_INET, SOCK_STREAM, IPPROTO_TCP, &f->sock);
	if (err)
		return err;
	f->sk = f->sock->sk;
	f->tp = tcp_sk(f->sk);
	lock_sock(f->sk);
	inet_sk_state_store(f->sk, TCP_ESTABLISHED);
	f->tp->advmss = MSS;
	f->tp->rcv_wnd = f->tp->rcv_ssthresh = f->tp->window_clamp = 50 * MSS;
	WRITE_ONCE(f->sk->sk_rcvbuf, 1000 * MSS);
	f->tp->srtt_us = 40000 << 3;
	inet_csk(f->sk)->icsk_ack.rcv_mss = MSS;
	tcp_mstamp_refresh(f->tp);
	test->priv = f;
	return 0;
}

static void fake_exit(struct kunit *test)
{
	struct fake *f = test->priv;

	if (!f)
		return;
	inet_csk(f->sk)->icsk_ack.pending = 0;
	inet_sk_state_store(f->sk, TCP_CLOSE);
	release_sock(f->sk);
	sock_release(f->sock);
}

/*
 * `len` bytes in order, merged from segments if there is a size, and what would follow them: is
 * an ACK due?
 */
static bool fake_merged(struct kunit *test, u32 len, u16 size, u16 segs)
{
	struct fake *f = test->priv;
	struct sk_buff *skb = alloc_skb(256, GFP_KERNEL);
	bool due;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb_reset_network_header(skb);
	skb_put_zero(skb, sizeof(struct iphdr));
	skb->protocol = htons(ETH_P_IP);
	ip_hdr(skb)->ttl = 64;
	skb_shinfo(skb)->gso_size = size;
	skb_shinfo(skb)->gso_segs = segs;
	TCP_SKB_CB(skb)->seq = f->tp->rcv_nxt;
	TCP_SKB_CB(skb)->end_seq = f->tp->rcv_nxt + len;
	TCP_SKB_CB(skb)->tcp_flags = TCPHDR_ACK;
	f->tp->rcv_nxt += len;
	f->tp->copied_seq = f->tp->rcv_nxt;
	tcp_ack_policy_data(f->sk, skb);
	kfree_skb(skb);
	due = tcp_ack_policy_due(f->sk, f->tp->rcv_nxt - f->tp->rcv_wup > MSS, 0);
	if (due) {
		f->tp->rcv_wup = f->tp->rcv_nxt;
		f->tp->compressed_ack = 0;
		tcp_ack_policy_sent(f->sk, f->tp->rcv_nxt, false);
		f->acks++;
	}
	return due;
}

static bool fake_segment(struct kunit *test, u32 len)
{
	return fake_merged(test, len, 0, 0);
}

static void fake_segments(struct kunit *test, u32 n)
{
	while (n--)
		fake_segment(test, MSS);
}

/* Past the start; then some segments, so that an ACK is being held. */
static void fake_holding(struct kunit *test)
{
	struct fake *f = test->priv;

	fake_policy(test, "every-n:n=64,warm=0");
	fake_segments(test, 20);
	fake_segments(test, 5);
	KUNIT_ASSERT_TRUE(test, tcp_ack_policy_held(f->sk));
}

static void off_test(struct kunit *test)
{
	struct fake *f = test->priv;

	KUNIT_EXPECT_FALSE(test, tcp_ack_policy_on(f->sk));
	fake_segments(test, 100);
	KUNIT_EXPECT_EQ(test, f->acks, 50);
	fake_policy(test, "none");
	fake_segments(test, 100);
	KUNIT_EXPECT_EQ(test, f->acks, 50);
	KUNIT_EXPECT_TRUE(test, tcp_ack_policy_read(f->sk));
	KUNIT_EXPECT_FALSE(test, tcp_ack_policy_delay(f->sk));
}

/* Every second segment until AW_START_SEGMENTS were acknowledged, then one in n. */
static void ratio_test(struct kunit *test)
{
	struct fake *f = test->priv;

	fake_policy(test, "every-n:n=8,warm=0");
	fake_segments(test, 12);
	KUNIT_EXPECT_EQ(test, f->acks, 6);
	f->acks = 0;
	fake_segments(test, 800);
	KUNIT_EXPECT_EQ(test, f->acks, 100);
}

/* What answers more than data is due at once, though it was held before. */
static void must_test(struct kunit *test)
{
	struct fake *f = test->priv;
	struct inet_connection_sock *icsk = inet_csk(f->sk);
	struct rb_node node;

	fake_holding(test);
	KUNIT_EXPECT_FALSE(test, fake_segment(test, MSS));
	icsk->icsk_ack.pending |= ICSK_ACK_NOW;
	KUNIT_EXPECT_TRUE(test, fake_segment(test, MSS));
	icsk->icsk_ack.pending = 0;

	fake_holding(test);
	icsk->icsk_ack.dst_quick_ack = 1;
	KUNIT_EXPECT_TRUE(test, fake_segment(test, MSS));
	icsk->icsk_ack.dst_quick_ack = 0;

	fake_holding(test);
	KUNIT_EXPECT_TRUE(test, fake_segment(test, MSS / 2));

	fake_holding(test);
	f->sk->sk_shutdown |= RCV_SHUTDOWN;
	KUNIT_EXPECT_TRUE(test, fake_segment(test, MSS));
	f->sk->sk_shutdown = 0;

	fake_holding(test);
	f->sk->sk_rcvlowat = 2 * MSS;
	KUNIT_EXPECT_TRUE(test, fake_segment(test, MSS));
	f->sk->sk_rcvlowat = 1;

	fake_holding(test);
	rb_link_node(&node, NULL, &f->tp->out_of_order_queue.rb_node);
	KUNIT_EXPECT_TRUE(test, fake_segment(test, MSS));
	f->tp->out_of_order_queue = RB_ROOT;

	fake_holding(test);
	tcp_ack_policy_now(f->sk, 2);
	KUNIT_EXPECT_TRUE(test, fake_segment(test, MSS));
	KUNIT_EXPECT_FALSE(test, fake_segment(test, MSS)); /* one segment: not even stock */
	KUNIT_EXPECT_TRUE(test, fake_segment(test, MSS));
	KUNIT_EXPECT_FALSE(test, fake_segment(test, MSS));
	KUNIT_EXPECT_FALSE(test, fake_segment(test, MSS));

	fake_holding(test);
	f->tp->ecn_flags = TCP_ECN_OK | TCP_ECN_DEMAND_CWR;
	KUNIT_EXPECT_TRUE(test, fake_segment(test, MSS));
	f->tp->ecn_flags = 0;
}

/* What GRO and tcp_add_backlog() make of full segments is full, and of others is not. */
static void merged_test(struct kunit *test)
{
	static const struct {
		u32 len;
		u16 size, segs;
		bool due;
	} cases[] = {
		{ 4 * MSS, MSS, 4, false },    /* GRO */
		{ 4 * MSS, MSS, 0, false },    /* virtio-net does not count */
		{ MSS, MSS, 2, false },	       /* a pure ACK before or after it, in the backlog */
		{ 3 * MSS + 1, MSS, 4, true }, /* a short one at the end */
		{ 4 * MSS - 1, MSS, 4, true },
		{ 2 * MSS + 500, MSS, 3, true },     /* in the middle: the backlog */
		{ 4 * (MSS / 2), MSS / 2, 4, true }, /* all are short */
	};
	struct fake *f = test->priv;
	struct tcp_ack_policy *ap;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		fake_holding(test);
		KUNIT_EXPECT_EQ_MSG(test,
				    fake_merged(test, cases[i].len, cases[i].size, cases[i].segs),
				    cases[i].due, "case %u", i);
		/* A packet of several segments is no segment of their length. */
		ap = rcu_dereference_protected(f->tp->ack_policy, 1);
		KUNIT_EXPECT_LE_MSG(test, ap->flow.data.mss, MSS, "case %u", i);
		KUNIT_EXPECT_GE_MSG(test, ap->flow.data.mss, MSS - 8, "case %u", i);
	}
}

/* Reading sends nothing that is held, unless the end of a message arrived. */
static void read_test(struct kunit *test)
{
	struct fake *f = test->priv;

	fake_holding(test);
	KUNIT_EXPECT_FALSE(test, tcp_ack_policy_read(f->sk));
	tcp_ack_policy_quick(f->sk);
	KUNIT_EXPECT_TRUE(test, tcp_ack_policy_read(f->sk));
}

/* A hold ends after half of the RTT, 25 ms at most; the flow has 40. */
static void deadline_test(struct kunit *test)
{
	struct fake *f = test->priv;
	struct hrtimer *timer = &f->tp->compressed_ack_timer;
	s64 left_us;

	fake_holding(test);
	KUNIT_EXPECT_GT(test, f->tp->compressed_ack, 0);
	KUNIT_ASSERT_TRUE(test, tcp_ack_policy_delay(f->sk));
	left_us = ktime_to_us(hrtimer_get_remaining(timer));
	KUNIT_EXPECT_LE(test, left_us, aw_hold_length(20000));
	KUNIT_EXPECT_GT(test, left_us, aw_hold_length(20000) - 2000);
	KUNIT_EXPECT_TRUE(test, hrtimer_is_queued(timer));
	KUNIT_EXPECT_TRUE(test, tcp_ack_policy_waits(f->sk));
	/* More that is held does not put it off. */
	fake_segment(test, MSS);
	KUNIT_EXPECT_TRUE(test, tcp_ack_policy_delay(f->sk));
	KUNIT_EXPECT_LE(test, ktime_to_us(hrtimer_get_remaining(timer)), left_us);
	if (hrtimer_cancel(timer))
		__sock_put(f->sk);
}

static enum hrtimer_restart nothing(struct hrtimer *timer)
{
	return HRTIMER_NORESTART;
}

/*
 * A hold's timer has a slack, and runs early if another timer expires within it. If a
 * process owns the socket at that moment, the ACK must leave when it lets the socket go.
 */
static void m3_early_timer_test(struct kunit *test)
{
	struct fake *f = test->priv;
	struct hrtimer *timer = &f->tp->compressed_ack_timer;
	unsigned long slack = init_net.ipv4.sysctl_tcp_comp_sack_slack_ns;
	struct hrtimer *other = kunit_kzalloc(test, sizeof(*other), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, other);
	hrtimer_init(other, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_SOFT);
	other->function = nothing;

	init_net.ipv4.sysctl_tcp_comp_sack_slack_ns = 12 * NSEC_PER_MSEC;
	fake_holding(test);
	/* The hold is 20 ms, and its second half is slack. */
	hrtimer_start(other, ms_to_ktime(14), HRTIMER_MODE_REL_PINNED_SOFT);
	KUNIT_EXPECT_TRUE(test, tcp_ack_policy_delay(f->sk));
	init_net.ipv4.sysctl_tcp_comp_sack_slack_ns = slack;
	usleep_range(15000, 15100);
	KUNIT_EXPECT_FALSE(test, hrtimer_is_queued(timer));
	KUNIT_EXPECT_TRUE(test, tcp_ack_policy_held(f->sk));
	KUNIT_EXPECT_FALSE(test, tcp_ack_policy_waits(f->sk));
	release_sock(f->sk);
	usleep_range(50000, 51000);
	lock_sock(f->sk);
	KUNIT_EXPECT_EQ_MSG(test, f->tp->compressed_ack, 0, "still held, and no timer is armed");
	KUNIT_EXPECT_EQ(test, f->tp->rcv_wup, f->tp->rcv_nxt);
	hrtimer_cancel(other);
}

/* tcp_ack_hold_us = 0: the delayed-ACK timer holds, nothing else. */
static void delack_test(struct kunit *test)
{
	struct fake *f = test->priv;

	init_net.ipv4.sysctl_tcp_ack_hold_us = 0;
	fake_policy(test, "every-n:n=64,warm=0");
	init_net.ipv4.sysctl_tcp_ack_hold_us = AW_HOLD_MAX_US;
	fake_segments(test, 25);
	KUNIT_EXPECT_FALSE(test, tcp_ack_policy_delay(f->sk));
	KUNIT_EXPECT_TRUE(test, tcp_ack_policy_held(f->sk));
	KUNIT_EXPECT_FALSE(test, tcp_ack_policy_waits(f->sk));
	/* Once it is armed it is left alone. */
	inet_csk(f->sk)->icsk_ack.pending |= ICSK_ACK_TIMER;
	KUNIT_EXPECT_TRUE(test, tcp_ack_policy_delay(f->sk));
}

/* The listing asks for an ACK per segment as long as r is 0. */
static void make_acks_test(struct kunit *test)
{
	struct fake *f = test->priv;

	fake_policy(test, "rate-limit-literal");
	fake_segments(test, 40);
	KUNIT_EXPECT_GE(test, f->acks, 30);
}

/* tcp_ack_limit, unless the policy's own parameter was given. */
static void limit_test(struct kunit *test)
{
	struct fake *f = test->priv;
	struct tcp_ack_policy *ap;

	init_net.ipv4.sysctl_tcp_ack_limit = 500;
	fake_policy(test, "rate-limit");
	ap = rcu_dereference_protected(f->tp->ack_policy, 1);
	KUNIT_EXPECT_EQ(test, ap->cfg.policy.param[AW_RATE_LIMIT_start], 500);
	fake_policy(test, "rate-limit:start=7");
	ap = rcu_dereference_protected(f->tp->ack_policy, 1);
	KUNIT_EXPECT_EQ(test, ap->cfg.policy.param[AW_RATE_LIMIT_start], 7);
	init_net.ipv4.sysctl_tcp_ack_limit = 0;
	fake_policy(test, "rate-limit-literal");
	init_net.ipv4.sysctl_tcp_ack_limit = 2000;
	/* 50 segments of window: (50 + 2) (50 + 1) / 2 - 1. */
	fake_segments(test, 20);
	ap = rcu_dereference_protected(f->tp->ack_policy, 1);
	KUNIT_EXPECT_EQ(test, ap->flow.policy.rate_limit_literal.start_ack_lmt, 1325);
}

static struct kunit_case plain_cases[] = {
	KUNIT_CASE(vectors_test), KUNIT_CASE(parse_test), KUNIT_CASE(format_test), {}
};

static struct kunit_case socket_cases[] = { KUNIT_CASE(off_test),
					    KUNIT_CASE(ratio_test),
					    KUNIT_CASE(must_test),
					    KUNIT_CASE(merged_test),
					    KUNIT_CASE(read_test),
					    KUNIT_CASE(deadline_test),
					    KUNIT_CASE(delack_test),
					    KUNIT_CASE(make_acks_test),
					    KUNIT_CASE(limit_test),
					    KUNIT_CASE(m3_early_timer_test),
					    {} };

static struct kunit_suite plain_suite = {
	.name = "tcp_ack_policy",
	.test_cases = plain_cases,
};

static struct kunit_suite socket_suite = {
	.name = "tcp_ack_policy_socket",
	.init = fake_init,
	.exit = fake_exit,
	.test_cases = socket_cases,
};

kunit_test_suites(&plain_suite, &socket_suite);
