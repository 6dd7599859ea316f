// The engine's state, built from frames: a snapshot, then deltas. Used for live streams and for files of runs;
// independent of the screen. Owners of a block are sequence ids; a negative id is a pinned prefix.

const kSteps = 5000;
const kEnded = 500;

export class LiveState {
  constructor() { this.clear(); }

  clear() {
    this.hello = null;
    this.n = -1;
    this.step = 0;
    this.now = 0;
    this.requests = new Map();
    this.sequences = new Map();
    this.cached = new Set();
    this.prefixes = [];
    this.owners = [];    // by block: sequence ids
    this.changed = new Set();  // blocks changed since the last takeChanged()
    this.steps = [];
    this.events = [];    // events of the last frame
    this.lastEvent = new Map();  // block -> text
    this.ended = [];
    this.missed = 0;
  }

  // Returns false if the delta does not follow the current state; then a new snapshot is needed.
  apply(frame) {
    if (frame.type === 'hello') {
      if (this.hello && this.hello.boot !== frame.boot) this.clear();
      if (!this.hello || this.hello.blocks !== frame.blocks) this.owners = Array.from({length: frame.blocks}, () => []);
      this.hello = frame;
      return true;
    }
    if (!this.hello) return false;
    if (frame.type === 'snap') this.reset();
    else if (frame.type !== 'delta' || frame.n !== this.n + 1) return false;
    this.n = frame.n;
    this.step = frame.step;
    this.now = frame.now;
    this.available = frame.available;
    this.swapFree = frame.swap_free;
    for (const id of frame.gone ?? []) this.requests.delete(id);
    for (const id of frame.sequences_gone ?? []) this.dropSequence(id);
    for (const row of frame.requests) this.takeRequest(row);
    for (const row of frame.sequences) this.takeSequence(row);
    const advance = frame.advance ?? [];
    for (let i = 0; i < advance.length; i += 4) {
      const sequence = this.sequences.get(advance[i]);
      if (sequence) [sequence.tokens, sequence.computed, sequence.logprob] = [advance[i + 1], advance[i + 2], advance[i + 3] / 1000];
    }
    for (const block of frame.uncached ?? []) { this.cached.delete(block); this.changed.add(block); }
    for (const block of frame.cached) { this.cached.add(block); this.changed.add(block); }
    if (frame.prefixes) this.takePrefixes(frame.prefixes);
    this.takeNews(frame);
    return true;
  }

  reset() {
    for (const id of [...this.sequences.keys()]) this.dropSequence(id);
    this.requests.clear();
    for (const block of this.cached) this.changed.add(block);
    this.cached.clear();
  }

  takeRequest([id, state, code, position, needed, preemptions, cached, prompt, arrival, scheduled, first, beam]) {
    this.requests.set(id, {id, state, code, position, needed, preemptions, cached, prompt, arrival, scheduled, first, beam});
  }

  takeSequence([id, request, index, state, tokens, computed, logprob, virtual, swapped, keep, blocks]) {
    const old = this.sequences.get(id);
    const kept = old ? old.blocks.slice(0, keep) : [];
    if (old) for (const block of old.blocks.slice(keep)) this.disown(block, id);
    for (const block of blocks) this.own(block, id);
    this.sequences.set(id, {id, request, index, state, tokens, computed, logprob: logprob / 1000, virtual, swapped,
      blocks: kept.concat(blocks)});
  }

  dropSequence(id) {
    for (const block of this.sequences.get(id)?.blocks ?? []) this.disown(block, id);
    this.sequences.delete(id);
  }

  own(block, id) { this.owners[block]?.push(id); this.changed.add(block); }
  disown(block, id) {
    const owners = this.owners[block];
    const at = owners?.indexOf(id) ?? -1;
    if (at >= 0) owners.splice(at, 1);
    this.changed.add(block);
  }

  takePrefixes(rows) {
    this.prefixes.forEach((prefix, i) => { for (const block of prefix.blocks) this.disown(block, -1 - i); });
    this.prefixes = rows.map(([name, blocks]) => ({name, blocks}));
    this.prefixes.forEach((prefix, i) => { for (const block of prefix.blocks) this.own(block, -1 - i); });
  }

  takeNews(frame) {
    for (const [number, started, took, prefill, decode, drafts, fresh, sequences, preempted, copies, out, back, waiting, running, used] of frame.steps)
      this.steps.push({number, started, took, prefill, decode, drafts, fresh, sequences, preempted, copies, out, back, waiting, running, used});
    if (this.steps.length > kSteps) this.steps.splice(0, this.steps.length - kSteps);
    this.events = frame.events.map(([step, kind, sequence, block, to, count]) => ({step, kind, sequence, block, to, count}));
    for (const event of this.events) {
      if (event.block < 0) continue;
      const text = event.kind === 'copy' ? `copied to block ${event.to} before a write` : {evict: 'its old content was evicted',
        hit: 'found in the prefix cache', swap_out: 'swapped out', swap_in: 'swapped in'}[event.kind] ?? event.kind;
      this.lastEvent.set(event.block, `${text}, step ${event.step}`);
      if (event.kind === 'copy') this.lastEvent.set(event.to, `copy of block ${event.block}, step ${event.step}`);
    }
    for (const [id, reason, arrival, scheduled, first, ended, prompt, cached, output, preemptions] of frame.ended)
      this.ended.push({id, reason, arrival, scheduled, first, ended, prompt, cached, output, preemptions});
    if (this.ended.length > kEnded) this.ended.splice(0, this.ended.length - kEnded);
    this.missed += frame.missed ?? 0;
  }

  takeChanged() {
    const changed = this.changed;
    this.changed = new Set();
    return changed;
  }

  // 'free', 'cached', 'held' (one owner) or 'shared' (several), whether or not it is pinned.
  kind(block) {
    const owners = this.owners[block];
    if (!owners?.length) return this.cached.has(block) ? 'cached' : 'free';
    return owners.length > 1 ? 'shared' : 'held';
  }
  pinned(block) { return this.owners[block]?.some((id) => id < 0) ?? false; }

  // The fraction of a block's slots that hold tokens of its first owner.
  fillOf(block) {
    const id = this.owners[block]?.find((owner) => owner >= 0);
    const sequence = id === undefined ? null : this.sequences.get(id);
    if (!sequence || this.hello.groups.length > 1) return 1;
    const at = sequence.blocks.indexOf(block);
    return Math.max(0, Math.min(1, sequence.computed / this.hello.block_size - at));
  }

  name(id) {
    if (id < 0) return `prefix “${this.prefixes[-1 - id]?.name ?? ''}”`;
    const sequence = this.sequences.get(id);
    return sequence ? `request ${sequence.request}/${sequence.index}` : `sequence ${id}`;
  }

  counts() {
    const out = {free: 0, cached: 0, held: 0, shared: 0, pinned: 0};
    for (let block = 0; block < this.owners.length; ++block) {
      ++out[this.kind(block)];
      if (this.pinned(block)) ++out.pinned;
    }
    return out;
  }

  // For tests: everything that a snapshot contains, to compare with one.
  summary() {
    return {step: this.step, requests: [...this.requests.values()].sort((a, b) => a.id - b.id),
      sequences: [...this.sequences.values()].sort((a, b) => a.id - b.id), cached: [...this.cached].sort((a, b) => a - b),
      prefixes: this.prefixes};
  }
}
