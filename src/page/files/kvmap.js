// The KV cache as a map: one cell per block, in pool order, or one row per sequence. Only changed cells are painted.
// Each state has a colour and a shape.
import {h, themeColours} from './dom.js';

// Colours of highlighted owners, in order.
const kLit = ['#d6247a', '#7a3fd6', '#0a8f6b', '#c25700', '#0077a8', '#8a7a00'];

// Paints one cell of the map or of its legend.
export function paintBlock(context, x, y, size, colours, {kind, fill = 1, owners = 1, pinned = false, lit = null}) {
  const gap = size > 6 ? 1 : 0.5;
  const [w, left, top] = [size - 2 * gap, x + gap, y + gap];
  context.fillStyle = colours.bg;
  context.fillRect(x, y, size, size);
  if (kind === 'free') {
    context.strokeStyle = colours.free;
    context.lineWidth = size > 6 ? 1 : 0.5;
    context.strokeRect(left + 0.5, top + 0.5, w - 1, w - 1);
  } else if (kind === 'cached') {
    context.strokeStyle = colours.cached;
    context.lineWidth = Math.max(1, size / 10);
    context.save();
    context.beginPath();
    context.rect(left, top, w, w);
    context.clip();
    context.beginPath();
    for (let i = 1; i < 4; ++i) { context.moveTo(left, top + w * i / 2); context.lineTo(left + w * i / 2, top); }
    context.stroke();
    context.restore();
  } else {
    context.fillStyle = lit ?? colours.held;
    context.globalAlpha = 0.25;
    context.fillRect(left, top, w, w);
    context.globalAlpha = 1;
    context.fillRect(left, top, w * fill, w);
    if (kind === 'shared') paintOwners(context, left, top, w, colours, size >= 12 ? owners : null);
    if (pinned) {
      context.fillStyle = colours.pinned;
      context.beginPath();
      context.moveTo(left, top);
      context.lineTo(left + w / 2, top);
      context.lineTo(left, top + w / 2);
      context.fill();
    }
  }
}

// Paints the inner square of a shared block, with `count` in it.
function paintOwners(context, left, top, w, colours, count) {
  const inner = Math.max(2, w / 2);
  context.fillStyle = colours.shared;
  context.fillRect(left + (w - inner) / 2, top + (w - inner) / 2, inner, inner);
  if (count === null) return;
  context.fillStyle = colours.bg;
  context.font = `bold ${Math.floor(inner * 0.95)}px system-ui`;
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  context.fillText(String(count), left + w / 2, top + w / 2 + 0.5);
}

// A canvas with one cell of this kind.
const kSwatch = 16;  // also a cell size of the map
export function swatchOf(kind) {
  const canvas = h('canvas', {class: 'block-swatch', 'aria-hidden': 'true'});
  const ratio = devicePixelRatio || 1;
  canvas.width = canvas.height = kSwatch * ratio;
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  paintBlock(context, 0, 0, kSwatch, themeColours(), kind === 'pinned' ? {kind: 'held', pinned: true} : {kind, owners: 2});
  return canvas;
}

export class KvMap {
  constructor(state, pick) {
    this.state = state;
    this.pick = pick;
    this.canvas = h('canvas', {class: 'kvmap', tabindex: '0', role: 'img', 'aria-label': 'Blocks of the KV cache; arrow keys move between blocks'});
    this.node = h('div', {class: 'mapbox'}, this.canvas);
    this.zoom = 0;  // 0: fit to the window
    this.at = -1;
    this.lit = new Map();
    this.rows = false;
    this.arrows = [];
    this.canvas.addEventListener('pointermove', (event) => this.point(event));
    this.canvas.addEventListener('click', (event) => { this.point(event); this.light(); });
    this.canvas.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.layout()).observe(this.node);
  }

  layout() {
    const count = this.state.owners.length;
    const width = this.node.clientWidth;
    if (!count || !width) return;
    let fit = 40;
    while (fit > 4 && Math.ceil(count / Math.floor(width / fit)) * fit > this.node.clientHeight) --fit;
    this.cell = this.zoom ? [6, 10, 16, 24, 36][this.zoom - 1] : fit;
    this.columns = Math.max(1, Math.floor(width / this.cell));
    this.makePlaces();
    const height = this.height * this.cell;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.ratio = ratio;
    this.paint();
  }

  // Assigns blocks to cells. By sequence: each sequence starts a row, with cells in block-table order.
  makePlaces() {
    const {state} = this;
    this.cells = [];    // cell -> [block, sequence]
    this.placesOf = null;
    if (!this.rows) {
      this.height = Math.ceil(state.owners.length / this.columns);
      return;
    }
    let row = 0;
    this.placesOf = new Map();
    for (const sequence of [...state.sequences.values()].sort((a, b) => a.request - b.request || a.index - b.index)) {
      sequence.blocks.forEach((block, i) => { this.cells[row * this.columns + i % this.columns + Math.floor(i / this.columns) * this.columns] = [block, sequence.id]; });
      row += Math.max(1, Math.ceil(sequence.blocks.length / this.columns));
    }
    this.height = Math.max(1, row);
  }

  blockAt(cell) { return this.rows ? this.cells[cell]?.[0] ?? -1 : cell < this.state.owners.length ? cell : -1; }

  paint() {
    if (!this.cell) return;
    const context = this.context = this.canvas.getContext('2d');
    this.colours = themeColours();
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = this.colours.bg;
    context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    const cells = this.rows ? this.cells.length : this.state.owners.length;
    for (let cell = 0; cell < cells; ++cell) if (this.blockAt(cell) >= 0) this.paintCell(cell);
    this.state.takeChanged();
    this.paintArrows();
  }

  // After a frame, repaints the cells that have changed or were marked.
  update() {
    const {state} = this;
    if (!state.hello) return;
    if (!this.cell || this.count !== state.owners.length) { this.count = state.owners.length; return this.layout(); }
    if (this.rows) return this.layout();
    const changed = state.takeChanged();
    for (const sequence of state.sequences.values()) if (sequence.blocks.length) changed.add(sequence.blocks.at(-1));
    const copies = state.events.filter((event) => event.kind === 'copy');
    if (this.arrows.length || copies.length) { this.arrows = copies.slice(-20); return this.paint(); }
    for (const block of changed) this.paintCell(block);
  }

  paintCell(cell) {
    const {context, cell: size, state, colours} = this;
    if (!context) return;
    const block = this.blockAt(cell);
    const x = cell % this.columns * size;
    const y = Math.floor(cell / this.columns) * size;
    const owners = state.owners[block] ?? [];
    paintBlock(context, x, y, size, colours, {kind: state.kind(block), fill: state.fillOf(block), owners: owners.length, pinned: state.pinned(block),
      lit: owners.map((id) => this.lit.get(id < 0 ? id : state.sequences.get(id)?.request)).find(Boolean)});
    if (cell === this.at) {
      context.strokeStyle = colours.text;
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, size - 2, size - 2);
    }
  }

  paintArrows() {
    if (this.rows) return;
    const {context, cell: size} = this;
    const middle = (block) => [(block % this.columns + 0.5) * size, (Math.floor(block / this.columns) + 0.5) * size];
    context.strokeStyle = context.fillStyle = this.colours.text;
    context.lineWidth = 1.5;
    for (const {block, to} of this.arrows) {
      const [[x0, y0], [x1, y1]] = [middle(block), middle(to)];
      const angle = Math.atan2(y1 - y0, x1 - x0);
      context.beginPath();
      context.moveTo(x0, y0);
      context.lineTo(x1, y1);
      context.stroke();
      context.beginPath();
      context.moveTo(x1, y1);
      context.lineTo(x1 - 8 * Math.cos(angle - 0.4), y1 - 8 * Math.sin(angle - 0.4));
      context.lineTo(x1 - 8 * Math.cos(angle + 0.4), y1 - 8 * Math.sin(angle + 0.4));
      context.fill();
    }
  }

  go(cell) {
    if (this.blockAt(cell) < 0) return;
    const old = this.at;
    this.at = cell;
    if (old >= 0 && this.blockAt(old) >= 0) this.paintCell(old);
    this.paintCell(cell);
    this.pick(this.blockAt(cell));
  }

  point(event) {
    if (!this.cell) return;
    const cell = Math.floor(event.offsetX / this.cell) + Math.floor(event.offsetY / this.cell) * this.columns;
    if (cell !== this.at && event.offsetX < this.columns * this.cell) this.go(cell);
  }

  // Toggles the highlight of the owners of the current block.
  light() {
    const {state} = this;
    const block = this.blockAt(this.at);
    for (const id of state.owners[block] ?? []) {
      const whose = id < 0 ? id : state.sequences.get(id)?.request;
      if (whose === undefined) continue;
      if (this.lit.has(whose)) this.lit.delete(whose);
      else if (this.lit.size < kLit.length) this.lit.set(whose, kLit.find((colour) => ![...this.lit.values()].includes(colour)));
    }
    this.paint();
  }

  setRows(rows) { this.rows = rows; this.at = -1; this.layout(); }
  setZoom(zoom) { this.zoom = Math.max(0, Math.min(5, zoom)); this.layout(); }

  key(event) {
    const step = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns}[event.key];
    if (step) this.go(Math.max(0, this.at) + (this.at < 0 ? 0 : step));
    else if (event.key === 'Enter') this.light();
    else if (event.key === '+') this.setZoom(this.zoom + 1);
    else if (event.key === '-') this.setZoom(this.zoom - 1);
    else if (event.key === '0') this.setZoom(0);
    else return;
    event.preventDefault();
  }
}
