// As much of LuCI as the pages of ackwise use, for a test in a browser without OpenWrt. `world` is the
// router: its files of UCI, what its programs answer, and the rights of the user.
//
// Two traps of LuCI are kept: E() and dom.content() take a string for HTML, and a list for text; and a
// field is judged when it is edited or told to look again, not when it is saved.
'use strict';

String.prototype.format = function(...values) {
	return this.replace(/%[sd]/g, () => String(values.shift()));
};

const _ = (text) => text;

const dom = {
	content(node, children) {
		node.replaceChildren();
		dom.append(node, children);
	},

	append(node, children) {
		if (Array.isArray(children)) {
			for (const child of children)
				node.append(child instanceof Node ? child : document.createTextNode(String(child)));
		}
		else if (children instanceof Node)
			node.append(children);
		else if (children != null)
			node.innerHTML = String(children);
	}
};

function E(name, attributes, children) {
	if (typeof(attributes) !== 'object' || Array.isArray(attributes) || attributes instanceof Node)
		throw new Error(`E('${name}'): the attributes are missing`);

	const node = document.createElement(name);

	for (const [ key, value ] of Object.entries(attributes)) {
		if (typeof(value) === 'function')
			node.addEventListener(key, value);
		else if (value != null)
			node.setAttribute(key, value);
	}
	dom.append(node, children);
	return node;
}

const L = {
	resolveDefault: (value, otherwise) => Promise.resolve(value).catch(() => otherwise)
};

function extend(parent, members) {
	const made = class extends parent {};

	for (const [ name, member ] of Object.entries(members))
		Object.defineProperty(made.prototype, name, { value: member, writable: true });
	return made;
}

class Uci {
	constructor(world) {
		this.world = world;
		this.loaded = {};
		this.writes = [];
	}

	load(config) {
		if (!this.world.acl.read.uci.includes(config) || this.world.uci[config] == null)
			return Promise.reject(new Error(`uci/get of ${config}: permission denied, or no such configuration`));
		this.loaded[config] = structuredClone(this.world.uci[config]);
		return Promise.resolve();
	}

	sections(config, type) {
		return (this.loaded[config] || []).filter((one) => one['.type'] === type);
	}

	get(config, id, option) {
		return (this.loaded[config] || []).find((one) => one['.name'] === id)?.[option] ?? null;
	}

	write(what, config, ...rest) {
		if (!this.world.acl.write.uci.includes(config))
			throw new Error(`uci/${what} of ${config}: permission denied`);
		this.writes.push([ what, config, ...rest ]);
	}

	set(config, id, option, value) {
		this.write('set', config, id, option, value);
		this.loaded[config].find((one) => one['.name'] === id)[option] = value;
	}

	unset(config, id, option) {
		if (this.get(config, id, option) == null)
			return;
		this.write('unset', config, id, option);
		delete this.loaded[config].find((one) => one['.name'] === id)[option];
	}
}

// rpcd's `file exec`: the command and its arguments have to stand in the rights of the user.
function fsOf(world) {
	return {
		exec(command, params) {
			const called = [ command, ...params ].join(' ');

			world.executed.push(called);
			if (!(world.acl.read.file[called] || []).includes('exec') || !world.acl.read.ubus.file.includes('exec'))
				return Promise.reject(new Error(`Permission denied: ${called}`));
			if (world.programs[called] instanceof Error)
				return Promise.reject(world.programs[called]);
			return Promise.resolve(world.programs[called]);
		}
	};
}

function formOf(uci) {
	// What a field shows: an input, and whether what is in it was found good when it was last judged.
	class Field {
		constructor(option, id, input) {
			Object.assign(this, { option, id, input, message: E('div', { 'class': 'refused' }, []), said: true });
			for (const event of [ 'keyup', 'blur' ])
				input.addEventListener(event, () => this.triggerValidation());
			input.addEventListener('change', () => {
				this.triggerValidation();
				option.onchange?.({}, id, option.formvalue(id));
			});
		}

		triggerValidation() {
			this.said = this.option.validate?.(this.id, this.value()) ?? true;
			this.input.classList.toggle('cbi-input-invalid', this.said !== true);
			dom.content(this.message, this.said === true ? [] : [ this.said ]);
			return this.said === true;
		}

		value() {
			return this.input.value;
		}
	}

	class Value {
		constructor(section, name, title, description) {
			Object.assign(this, { section, option: name, title, description, rmempty: true, choices: [], fields: {} });
		}

		value(key, text) {
			this.choices.push([ key, text ]);
		}

		cfgvalue(id) {
			return uci.get('ackwise', id, this.option);
		}

		formvalue(id) {
			return this.fields[id].value();
		}

		field(id, input) {
			this.fields[id] = new Field(this, id, input);
			return [ input, this.fields[id].message ];
		}

		widget(id) {
			const list = `${id}.${this.option}`;
			const input = E('input', {
				'value': this.cfgvalue(id) ?? this.default, 'placeholder': this.placeholder, 'list': list
			}, []);

			return [ ...this.field(id, input), E('datalist', { 'id': list },
				this.choices.map(([ key, text ]) => E('option', { 'value': key }, [ text ?? key ]))) ];
		}

		render(id) {
			return E('div', { 'class': 'cbi-value', 'data-option': `${id}.${this.option}` }, [
				E('label', {}, this.title),
				E('div', {}, [ ...this.widget(id), E('div', { 'class': 'description' }, this.description) ])
			]);
		}

		parse(id) {
			if (this.fields[id].said !== true)
				throw new TypeError(`Option "${this.title}" contains an invalid input value. ${this.fields[id].said}`);

			const value = this.formvalue(id);

			if (this.isEmpty(id, value)) {
				if (!this.rmempty)
					throw new TypeError(`Option "${this.title}" must not be empty.`);
				uci.unset('ackwise', id, this.option);
			}
			else if (JSON.stringify(value) !== JSON.stringify(this.cfgvalue(id)))
				uci.set('ackwise', id, this.option, value);
		}

		isEmpty(id, value) {
			return value == null || value.length === 0;
		}
	}

	class Flag extends Value {
		constructor(...all) {
			super(...all);
			this.default = '0';
		}

		widget(id) {
			const input = E('input', { 'type': 'checkbox' }, []);

			input.checked = (this.cfgvalue(id) ?? this.default) === '1';
			return this.field(id, input);
		}

		formvalue(id) {
			return this.fields[id].input.checked ? '1' : '0';
		}

		isEmpty(id, value) {
			return value === this.default && this.rmempty;
		}
	}

	class DynamicList extends Value {
		widget(id) {
			const items = E('ul', {}, []);
			const input = E('input', {}, []);
			const widgets = this.field(id, input);
			const add = (text) => items.append(E('li', {}, [ text ]));

			[].concat(this.cfgvalue(id) ?? []).forEach(add);
			input.addEventListener('change', () => {
				if (input.value !== '' && this.fields[id].said === true) {
					add(input.value);
					input.value = '';
				}
			});
			this.items = { ...this.items, [id]: items };
			return [ items, ...widgets ];
		}

		formvalue(id) {
			return [ ...this.items[id].children ].map((item) => item.textContent);
		}
	}

	class TypedSection {
		constructor(type, title) {
			Object.assign(this, { type, title, children: [] });
		}

		option(kind, ...rest) {
			this.children.push(new kind(this, ...rest));
			return this.children.at(-1);
		}

		cfgsections() {
			return uci.sections('ackwise', this.type).map((one) => one['.name']);
		}

		formvalue(id, name) {
			return this.children.find((one) => one.option === name).formvalue(id);
		}

		getUIElement(id, name) {
			return this.children.find((one) => one.option === name)?.fields[id] ?? null;
		}

		render() {
			return E('div', { 'class': 'cbi-section' }, [ E('h3', {}, this.title) ].concat(
				this.cfgsections().map((id) => E('div', { 'class': 'cbi-section-node' }, [
					E('h4', {}, [ id ])
				].concat(this.children.map((option) => option.render(id)))))));
		}
	}

	class Map {
		constructor(config, title, description) {
			Object.assign(this, { config, title, description, children: [] });
			formOf.last = this;
		}

		section(kind, ...rest) {
			this.children.push(new kind(...rest));
			return this.children.at(-1);
		}

		async render() {
			await uci.load(this.config);
			this.node = E('div', { 'class': 'cbi-map' }, [
				E('h2', {}, this.title), E('div', {}, this.description)
			].concat(this.children.map((section) => section.render())));
			return this.node;
		}

		// All or nothing, as in LuCI: the first option that is wrong ends it.
		async save() {
			for (const section of this.children)
				for (const id of section.cfgsections())
					for (const option of section.children)
						option.parse(id);
		}
	}

	return { Map, TypedSection, Value, Flag, DynamicList };
}

// Loads views as LuCI does: the lines 'require …' at the head of a file are its arguments.
class Router {
	constructor(world, files) {
		this.files = files;
		this.polled = [];
		this.uci = new Uci(world);
		this.known = {
			baseclass: { extend: (members) => extend(Object, members) },
			view: { extend: (members) => extend(Object, members) },
			poll: { add: (what, every) => this.polled.push({ what, every }) },
			form: formOf(this.uci), fs: fsOf(world), uci: this.uci, dom
		};
	}

	require(name) {
		if (this.known[name])
			return this.known[name];

		const path = `${name.replaceAll('.', '/')}.js`;
		const source = this.files[path];

		if (source == null)
			throw new Error(`no ${path}`);

		const wanted = [ ...source.matchAll(/^'require ([\w.]+)(?: as (\w+))?';$/gm) ]
			.map(([ , what, as ]) => [ as ?? what, this.require(what) ]);
		const made = new Function('window', 'document', 'L', 'E', '_', ...wanted.map(([ as ]) => as), source);

		return this.known[name] = new (made(window, document, L, E, _, ...wanted.map(([ , what ]) => what)))();
	}

	// Shows a view, and returns the node that it made.
	async open(name) {
		const view = this.require(`view.ackwise.${name}`);
		const place = document.getElementById('maincontent');

		dom.content(place, [ await view.render(await view.load?.()) ]);
		return place;
	}
}
