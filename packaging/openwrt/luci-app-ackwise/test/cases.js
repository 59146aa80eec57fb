// The cases of scripts/test-luci. `GIVEN` is what that script hands over.
'use strict';

const STATUS = '/usr/bin/ackwise status --format json';
const POLICIES = '/usr/bin/ackwise policies --format json';
const HOSTILE = '<img src=x onerror="window.ran = true">';

function must(held, said) {
	if (!held)
		throw new Error(said);
}

function same(got, wanted, of) {
	const [ one, other ] = [ JSON.stringify(got), JSON.stringify(wanted) ];

	must(one === other, `${of}: ${one}, and not ${other}`);
}

function answer(stdout) {
	return { code: 0, stdout: typeof(stdout) === 'string' ? stdout : JSON.stringify(stdout) };
}

function worldOf(changes) {
	return {
		acl: structuredClone(GIVEN.acl),
		executed: [],
		uci: {
			network: [ 'loopback', 'wan', 'lte' ].map((name) => ({ '.type': 'interface', '.name': name })),
			ackwise: [
				{
					'.type': 'interface', '.name': 'wan', enabled: '1', interface: 'wan', router: '1', guard: '0',
					up: '4.75mbit', overhead: '22', policy: 'every-n:n=4', metrics: '127.0.0.1:9478',
					argument: [ '--queue', 'gateway' ]
				},
				{ '.type': 'interface', '.name': 'lte', enabled: '0' }
			]
		},
		programs: { [STATUS]: answer(GIVEN.status), [POLICIES]: answer(GIVEN.policies) },
		...changes
	};
}

function routerOf(changes) {
	const world = worldOf(changes);
	const router = new Router(world, GIVEN.files);

	router.world = world;
	return router;
}

function fieldOf(id, option) {
	const found = document.querySelector(`[data-option="${id}.${option}"]`);

	must(found, `no field for ${id}.${option}`);
	return found;
}

// Types into a field, and returns what the page says about it.
function type(id, option, text) {
	const field = fieldOf(id, option);
	const input = field.querySelector('input');

	if (input.type === 'checkbox')
		input.checked = text;
	else
		input.value = text;
	for (const event of [ 'keyup', 'change', 'blur' ])
		input.dispatchEvent(new Event(event));
	return field.querySelector('.refused').textContent;
}

const CASES = {
	async 'every option of the service has a field, and no other is there'() {
		await routerOf().open('config');
		same([ ...document.querySelectorAll('[data-option^="wan."]') ]
			.map((one) => one.dataset.option.slice(4)).sort(), GIVEN.options, 'fields');
		must(!document.querySelector('.alert-message'), 'an alert');
	},

	async 'fields show the configuration, and the defaults of the service'() {
		await routerOf().open('config');
		same([ 'interface', 'up', 'overhead', 'policy', 'metrics' ]
			.map((name) => fieldOf('wan', name).querySelector('input').value),
		[ 'wan', '4.75mbit', '22', 'every-n:n=4', '127.0.0.1:9478' ], 'values');
		same([ ...fieldOf('wan', 'argument').querySelectorAll('li') ].map((one) => one.textContent),
			[ '--queue', 'gateway' ], 'arguments');
		for (const id of [ 'wan', 'lte' ])
			for (const [ name, byDefault ] of Object.entries(GIVEN.flags)) {
				const set = worldOf().uci.ackwise.find((one) => one['.name'] === id)[name] ?? byDefault;

				same(fieldOf(id, name).querySelector('input').checked, set === '1', `${id}.${name}`);
			}
		for (const unit of [ [ 'up', /bit\/s/ ], [ 'overhead', /bytes/i ], [ 'metrics', /port/ ] ])
			must(unit[1].test(fieldOf('wan', unit[0]).querySelector('.description').textContent), `no unit: ${unit[0]}`);
	},

	async 'suggestions are the networks, and the policies of the datapath'() {
		await routerOf().open('config');

		const suggested = (name) => [ ...fieldOf('wan', name).querySelectorAll('option') ].map((one) => one.value);

		same(suggested('interface'), [ 'loopback', 'wan', 'lte' ], 'networks');
		same(suggested('policy'), GIVEN.policies.policies.filter((one) => one.environments.includes('datapath'))
			.map((one) => one.name), 'policies');
		must(!suggested('policy').includes('rate-limit-literal'), 'a policy for the stack');
	},

	async 'what is not touched is not written'() {
		const router = routerOf();

		await router.open('config');
		await formOf.last.save();
		// A section that says nothing gets its flags, which the service reads as the same.
		same(router.uci.writes, [
			[ 'set', 'ackwise', 'lte', 'enabled', '0' ], [ 'set', 'ackwise', 'lte', 'router', '1' ],
			[ 'set', 'ackwise', 'lte', 'guard', '1' ]
		].filter(([ , , id, name ]) => worldOf().uci.ackwise.find((one) => one['.name'] === id)[name] == null),
		'writes');
	},

	async 'what is changed is written, and what is cleared is removed'() {
		const router = routerOf();

		await router.open('config');
		for (const [ name, text ] of [
			[ 'enabled', false ], [ 'router', false ], [ 'guard', true ], [ 'interface', 'lte' ],
			[ 'up', '1mbit..40mbit' ], [ 'overhead', '' ], [ 'policy', 'adaptive' ], [ 'metrics', '[::1]:0' ],
			[ 'argument', '--user' ], [ 'argument', 'nobody' ]
		])
			same(type('wan', name, text), '', name);
		await formOf.last.save();
		same(router.uci.writes.filter(([ , , id ]) => id === 'wan'), [
			[ 'set', 'ackwise', 'wan', 'enabled', '0' ], [ 'set', 'ackwise', 'wan', 'interface', 'lte' ],
			[ 'set', 'ackwise', 'wan', 'router', '0' ], [ 'set', 'ackwise', 'wan', 'up', '1mbit..40mbit' ],
			[ 'unset', 'ackwise', 'wan', 'overhead' ], [ 'set', 'ackwise', 'wan', 'guard', '1' ],
			[ 'set', 'ackwise', 'wan', 'policy', 'adaptive' ], [ 'set', 'ackwise', 'wan', 'metrics', '[::1]:0' ],
			[ 'set', 'ackwise', 'wan', 'argument', [ '--queue', 'gateway', '--user', 'nobody' ] ]
		], 'writes');
	},

	async 'a value is refused exactly where the program refuses it'() {
		await routerOf().open('config');
		must(GIVEN.judged.length > 100, 'few values');
		for (const { option, value, accepted } of GIVEN.judged) {
			const said = type('wan', option, value);

			must((said === '') === accepted,
				`${option} = ${JSON.stringify(value)}: the program ${accepted ? 'takes' : 'refuses'} it, the page says: ${said}`);
			must(accepted || said.startsWith('Expecting: '), `${option}: ${said}`);
			type('wan', option, '');
			same(type('wan', 'up', '5mbit'), '', 'up');
		}
	},

	async 'what is refused is not saved'() {
		for (const [ name, text ] of [
			[ 'up', '5' ], [ 'overhead', '257' ], [ 'policy', 'fastest' ], [ 'metrics', '9478' ],
			[ 'interface', 'wan" ' + HOSTILE ], [ 'argument', '--up=5mbit' ]
		]) {
			const router = routerOf();

			await router.open('config');
			must(type('wan', name, text) !== '', `${name}: nothing is said`);
			await formOf.last.save().then(() => must(false, `${name}: it is saved`), (error) =>
				must(error.message.includes('invalid input value. Expecting: '), error.message));
			must(!router.uci.writes.some(([ , , , option ]) => option === name), `${name}: it is written`);
		}
	},

	async 'fields that depend on each other are judged together'() {
		const router = routerOf();
		const message = (id, name) => fieldOf(id, name).querySelector('.refused').textContent;

		await router.open('config');
		type('wan', 'up', '');
		must(message('wan', 'overhead').includes('rate of the uplink'), 'an overhead without a rate');
		type('wan', 'up', 'auto');
		same(message('wan', 'overhead'), '', 'overhead');

		must(type('lte', 'metrics', '0.0.0.0:9478').includes('no other section'), 'a port twice');
		type('wan', 'metrics', '');
		same(message('lte', 'metrics'), '', 'metrics');

		same(type('lte', 'interface', 'wan'), '', 'a section that is off');
		type('lte', 'enabled', true);
		must(message('lte', 'interface').includes('no other enabled'), 'an interface twice');
		type('lte', 'interface', '');
		same(message('wan', 'interface') + message('lte', 'interface'), '', 'interfaces');
		await formOf.last.save();
	},

	async 'arguments that the service gives itself are refused'() {
		await routerOf().open('config');
		for (const own of GIVEN.given)
			must(type('wan', 'argument', own) !== '', own);
		same(type('wan', 'argument', '--attach-mode'), '', 'another');
	},

	async 'without the list of policies the page says why, and saves the rest'() {
		const router = routerOf();

		router.world.programs[POLICIES] = new Error('Not found');
		await router.open('config');
		must(document.querySelector('.alert-message').textContent.includes('could not be started: Not found'), 'no alert');
		must(type('wan', 'policy', 'adaptive').includes('not known'), 'a policy that nobody knows');
		same(type('wan', 'policy', 'every-n:n=4'), '', 'what was there');
		same(type('wan', 'up', '6mbit'), '', 'up');
		await formOf.last.save();
		must(router.uci.writes.some((one) => one[3] === 'up'), 'not written');
	},

	async 'the status of the program is shown, number by number'() {
		const router = routerOf();

		await router.open('status');
		same(rows(), [
			[ 'wan0', 'adaptive:acks_per_rtt=9', '1 h 01 min', '1,234,567', '987,654', '12,345', '79.0 %975,309 ACKs',
				'4.750 Mbit/sfollowinglink 5.001 Mbit/sbetween 1.000 Mbit/s and 40.000 Mbit/s' ],
			[ 'lan0', 'every-n:n=4,warm=16dry run: nothing is withheld, the numbers show what would be', '1 min 15 s',
				'10', '5', '0', '50.0 %5 ACKs', '–' ],
			[ 'wwan0', 'tackpaused: every ACK passesattached by clsact: this kernel has no tcx', '2 d 07 h', '0', '0', '0',
				'–0 ACKs', '640.0 kbit/shalted: someone has replaced the queuelink rate not known nowbetween 100.0 kbit/s and 1.000 Gbit/s' ],
			[ 'gone0', 'none', 'its process does not answer: Connection refused' ]
		], 'rows');
		same(router.world.executed, [ STATUS ], 'programs');
	},

	async 'what the program says here and now is shown'() {
		await routerOf({ programs: { [STATUS]: answer(GIVEN.live) } }).open('status');

		const [ one ] = GIVEN.live.attachments;

		same(rows().length, 1, 'rows');
		same(rows()[0].slice(0, 2), [ one.interface, one.policy ], 'the row');
		same(rows()[0].slice(3), [ String(one.stats.acks), '0', '0', '–0 ACKs', '–' ], 'its numbers');
	},

	async 'the page looks again, and an error takes the place of old numbers'() {
		const router = routerOf();
		const place = await router.open('status');
		const [ poll ] = router.polled;

		same(poll.every, 5, 'seconds');
		router.world.programs[STATUS] = { code: 1, stderr: 'ackwise: no right to look\n' };
		await poll.what();
		same(document.querySelector('.alert-message').textContent,
			`${STATUS} ended with exit code 1: ackwise: no right to look`, 'the error');
		must(rows().length === 0 && !place.textContent.includes('1,234,567'), 'old numbers');
		for (const [ reply, said ] of [
			[ new Error('Permission denied'), 'could not be started: Permission denied' ],
			[ { code: 2 }, 'ended with exit code 2: it said nothing' ],
			[ answer('{"attachments": ['), 'is not JSON' ],
			[ { code: 0 }, 'is not JSON' ],
			[ answer({ gateways: [] }), 'another version' ],
			[ answer('null'), 'another version' ]
		]) {
			router.world.programs[STATUS] = reply;
			await poll.what();
			must(document.querySelector('.alert-message')?.textContent.includes(said), `${said}: ${place.textContent}`);
		}
		router.world.programs[STATUS] = answer({ attachments: [] });
		await poll.what();
		must(place.textContent.includes('not attached to any interface') && !document.querySelector('.alert-message'), 'none');
		router.world.programs[STATUS] = answer(GIVEN.status);
		await poll.what();
		same(rows().length, 4, 'rows');
	},

	async 'without the right to run the program nothing is shown'() {
		const router = routerOf();

		delete router.world.acl.read.file[STATUS];
		await router.open('status');
		must(document.querySelector('.alert-message').textContent.includes('Permission denied'), 'no alert');
	},

	async 'counters that are missing are not guessed'() {
		const [ one ] = structuredClone(GIVEN.status).attachments;

		one.stats = { uptime_s: null, acks: 'many', measured_rate: { state: 'dreaming', link_bps: null } };
		await routerOf({ programs: { [STATUS]: answer({ attachments: [ one ] }) } }).open('status');
		same(rows()[0].slice(2), [ '–', '–', '–', '–', '–– ACKs', '–dreaminglink rate not known nowbetween – and –' ], 'row');
	},

	async 'text from outside stays text'() {
		const status = structuredClone(GIVEN.status);
		const policies = structuredClone(GIVEN.policies);

		for (const one of status.attachments) {
			one.interface = one.policy = one.netns = HOSTILE;
			if (one.stats)
				Object.assign(one.stats, { attach_fallback: HOSTILE });
			else
				one.error = HOSTILE;
		}
		status.attachments[0].netns = 1;
		status.attachments[0].stats.measured_rate.state = { halted: HOSTILE };
		status.attachments[1].stats.measured_rate = { state: HOSTILE };
		policies.policies[0].summary = HOSTILE;
		for (const parameter of policies.policies[1].parameters)
			parameter.unit = HOSTILE;

		const programs = { [STATUS]: answer(status), [POLICIES]: answer(policies) };
		const router = routerOf({ programs });
		const place = await router.open('status');

		must(place.textContent.split(HOSTILE).length > 12, 'it is not there');
		noImage(place);
		for (const reply of [ new Error(HOSTILE), { code: 1, stderr: HOSTILE }, answer(HOSTILE) ]) {
			programs[STATUS] = reply;
			await router.polled[0].what();
			must(place.textContent.includes(reply.stdout ? 'is not JSON' : HOSTILE), 'no error');
			noImage(place);
		}

		for (const reply of [ answer(policies), new Error(HOSTILE) ]) {
			programs[POLICIES] = reply;

			const other = routerOf({ programs });

			Object.assign(other.world.uci.ackwise[0], {
				up: HOSTILE, policy: HOSTILE, interface: HOSTILE, metrics: HOSTILE, argument: [ HOSTILE ]
			});
			await other.open('config');
			for (const name of [ 'up', 'policy', 'interface', 'metrics', 'argument' ])
				type('wan', name, HOSTILE);
			type('wan', 'policy', 'every-n:n=0');
			noImage(document.getElementById('maincontent'));
		}
	}
};

function rows() {
	return [ ...document.querySelectorAll('#ackwise-status tr') ].slice(1)
		.map((row) => [ ...row.children ].map((cell) => cell.textContent));
}

function noImage(place) {
	must(!place.querySelector('img') && !window.ran, `it is HTML: ${place.innerHTML}`);
}

// `#status` and `#config` show a page, for a picture; otherwise every case is run.
addEventListener('load', async () => {
	const page = location.hash.slice(1);

	if (page) {
		await routerOf().open(page);
		if (page === 'config') {
			type('lte', 'up', '5');
			type('wan', 'overhead', '300');
		}
		return;
	}

	const said = [];

	for (const [ name, run ] of Object.entries(CASES)) {
		try {
			await run();
			said.push({ name });
		}
		catch (error) {
			said.push({ name, failed: String(error.stack ?? error) });
		}
	}
	dom.content(document.getElementById('maincontent'), []);
	// What a hostile image would do, it has done by now.
	await new Promise((done) => setTimeout(done, 500));
	said.push(window.ran ? { name: 'nothing from outside has run', failed: 'it has' } : { name: 'nothing from outside has run' });
	document.getElementById('result').textContent = JSON.stringify(said);
});
