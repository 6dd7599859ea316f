// The engine view, live or of a run from a file: map of the KV cache, queue with reasons, steps, curves.
import {h, fill, iconButton, download, pickFile, oncePerFrame, plural} from './dom.js';
import {LiveState} from './livestate.js';
import {LiveStream, framesOf, stopsOf} from './livesource.js';
import {KvMap, swatchOf} from './kvmap.js';
import {Timeline, Curve} from './timeline.js';
import {QueueView} from './queue.js';

const kSpeeds = [1, 4, 10, 30];  // steps per second
const kKinds = {free: 'free', cached: 'cached', held: 'in use', shared: 'shared', pinned: 'pinned'};

export class EngineView {
  constructor(page) {
    this.page = page;
    this.state = new LiveState();
    this.stream = new LiveStream({frame: (frame) => this.take(frame), status: (kind, text) => this.status(kind, text)});
    this.redraw = oncePerFrame(() => this.draw());
    this.file = null;  // {frames, ends, unit, at, stop, name}; at: the last frame applied; stop: its stop
    this.held = [];    // frames received while paused
    this.build();
    document.addEventListener('visibilitychange', () => { if (this.onScreen && !this.file) document.hidden ? this.stream.stop() : this.stream.start(); });
  }

  build() {
    const button = (label, onclick, more) => h('button', {type: 'button', onclick, ...more}, label);
    this.mapView = new KvMap(this.state, (block) => this.showBlock(block));
    this.timeline = new Timeline((step) => this.showStep(step));
    this.curves = {kv: new Curve('KV cache usage', '%'), rate: new Curve('Throughput', 'tokens/s'), ttft: new Curve('Time to first token', 's'),
      gap: new Curve('Step time', 'ms'), drafts: new Curve('Draft tokens', 'per step')};
    this.statusNode = h('span', {class: 'live-status', role: 'status'}, 'connecting …');
    this.pauseButton = button('Pause', () => this.setPaused(!this.paused), {'aria-pressed': 'false'});
    this.steps = h('span', {class: 'row wrapleft playback', hidden: true}, button('◂ Back', () => this.go(-1)), this.playButton = button('Play', () => this.play()), button('Step ▸', () => this.go(1)),
      this.slider = h('input', {type: 'range', min: 0, max: 0, value: 0, 'aria-label': 'Position in the recording', oninput: () => { this.stopPlay(); this.seek(Number(this.slider.value)); }}),
      this.speed = h('select', {'aria-label': 'Playback speed', onchange: () => { if (this.playing) { this.stopPlay(); this.play(); } }},
        kSpeeds.map((speed) => h('option', {value: speed}, `${speed}/s`))),
      iconButton('save', 'Save the recording', () => download('pagoda-run.jsonl', `${this.file.frames.map((frame) => JSON.stringify(frame)).join('\n')}\n`, 'application/x-ndjson')),
      button('Back to live', () => this.closeFile()));
    this.speed.value = matchMedia('(prefers-reduced-motion: reduce)').matches ? '1' : '4';
    this.legend = h('ul', {class: 'legend'});
    this.panel = h('p', {class: 'panel', 'aria-live': 'off'}, 'Hover over a block, or move with the arrow keys, to see its owners.');
    this.queue = new QueueView(this.mapView.lit);
    this.stepLine = h('p', {class: 'panel step-line'});
    this.slots = h('div', {class: 'slots', hidden: true});
    this.rowsButton = button('Group by sequence', () => { this.mapView.setRows(!this.mapView.rows); this.rowsButton.setAttribute('aria-pressed', String(this.mapView.rows)); }, {'aria-pressed': 'false'});
    const legend = h('ul', {class: 'legend'}, [['prefill', 'prefill tokens'], ['decode', 'decode tokens'], ['mark', 'preemption or swap'], ['copy', 'copy-on-write'], ['budget', 'token budget']]
      .map(([kind, says]) => h('li', null, h('span', {class: `swatch ${kind}`}), says)));
    this.node = h('div', {class: 'engine'},
      h('div', {class: 'engine-bar row wrapleft'}, h('h1', {class: 'title'}, 'Engine'), this.statusNode, this.pauseButton, this.steps,
        iconButton('load', 'Open a recording (pagoda simulate --live-out)', () => pickFile('.jsonl,.json,.ndjson', (text, name) => this.openFile(text, name)))),
      this.lesson = h('p', {class: 'engine-lesson card', hidden: true}),
      h('section', {'aria-label': 'KV cache', class: 'engine-map'},
        h('div', {class: 'row wrapleft'}, h('h2', null, 'KV cache'), this.mode = h('span', {class: 'dim mode'}), this.rowsButton,
          button('−', () => this.mapView.setZoom(this.mapView.zoom - 1), {'aria-label': 'Smaller cells'}),
          button('+', () => this.mapView.setZoom(this.mapView.zoom + 1), {'aria-label': 'Larger cells'})),
        this.legend, this.mapView.node, this.panel, this.slots),
      h('section', {'aria-label': 'Steps', class: 'engine-steps'}, h('div', {class: 'row wrapleft'}, h('h2', null, 'Steps'), legend),
        this.timeline.node, this.stepLine, h('div', {class: 'curves'}, Object.values(this.curves).map((curve) => curve.node))),
      this.queue.node);
    this.node.addEventListener('keydown', (event) => {
      if (!this.file || event.target.closest('input, textarea')) return;
      const step = {',': -1, '.': 1}[event.key];
      if (step) this.go(step);
    });
  }

  shown() {
    this.onScreen = true;
    if (!this.file) this.stream.start();
    this.mapView.layout();
    this.redraw();
  }
  theme() { this.legendText = ''; this.mapView.paint(); this.redraw(); }
  hidden() { this.onScreen = false; this.stream.stop(); this.stopPlay(); }

  status(kind, text) {
    const says = {live: 'live', lost: `connection lost at step ${this.state.step}; reconnecting …`, key: 'an API key with the role admin is required', busy: text}[kind] ?? text;
    this.node.classList.toggle('stale', kind !== 'live');
    if (this.statusNode.textContent !== says) this.statusNode.textContent = says;
    if (kind === 'key') this.page.askKey();
  }

  take(frame) {
    if (this.paused) { this.held.push(frame); if (this.held.length > 600) this.held.splice(0, this.held.length, frame); return true; }
    const fits = this.state.apply(frame);
    if (fits) this.redraw();
    return fits;
  }

  setPaused(paused) {
    this.paused = paused;
    this.pauseButton.textContent = paused ? 'Resume' : 'Pause';
    this.pauseButton.setAttribute('aria-pressed', String(paused));
    if (paused) return;
    const held = this.held;
    this.held = [];
    if (held.every((frame) => this.state.apply(frame))) return this.redraw();
    this.stream.stop();
    this.stream.start();
  }

  openFile(text, name) {
    try {
      this.showRun(framesOf(text), name, '');
      this.stopPlay();
    } catch (error) {
      this.page.say(error.message);
    }
  }

  // Plays frames from a file or a lesson from the beginning; `text` says what to look at.
  showRun(frames, name, text) {
    this.stream.stop();
    this.stopPlay();
    const {ends, single} = stopsOf(frames);
    this.file = {frames, ends, unit: single ? 'step' : 'frame', at: -1, stop: 0, name};
    this.steps.hidden = false;
    this.node.classList.add('playing');
    this.pauseButton.hidden = true;
    this.slider.max = ends.length - 1;
    this.lesson.textContent = text;
    this.lesson.hidden = !text;
    this.seek(0);
    this.play();
  }

  closeFile() {
    this.stopPlay();
    this.file = null;
    this.steps.hidden = true;
    this.node.classList.remove('playing');
    this.lesson.hidden = true;
    this.pauseButton.hidden = false;
    this.state.clear();
    this.statusNode.textContent = 'connecting …';
    this.stream.start();
  }

  // Seeking backwards replays from the beginning, since frames only apply forwards.
  seek(to) {
    const {file} = this;
    file.stop = Math.max(0, Math.min(to, file.ends.length - 1));
    const target = file.ends[file.stop];
    if (target < file.at || file.at < 0) { this.state.clear(); file.at = -1; }
    while (file.at < target && this.state.apply(file.frames[file.at + 1])) ++file.at;
    if (file.at < target) this.page.say('Frames are missing in this file; the recording is shown up to the gap.');
    this.slider.value = String(file.stop);
    this.node.classList.remove('stale');
    this.statusNode.textContent = `${file.name}: ${file.unit} ${file.stop} of ${file.ends.length - 1}`;
    this.redraw();
  }
  go(step) { if (this.file) { this.stopPlay(); this.seek(this.file.stop + step); } }
  play() {
    if (this.playing) return this.stopPlay();
    const {file} = this;
    if (file.stop >= file.ends.length - 1) this.seek(0);  // restart from the beginning
    this.playButton.textContent = 'Pause';
    this.playing = setInterval(() => {
      this.seek(file.stop + 1);
      if (file.stop >= file.ends.length - 1) this.stopPlay();
    }, 1000 / Number(this.speed.value));
  }
  stopPlay() {
    clearInterval(this.playing);
    this.playing = null;
    this.playButton.textContent = 'Play';
  }

  draw() {
    const {state} = this;
    if (!state.hello || !this.onScreen) return;
    this.mapView.update();
    this.timeline.draw(state);
    this.drawCurves();
    this.drawLegend();
    this.drawQueue();
    this.drawSlots();
    const says = `${state.hello.manager} · ${state.hello.blocks} blocks of ${state.hello.block_size} tokens`;
    if (this.mode.textContent !== says) this.mode.textContent = says;
  }

  drawCurves() {
    const {state, curves} = this;
    const steps = state.steps.slice(-200);
    curves.kv.draw(steps.map((step) => 100 * step.used / state.hello.blocks));
    curves.gap.draw(steps.map((step) => step.took / 1000));
    curves.rate.draw(steps.map((step, i) => {
      const from = steps[Math.max(0, i - 9)];
      const time = (step.started + step.took - from.started) / 1e6;
      return time > 0 ? steps.slice(Math.max(0, i - 9), i + 1).reduce((sum, one) => sum + one.fresh, 0) / time : 0;
    }));
    curves.drafts.draw(steps.map((step) => step.drafts));
    curves.ttft.draw(state.ended.filter((one) => one.first).map((one) => (one.first - one.arrival) / 1e6));
  }

  drawLegend() {
    const counts = this.state.counts();
    const {swap_blocks: room} = this.state.hello;
    const swapped = room ? `swapped out ${room - this.state.swapFree} of ${room}` : '';
    const text = JSON.stringify(counts) + swapped;
    if (text === this.legendText) return;
    this.legendText = text;
    fill(this.legend, Object.entries(counts).map(([kind, count]) => h('li', {'data-kind': kind, 'data-count': count}, swatchOf(kind), `${kKinds[kind]} ${count}`)),
      h('li', null, h('span', {class: 'arrow-swatch', 'aria-hidden': 'true'}, '→'), 'copy-on-write'), swapped && h('li', null, swapped));
  }

  // Redraws at most five times per second, since all rows are rebuilt.
  drawQueue() {
    const now = performance.now();
    if (now - (this.queueAt ?? 0) < 200 && !this.file) { clearTimeout(this.later); this.later = setTimeout(this.redraw, 220); return; }
    this.queueAt = now;
    this.queue.draw(this.state);
  }

  // For a virtual KV manager: each sequence's slot as a bar of address space, filled as far as pages are mapped.
  drawSlots() {
    const {state} = this;
    const own = [...state.sequences.values()].filter((one) => one.virtual >= 0).sort((a, b) => a.virtual - b.virtual).slice(0, 64);
    this.slots.hidden = state.hello.manager !== 'virtual';
    if (this.slots.hidden) return;
    const length = Math.ceil(state.hello.max_model_len / state.hello.block_size);
    fill(this.slots, h('h3', null, 'Slots in address space'), own.map((one) => {
      const mapped = h('span', {class: 'mapped'});
      mapped.style.width = `${Math.min(100, 100 * one.blocks.length / length)}%`;
      return h('div', {class: 'slot', role: 'img', 'aria-label': `${state.name(one.id)}: ${one.blocks.length} of ${length} blocks mapped`}, h('small', null, state.name(one.id)), h('span', {class: 'space'}, mapped));
    }));
  }

  showBlock(block) {
    const {state} = this;
    const owners = state.owners[block] ?? [];
    const kind = state.kind(block);
    this.panel.textContent = `Block ${block}: ${kKinds[kind]}${state.pinned(block) ? ', pinned' : ''}` +
      `${owners.length ? ` by ${owners.slice(0, 8).map((id) => state.name(id)).join(', ')}${owners.length > 8 ? ` and ${owners.length - 8} more` : ''}` : ''}` +
      `${kind === 'held' || kind === 'shared' ? `; ${Math.round(state.fillOf(block) * state.hello.block_size)} of ${state.hello.block_size} tokens` : ''}` +
      `${state.lastEvent.has(block) ? `; ${state.lastEvent.get(block)}` : ''}.`;
  }

  showStep(step) {
    this.stepLine.textContent = `Step ${step.number}: ${step.prefill} prefill and ${plural(step.decode, 'decode token')}, ${plural(step.sequences, 'sequence')}, ${(step.took / 1000).toFixed(1)} ms` +
      `${step.copies ? `, ${plural(step.copies, 'block')} copied` : ''}${step.preempted ? `, ${step.preempted} preempted` : ''}${step.out ? `, ${plural(step.out, 'block')} swapped out` : ''}${step.back ? `, ${step.back} swapped in` : ''}; ${step.running} running, ${step.waiting} waiting`;
  }
}
