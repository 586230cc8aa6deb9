"use strict";
(() => {
	const NS = "http://www.w3.org/2000/svg";
	const make = (tag, attrs, ...kids) => {
		const e = document.createElement(tag);
		for (const k in attrs) e.setAttribute(k, attrs[k]);
		e.append(...kids);
		return e;
	};
	const draw = (tag, attrs, text) => {
		const e = document.createElementNS(NS, tag);
		for (const k in attrs) e.setAttribute(k, attrs[k]);
		if (text !== undefined) e.textContent = text;
		return e;
	};
	// The places of a frame's parts, as the page's maker writes them.
	const TASK = 0, CPU = 1, DEPTH = 2, LINE = 3, POINT = 4, CHOSEN = 5, FAULTS = 6, LOOKS = 7,
		CACHES = 8, SLABS = 9, WORDS = 10, ARRAYS = 11, FREE = 12, POOLS = 13, COUNTS = 14;
	const hues = [210, 30, 275, 150, 330, 60, 180, 0];

	class Stage {
		constructor(root) {
			this.root = root;
			this.reel = JSON.parse(document.getElementById(root.dataset.reel).textContent);
			this.lines = new Map();
			for (const li of root.closest("section").querySelectorAll("[data-line]"))
				this.lines.set(Number(li.dataset.line), li);
			this.names = [];
			this.at = 0;
			this.build();
			this.show(Math.min(Number(root.dataset.from), this.last()));
		}

		last() { return Math.max(0, this.reel.frames.length - 1); }

		build() {
			const button = (text, label, f) => {
				const b = make("button", { type: "button", "aria-label": label, title: label }, text);
				b.addEventListener("click", f);
				return b;
			};
			this.slider = make("input", { type: "range", min: 0, max: this.last(), value: 0,
				"aria-label": "point" });
			this.slider.addEventListener("input", () => this.show(Number(this.slider.value)));
			this.count = make("span", { class: "dim mono" });
			this.point = make("p", { class: "point mono", "aria-live": "polite" });
			this.body = make("div", { class: "body" });
			this.lanes = this.timeline();
			this.root.append(make("div", { class: "controls" },
				button("|◀", "first point", () => this.show(0)),
				button("◀", "point before", () => this.show(this.at - 1)),
				button("▶", "next point", () => this.show(this.at + 1)),
				button("▶|", "last point", () => this.show(this.last())),
				button("next difference", "next point at which something changed",
					() => this.show(this.different(1))),
				button("next fault", "next fault", () => this.show(this.faulty())),
				this.slider, this.count,
				make("span", { class: "dim" }, "keys: ← → step, with Shift or d to the next " +
					"difference, f to the next fault, Home, End")), this.point,
				make("div", { class: "scroll" }, this.lanes), this.body);
			this.root.addEventListener("keydown", e => this.key(e));
		}

		key(e) {
			if (e.ctrlKey || e.altKey || e.metaKey) return;
			const own = e.target === this.slider;
			const to = {
				ArrowRight: () => e.shiftKey ? this.different(1) : this.at + 1,
				ArrowLeft: () => e.shiftKey ? this.different(-1) : this.at - 1,
				Home: () => 0, End: () => this.last(),
				d: () => this.different(1), f: () => this.faulty(),
			}[e.key];
			if (!to || own && !e.shiftKey && e.key.length > 1) return;
			e.preventDefault();
			this.show(to());
		}

		// state is what a frame shows beside where it is.
		state(i) {
			const f = this.reel.frames[i];
			return JSON.stringify([f[SLABS], f[WORDS], f[ARRAYS], f[FREE], f[POOLS], f[COUNTS]]);
		}

		different(step) {
			const now = this.state(this.at);
			for (let i = this.at + step; i >= 0 && i <= this.last(); i += step)
				if (this.state(i) !== now) return i;
			return step > 0 ? this.last() : 0;
		}

		faulty() {
			for (let k = 1; k <= this.last() + 1; k++) {
				const i = (this.at + k) % (this.last() + 1);
				if (this.reel.frames[i][FAULTS].length) return i;
			}
			return this.at;
		}

		hue(task) {
			let i = this.names.indexOf(task);
			if (i < 0) i = this.names.push(task) - 1;
			return hues[i % hues.length];
		}

		// timeline draws a lane for each CPU; it is drawn once, and a cursor moves over it.
		timeline() {
			const r = this.reel, n = r.frames.length || 1;
			const left = 52, width = 900, row = 46, step = (width - left - 6) / n;
			this.x = i => left + (i + .5) * step;
			const svg = draw("svg", { class: "lanes", viewBox: `0 0 ${width} ${row * r.cpus + 4}`,
				role: "img", "aria-label": "lanes of the CPUs" });
			for (let c = 0; c < r.cpus; c++)
				svg.append(draw("text", { x: 4, y: row * c + 34 }, "CPU " + c));
			let from = 0;
			const key = f => f[TASK] + "/" + f[CPU] + "/" + f[DEPTH] + "/" + f[LINE];
			for (let i = 1; i <= r.frames.length; i++) {
				const f = r.frames[from];
				if (i < r.frames.length && key(r.frames[i]) === key(f)) continue;
				const h = Math.max(8, 26 - 7 * f[DEPTH]), y = row * f[CPU] + 40 - h - 8 * f[DEPTH];
				const task = r.texts[f[TASK]];
				const box = draw("rect", { x: left + from * step, y, width: (i - from) * step, height: h,
					fill: `hsl(${this.hue(task)} 60% 50% / .75)`, stroke: "var(--bg)" });
				box.append(draw("title", {}, task + ": " + (r.lines[f[LINE]] || "end of the program")));
				svg.append(box);
				if ((i - from) * step > 40)
					svg.append(draw("text", { x: left + from * step + 3, y: y + h - 5 }, task));
				from = i;
			}
			r.frames.forEach((f, i) => {
				const x = this.x(i), y = row * f[CPU] + 6;
				if (r.texts[f[CHOSEN]])
					svg.append(draw("path", { class: "chosen", d: `M${x} ${y - 5}l5 5l-5 5l-5 -5z` }));
				if (f[FAULTS].length)
					svg.append(draw("path", { class: "fault", d: `M${x - 6} ${y - 4}h12l-6 10z` }));
			});
			this.cursor = draw("line", { class: "cursor", y1: 0, y2: row * r.cpus + 4 });
			svg.append(this.cursor);
			svg.addEventListener("click", e => {
				const box = svg.getBoundingClientRect();
				const x = (e.clientX - box.left) / box.width * width;
				this.show(Math.floor((x - left) / step));
			});
			return svg;
		}

		show(i) {
			if (!this.reel.frames.length) return;
			this.at = i = Math.max(0, Math.min(i, this.last()));
			const r = this.reel, f = r.frames[i], before = r.frames[Math.max(0, i - 1)];
			this.slider.value = i;
			this.count.textContent = `${i + 1} of ${r.frames.length}${r.cut ? " (cut)" : ""}`;
			this.cursor.setAttribute("x1", this.x(i));
			this.cursor.setAttribute("x2", this.x(i));
			for (const [n, li] of this.lines) li.classList.toggle("now", n === f[LINE]);
			this.point.replaceChildren(`${r.texts[f[TASK]]} on CPU ${f[CPU]}` +
				(f[DEPTH] ? `, nested ${f[DEPTH]} deep` : "") +
				`, in ${r.lines[f[LINE]] || "the end of the program"}: before ${r.texts[f[POINT]]}`);
			if (r.texts[f[CHOSEN]])
				this.point.append(make("span", { class: "chosen" }, " →" + r.texts[f[CHOSEN]]));
			for (const k of f[FAULTS])
				this.point.append(make("br"), make("span", { class: "wrong" }, "✖ " + r.texts[k]));
			this.body.replaceChildren(this.cpus(f, before), this.slabs(f, before), this.rest(f, before));
		}

		cpus(f, before) {
			const r = this.reel, out = make("div", { class: "cpus" });
			f[LOOKS].forEach((k, cpu) => {
				const l = r.looks[k];
				const box = make("div", { class: "cpu" }, make("b", {}, "CPU " + cpu), " ",
					[l.t || "idle", ...(l.h || [])].join(" ▸ "),
					make("span", { class: "badge" + (l.i ? " off" : "") },
						l.i ? "interrupts off" : "interrupts on"));
				if (l.p) box.append(make("span", { class: "badge" }, "preempt off ×" + l.p));
				for (const h of l.l || []) box.append(make("span", { class: "badge" }, "🔒 " + h));
				if (l.s) box.append(make("span", { class: "badge" }, l.s + " stores held back"));
				f[WORDS].forEach((w, n) => {
					const word = r.words[w];
					if (word.u !== cpu) return;
					const row = make("div", { class: "word mono" },
						(r.caches[f[CACHES]]?.[word.c]?.Name || "") + " " + word.n + " = ");
					const changed = before[WORDS][n] !== w, old = r.words[before[WORDS][n]];
					for (const [j, part] of (word.p || [["", word.v]]).entries()) {
						const same = !changed || word.p && old?.p?.[j]?.[1] === part[1];
						row.append(make("b", { class: same ? "" : "changed" },
							(part[0] ? part[0] + " " : "") + part[1]));
					}
					box.append(row);
				});
				out.append(box);
			});
			return out;
		}

		slabs(f, before) {
			const r = this.reel, out = make("div", { class: "slabs" });
			const old = new Map(before[SLABS].map(k => [r.slabs[k].p, r.slabs[k]]));
			for (const k of f[SLABS]) out.append(this.slab(r.slabs[k], old.get(r.slabs[k].p), f));
			if (!f[SLABS].length) out.append(make("p", { class: "dim" }, "no slab"));
			return out;
		}

		slab(s, old, f) {
			const cache = this.reel.caches[f[CACHES]]?.[s.c] || {};
			const w = 46, h = 32, gap = 8, cols = Math.min(12, s.x.length || 1);
			const x = n => 34 + (n % cols) * (w + gap), y = n => 26 + Math.floor(n / cols) * (h + 16);
			const rows = Math.ceil(s.x.length / cols);
			const svg = draw("svg", { width: 40 + cols * (w + gap), height: 30 + rows * (h + 16),
				role: "img", "aria-label": `slab at page ${s.p}: ` + s.x.map((o, n) =>
					`object ${n} ${o.s}${o.n || ""}${o.b ? ", damaged" : ""}`).join("; ") });
			s.x.forEach((o, n) => {
				const red = o.r ? " red " + o.r : cache.Debug ? " debug" : "";
				const g = draw("g", { class: `cell ${o.b ? "bad" : o.s}${red}` });
				g.append(draw("rect", { x: x(n), y: y(n), width: w, height: h, rx: 3 }));
				const text = o.n ? o.n.trim() : String(n);
				g.append(draw("text", { x: x(n) + w / 2, y: y(n) + 20 },
					text.length > 6 ? text.slice(0, 5) + "…" : text));
				const at = BigInt(s.a) + BigInt(n) * BigInt(cache.Stride || 0);
				g.append(draw("title", {}, `object ${n} at 0x${at.toString(16)}: ${o.s}${o.n || ""}` +
					(o.r ? `; red zones ${o.r}` : "") +
					(o.b ? `; byte ${o.b - 1} is not its owner's` : "")));
				svg.append(g);
			});
			const grid = { x, y, w, h, cols };
			this.list(svg, s.f, s.fe, "own", 4, grid);
			this.list(svg, s.g, s.ge, "cpu", -4, grid);
			const head = make("div", { class: "mono" }, `${cache.Name || "slab"}: page ${s.p}` +
				(s.o ? `, order ${s.o}` : "") + ", in use ");
			head.append(make("span", { class: old && old.u !== s.u ? "changed" : "" }, String(s.u)),
				` of ${s.x.length}; `, make("span", { class: old && String(old.on) !== String(s.on) ?
					"changed" : "" }, (s.on || ["on no list"]).join(" and ")));
			if (s.z) head.append(make("span", { class: "badge" }, "frozen"));
			if (s.r) head.append(make("span", { class: "badge off" }, "retired"));
			const box = make("div", { class: "slab" }, head, svg);
			s.x.forEach((o, n) => { if (o.d) box.append(this.bytes(o, n)); });
			return box;
		}

		// bytes shows some bytes of a damaged object, the wrong ones marked.
		bytes(o, n) {
			const row = make("div", { class: "mono bytes" }, `object ${n}${o.n || ""}, from byte ` +
				`${o.d.from}: `);
			o.d.is.forEach((is, i) => {
				const b = make("span", { class: is === o.d.want[i] ? "" : "wrong" }, is);
				b.title = `byte ${o.d.from + i}: is ${is}, should be ${o.d.want[i]}`;
				row.append(b, " ");
			});
			return row;
		}

		// list draws a freelist as arrows from object to object.
		list(svg, list, end, kind, shift, { x, y, w, h, cols }) {
			if (!list || !list.length) return;
			let px = 8, py = y(0) + h / 2 + shift;
			list.forEach((n, k) => {
				const lost = n < 0;
				const tx = lost ? px + 14 : x(n) + w / 2 + shift, ty = lost ? py + 16 : y(n) - 1;
				const from = list[k - 1], far = k > 0 && from >= 0 && !lost &&
					Math.floor(from / cols) !== Math.floor(n / cols);
				const lane = ty - 9 - shift / 2; // between two rows
				svg.append(draw("path", { class: "arrow " + kind, "marker-end": "url(#to-cpu)",
					d: k === 0 ? `M${px} ${py}V${ty - 12}H${tx}V${ty}` :
						far ? `M${px} ${y(from) + h}V${n > from ? y(from) + h + 5 : lane}` +
							`H${x(cols - 1) + w + 5 + shift / 2}V${lane}H${tx}V${ty}` :
							`M${px} ${py}C${px} ${py - 18},${tx} ${ty - 18},${tx} ${ty}` }));
				if (lost) svg.append(draw("text", { x: tx + 3, y: ty + 4, fill: "var(--bad)" }, "✖"));
				px = tx; py = lost ? ty : y(n) + 2;
			});
			if (end === 2) svg.append(draw("text", { x: 2, y: 12, fill: "var(--bad)" }, "cycle"));
		}

		rest(f, before) {
			const r = this.reel, out = make("div", { class: "mono" });
			const free = make("span", { class: before[FREE] !== f[FREE] ? "changed" : "" }, f[FREE]);
			out.append(make("p", {}, "free pages: ", free));
			for (const a of r.arrays[f[ARRAYS]] || [])
				out.append(make("p", {}, `array of ${r.caches[f[CACHES]]?.[a.Cache]?.Name || "?"} on CPU ` +
					`${a.CPU}: ${(a.Objects || []).length} of ${a.Limit}, moved by ${a.Batch}`));
			for (const p of r.pools[f[POOLS]] || [])
				if ((p.Pages || []).length) out.append(make("p", {}, `pages held for CPU ${p.CPU}: ` +
					p.Pages.join(" ")));
			for (const c of r.counts[f[COUNTS]] || [])
				out.append(make("p", { class: "wrong" }, `${c.Name} stored ${c.Stored}, ` +
					`counted ${c.Counted}`));
			return out;
		}
	}

	// A stage is made when it comes near what is seen: a page may have hundreds. The keys are for
	// the one that was last used, else for the first that can be seen.
	const stages = new Map();
	const open = e => {
		if (!stages.has(e)) stages.set(e, new Stage(e));
		return stages.get(e);
	};
	const all = [...document.querySelectorAll(".stage")];
	const near = new IntersectionObserver(seen => {
		for (const s of seen) if (s.isIntersecting) {
			near.unobserve(s.target);
			open(s.target);
		}
	}, { rootMargin: "600px" });
	all.slice(1).forEach(e => near.observe(e));
	if (all.length) open(all[0]);
	let used = null;
	document.addEventListener("focusin", e => { used = e.target.closest(".stage") || used; });
	document.addEventListener("keydown", e => {
		if (e.target !== document.body || !all.length) return;
		const seen = s => {
			const r = s.getBoundingClientRect();
			return r.bottom > 0 && r.top < window.innerHeight;
		};
		open(used && seen(used) ? used : all.find(seen) || all[0]).key(e);
	});
})();
