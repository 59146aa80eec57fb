'use strict';
'require baseclass';
'require fs';

// rpcd allows these arguments and no others: acl.d/luci-app-ackwise.json.
const PROGRAM = '/usr/bin/ackwise';

return baseclass.extend({
	// What the program answers in JSON. Rejects with an error that says what it said, or why it could
	// not be asked.
	ask(command) {
		const called = `${PROGRAM} ${command} --format json`;

		return fs.exec(PROGRAM, [ command, '--format', 'json' ]).catch((error) => {
			throw new Error(_('%s could not be started: %s').format(called, error.message));
		}).then((ended) => {
			if (ended.code !== 0)
				throw new Error(_('%s ended with exit code %s: %s').format(called, ended.code,
					(ended.stderr || '').trim() || _('it said nothing')));

			try {
				return JSON.parse(ended.stdout);
			}
			catch (error) {
				throw new Error(_('%s gave an answer that is not JSON: %s').format(called, error.message));
			}
		});
	}
});
