'use strict';
'require view';
'require dom';
'require poll';
'require ackwise.program as program';

const EVERY_S = 5;
// What is not known.
const UNKNOWN = '–';

const STATES = {
	'blind': _('nothing to measure'),
	'idle': _('little to send'),
	'growing': _('growing'),
	'following': _('following')
};
const HALTED = {
	'replaced': _('halted: someone has replaced the queue'),
	'rate-changed': _('halted: someone else has set the rate of the queue'),
	'refused': _('halted: the kernel refuses the rate'),
	'unreadable': _('halted: the queue or its round trips cannot be read')
};

function isNumber(value) {
	return typeof(value) === 'number' && isFinite(value);
}

function count(value) {
	return isNumber(value) ? value.toLocaleString('en-US') : UNKNOWN;
}

function share(part, whole) {
	return isNumber(part) && isNumber(whole) && whole > 0 ? `${(part * 100 / whole).toFixed(1)} %` : UNKNOWN;
}

function duration(seconds) {
	if (!isNumber(seconds))
		return UNKNOWN;

	const s = Math.floor(seconds);
	const two = (value) => String(value).padStart(2, '0');

	if (s < 60)
		return `${s} s`;
	if (s < 3600)
		return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
	if (s < 86400)
		return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
	return `${Math.floor(s / 86400)} d ${two(Math.floor(s / 3600) % 24)} h`;
}

function rate(bps) {
	if (!isNumber(bps))
		return UNKNOWN;
	if (bps >= 1e9)
		return `${(bps / 1e9).toFixed(3)} Gbit/s`;
	if (bps >= 1e6)
		return `${(bps / 1e6).toFixed(3)} Mbit/s`;
	return `${(bps / 1e3).toFixed(1)} kbit/s`;
}

// The rate of the queue, where it is measured, in lines.
function queue(measured) {
	if (!measured)
		return [ UNKNOWN ];

	const { state } = measured;
	const halted = state != null && typeof(state) === 'object' ? state.halted : null;

	return [
		rate(measured.rate_bps),
		(halted != null ? HALTED[halted] || `${_('halted')}: ${halted}` : STATES[state] || String(state)),
		measured.link_bps == null ? _('link rate not known now') : `${_('link')} ${rate(measured.link_bps)}`,
		`${_('between')} ${rate(measured.min_bps)} ${_('and')} ${rate(measured.max_bps)}`
	];
}

// What keeps a policy from withholding, and what else is out of the ordinary.
function remarks(attachment, stats) {
	const said = [];

	if (attachment.dry_run)
		said.push(_('dry run: nothing is withheld, the numbers show what would be'));
	else if (stats.paused)
		said.push(_('paused: every ACK passes'));
	if (stats.interface_alive === false)
		said.push(_('the interface is gone'));
	if (stats.attach_fallback)
		said.push(`${_('attached by clsact')}: ${stats.attach_fallback}`);
	return said;
}

// Lists, and never strings, are given to E() here: it takes a string for HTML, and a list for text.
function cell(lines) {
	return E('td', { 'class': 'td' }, [].concat(lines).map((line, number) =>
		E('div', { 'style': number > 0 ? 'font-size: smaller' : null }, [ line ])));
}

function row(attachment, severalNamespaces) {
	const { stats } = attachment;
	const name = [ attachment.interface ];

	if (severalNamespaces)
		name.push(`${_('network namespace')} ${attachment.netns}`);
	if (!stats)
		return E('tr', { 'class': 'tr' }, [
			cell(name),
			cell(attachment.policy),
			E('td', { 'class': 'td', 'colspan': 6 }, [
				E('em', {}, [ attachment.error || _('no counters') ])
			])
		]);
	return E('tr', { 'class': 'tr' }, [
		cell(name),
		cell([ attachment.policy ].concat(remarks(attachment, stats))),
		cell(duration(stats.uptime_s)),
		cell(count(stats.acks)),
		cell(count(stats.withheld)),
		cell(count(stats.reemitted)),
		cell([ share(stats.packets_saved, stats.acks), `${count(stats.packets_saved)} ${_('ACKs')}` ]),
		cell(queue(stats.measured_rate))
	]);
}

function table(attachments) {
	const head = [
		_('Interface'), _('Policy'), _('Runs for'), _('ACKs seen'), _('Withheld'), _('Left at their deadline'),
		_('Saved'), _('Rate of the queue')
	];
	const several = new Set(attachments.map((one) => one.netns)).size > 1;

	return E('table', { 'class': 'table' }, [
		E('tr', { 'class': 'tr table-titles' }, head.map((title) => E('th', { 'class': 'th' }, [ title ])))
	].concat(attachments.map((one) => row(one, several))));
}

function ask() {
	return program.ask('status').then((answer) => {
		if (!answer || !Array.isArray(answer.attachments))
			throw new Error(_('this page does not understand the answer of ackwise status: it is of another version'));
		return { attachments: answer.attachments };
	}).catch((error) => ({ error: error }));
}

// An error takes the place of what was known before: numbers that may be old are not shown.
function show(node, state) {
	if (state.error)
		dom.content(node, [ E('div', { 'class': 'alert-message error' }, [ state.error.message ]) ]);
	else if (state.attachments.length === 0)
		dom.content(node, [ E('p', {}, [ _('ackwise is not attached to any interface.') ]) ]);
	else
		dom.content(node, [ table(state.attachments) ]);
}

return view.extend({
	load() {
		return ask();
	},

	render(state) {
		const node = E('div', { 'class': 'cbi-section', 'id': 'ackwise-status' }, []);

		show(node, state);
		poll.add(() => ask().then((now) => show(node, now)), EVERY_S);

		return E('div', {}, [
			E('h2', {}, [ 'ackwise' ]),
			E('p', {}, [
				_('By interface, since ackwise was attached to it. Interfaces with a gateway\'s queue are not listed; this command shows them:'),
				' ', E('code', {}, [ 'ackwise gateway status' ])
			]),
			node
		]);
	},

	handleSaveApply: null,
	handleSave: null,
	handleReset: null
});
