'use strict';
'require view';
'require form';
'require uci';
'require ackwise.program as program';

// What is refused here is what `ackwise check` refuses, and what would keep `ackwise up` from starting.
const NUMBER = /^\+?([0-9]+\.?[0-9]*|\.[0-9]+)$/;
const QUANTITY = /^([0-9.+-]*)\s*(.*)$/;
const WHOLE = /^\+?[0-9]+$/;
const PARAMETER = /^\+?[0-9]+$/;
const NETWORK = /^[A-Za-z0-9_]+$/;
const V4 = /^(([0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])\.){3}([0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])$/;
// The colons and groups of an IPv6 address are counted by the browser, which is lenient with the rest.
const V6 = /^([0-9A-Fa-f:]*:)([0-9A-Fa-f]*|[0-9.]+)(%([0-9]+))?$/;
const MAX_SCOPE = 2 ** 32 - 1;
const ADDRESS = /^(\[(.*)\]|[^:]*):([0-9]+)$/;
// Arguments of `ackwise up` that the service gives it: one of them twice is an error.
const TAKEN = /^--(config|router|up|overhead|metrics)(=.*)?$/;

const TC_UNITS = { 'bit': 1, 'kbit': 1e3, 'mbit': 1e6, 'gbit': 1e9 };
const UNITS = { 'bit/s': 1, 'kbit/s': 1e3, 'Mbit/s': 1e6, 'Gbit/s': 1e9 };
const MIN_BPS = 8e3;
const MAX_BPS = 1e10;
const MAX_OVERHEAD = 256;

// Bits per second, or null.
function bps(text) {
	const [ , number, unit ] = text.trim().match(QUANTITY) || [];
	const factor = TC_UNITS[(unit || '').toLowerCase()] || UNITS[unit];
	const value = factor && NUMBER.test(number) ? Math.round(parseFloat(number) * factor) : NaN;

	return value >= MIN_BPS && value <= MAX_BPS ? value : null;
}

function checkRate(text) {
	const said = _('Expecting: a rate from 8 kbit/s to 10 Gbit/s with its unit, such as 4.75mbit; two of them, the smaller first, such as 1mbit..40mbit; or auto');
	const dots = text.indexOf('..');

	if (text.trim().toLowerCase() === 'auto')
		return true;
	if (dots < 0)
		return bps(text) != null || said;

	const [ least, most ] = [ bps(text.slice(0, dots)), bps(text.slice(dots + 2)) ];

	return least != null && most != null && least < most || said;
}

// An address in the one form that equal ones have, and its port, or null.
function socketAddress(text) {
	const [ , host, inside, digits ] = text.match(ADDRESS) || [];
	const port = Number(digits);

	if (host == null || port > 65535)
		return null;
	if (inside == null)
		return V4.test(host) ? { host: host, port: port } : null;

	const [ , head, tail, , scope ] = inside.match(V6) || [];

	if (head == null || tail.includes('.') && !V4.test(tail) || Number(scope || 0) > MAX_SCOPE)
		return null;
	try {
		return { host: new URL(`http://[${head}${tail}]`).hostname + (scope || ''), port: port };
	}
	catch (error) {
		return null;
	}
}

function isEverywhere(host) {
	return host === '0.0.0.0' || host === '[::]';
}

function clash(one, other) {
	return one != null && other != null && one.port !== 0 && one.port === other.port &&
		(one.host === other.host || isEverywhere(one.host) || isEverywhere(other.host));
}

// A policy as `ackwise up --policy` takes it: NAME or NAME:KEY=VALUE,….
function checkPolicy(policies, text) {
	const colon = text.indexOf(':');
	const name = colon < 0 ? text : text.slice(0, colon);
	const policy = policies.find((one) => one.name === name);

	if (policy == null)
		return _('Expecting: a policy, one of %s').format(policies.map((one) => one.name).join(', '));

	const seen = new Set();

	for (const setting of colon < 0 ? [] : text.slice(colon + 1).split(',')) {
		if (setting.trim() === '')
			continue;

		const equals = setting.indexOf('=');
		const key = setting.slice(0, Math.max(equals, 0)).trim();
		const value = setting.slice(equals + 1).trim();
		const parameter = policy.parameters.find((one) => one.name === key);

		if (equals < 0 || parameter == null)
			return _('Expecting: NAME:KEY=VALUE, where the keys of %s are: %s').format(name,
				policy.parameters.map((one) => one.name).join(', ') || _('none'));
		if (!PARAMETER.test(value) || Number(value) < parameter.min || Number(value) > parameter.max)
			return _('Expecting: %s from %s to %s %s').format(key, parameter.min, parameter.max, parameter.unit);
		if (seen.has(key))
			return _('Expecting: each parameter once; %s is given twice').format(key);
		seen.add(key);
	}
	return true;
}

// Sections that are not this one.
function others(option, section_id) {
	return option.section.cfgsections().filter((other) => other !== section_id);
}

// What a field of a section holds now.
function held(option, section_id, name) {
	return option.section.formvalue(section_id, name);
}

// What is right in one field depends on others: they are looked at again when one of them changes.
function looksAgain(option, name) {
	option.onchange = function() {
		for (const section_id of this.section.cfgsections()) {
			const field = this.section.getUIElement(section_id, name);

			if (field != null)
				field.triggerValidation();
		}
	};
}

// Only what was filled in is looked at.
function validated(option, check) {
	option.validate = function(section_id, value) {
		return value == null || value === '' ? true : check.call(this, section_id, value);
	};
}

return view.extend({
	load() {
		return Promise.all([
			program.ask('policies').then((answer) => ({
				// Others are for the kernel's own stack, and `ackwise up` refuses them.
				policies: answer.policies.filter((one) => one.environments.includes('datapath'))
			})).catch((error) => ({ error: error })),
			L.resolveDefault(uci.load('network'), null)
		]);
	},

	render([ known ]) {
		const map = new form.Map('ackwise', 'ackwise',
			_('Settings of <code>ackwise up</code> for each interface. A policy withholds the TCP ACKs that a sender can do without; when the service ends, every ACK passes again.'));
		const section = map.section(form.TypedSection, 'interface', _('Interfaces'));
		let option;

		section.addremove = true;
		section.anonymous = false;

		option = section.option(form.Flag, 'enabled', _('Enabled'));
		option.default = '0';
		option.rmempty = false;
		looksAgain(option, 'interface');

		option = section.option(form.Value, 'interface', _('Interface'),
			_('The name of a network in /etc/config/network. By default, the name of this section.'));
		for (const network of uci.sections('network', 'interface'))
			option.value(network['.name']);
		option.validate = function(section_id, value) {
			const own = value == null || value === '' ? section_id : value;

			if (!NETWORK.test(own))
				return _('Expecting: the name of a network, of letters, digits and underscores');
			if (held(this, section_id, 'enabled') === '1' && others(this, section_id).some((other) =>
				held(this, other, 'enabled') === '1' && (held(this, other, 'interface') || other) === own))
				return _('Expecting: an interface that no other enabled section uses');
			return true;
		};
		looksAgain(option, 'interface');

		option = section.option(form.Flag, 'router', _('Owns the uplink'),
			_('The interface is the uplink of this router. Off on a host that receives.'));
		option.default = '1';
		option.rmempty = false;

		option = section.option(form.Value, 'up', _('Rate of the uplink'),
			_('In bit/s, kbit/s, Mbit/s or Gbit/s: some 95 % of the uplink\'s rate, such as <code>4.75mbit</code>; <code>1mbit..40mbit</code> to have it measured between these; or <code>auto</code>. Without it ACKs are thinned, but packets queue in the modem. Another shaper, such as sqm\'s, is left alone.'));
		option.placeholder = '4.75mbit';
		validated(option, (section_id, value) => checkRate(value));
		looksAgain(option, 'overhead');

		option = section.option(form.Value, 'overhead', _('Overhead'),
			_('Bytes that the uplink adds to each IP packet, from 0 to 256. Only with a rate.'));
		validated(option, function(section_id, value) {
			if (!WHOLE.test(value) || Number(value) > MAX_OVERHEAD)
				return _('Expecting: a whole number of bytes from 0 to 256');
			if (!held(this, section_id, 'up'))
				return _('Expecting: also a rate of the uplink; without one there is no queue that the overhead applies to');
			return true;
		});

		option = section.option(form.Flag, 'guard', _('Guard'),
			_('Compares traffic with and without the policy every five minutes, and turns the policy off if it harms.'));
		option.default = '1';
		option.rmempty = false;

		option = section.option(form.Value, 'policy', _('Policy'),
			_('The policy, optionally with parameters: <code>NAME</code> or <code>NAME:KEY=VALUE,KEY=VALUE</code>. By default adaptive.'));
		option.placeholder = 'adaptive';
		if (known.policies)
			for (const policy of known.policies)
				option.value(policy.name, `${policy.name}: ${policy.summary}`);
		validated(option, function(section_id, value) {
			if (known.policies)
				return checkPolicy(known.policies, value);
			return value === this.cfgvalue(section_id) ||
				_('The list of policies is not known: %s').format(known.error.message);
		});

		option = section.option(form.Value, 'metrics', _('Metrics'),
			_('Address and TCP port where metrics are served for Prometheus, such as <code>127.0.0.1:9478</code> or <code>[::1]:9478</code>. Port 0 takes any free port.'));
		option.placeholder = '127.0.0.1:9478';
		validated(option, function(section_id, value) {
			const own = socketAddress(value);

			if (own == null)
				return _('Expecting: an address and a port, such as 127.0.0.1:9478 or [::1]:9478');
			if (others(this, section_id).some((other) => clash(own, socketAddress(held(this, other, 'metrics') || ''))))
				return _('Expecting: a port that no other section uses');
			return true;
		});
		looksAgain(option, 'metrics');

		option = section.option(form.DynamicList, 'argument', _('Further arguments'),
			_('Further arguments of <code>ackwise up</code>, one per entry: an option and its value are two, such as <code>--queue</code> and <code>gateway</code>.'));
		validated(option, (section_id, value) => !TAKEN.test(value) ||
			_('Expecting: another argument; the service sets %s itself, from the fields above').format(value.split('=')[0]));

		return map.render().then((node) => E('div', {}, [
			known.error ? E('div', { 'class': 'alert-message error' }, [ known.error.message ]) : '',
			node
		]));
	}
});
