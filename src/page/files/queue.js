// The engine's requests: waiting requests in a collapsible group per state, with reasons; running requests in a
// table, with their beams.
import {h, fill, plural} from './dom.js';

// Reasons for a request's place, by the server's code.
const needs = (r, s) => `needs ${plural(r.needed, 'block')}, ${s.available} free`;
const kReasons = {
  running: () => 'running', parked: () => 'running; some sequences wait for blocks',
  swapped_blocks: needs, blocks: needs,
  swapped_turn: () => 'behind other swapped-out requests',
  before: (r) => r.position >= 50 ? 'at least 50 requests ahead' : `${plural(r.position, 'request')} ahead`,
  swapped_first: () => 'swapped-out requests resume first', gang_first: () => 'a running request resumes its parked sequences first',
  sequences: (r, s) => `no free sequence slot (--max-num-seqs ${s.hello.max_num_seqs})`,
  adapters: () => 'waits for a running adapter to finish (--max-loras)',
  budget: () => 'token budget of the step is used up (--max-num-batched-tokens)', batch: () => 'waits for the current batch to finish',
  arriving: () => 'its KV cache is being loaded from a tier',
};
const reason = (request, state) => (kReasons[request.code] ?? (() => request.code))(request, state);
const kTurns = ['before', 'swapped_turn'];  // only wait for the requests ahead
const kGroups = {waiting: 'waiting', arriving: 'loading KV cache', swapped: 'swapped out'};
const kListed = 100;

// Columns of the table; minor ones are hidden on phones.
const kColumns = [['request'], ['state', true], ['prompt'], ['cached', true], ['generated'], ['blocks'], ['preempted', true], ['age']];
const cell = (tag, i, props, content) => h(tag, {...props, class: kColumns[i][1] ? 'minor' : null}, content);
const seconds = (us) => `${(us / 1e6).toFixed(1)} s`;

export class QueueView {
  // lit: colour by request id.
  constructor(lit) {
    this.lit = lit;
    this.groups = Object.keys(kGroups).map((state) => {
      const group = {state, line: h('summary'), list: h('ul')};
      group.node = h('details', {class: 'queue-group', 'data-state': state, hidden: true, ontoggle: () => this.drawGroup(group)}, group.line, group.list);
      return group;
    });
    this.body = h('tbody');
    const table = h('table', {class: 'queue'}, h('caption', {class: 'unseen'}, 'Running requests'),
      h('thead', null, h('tr', null, kColumns.map(([name], i) => cell('th', i, {scope: 'col'}, name)))), this.body);
    this.beams = h('section', {class: 'beams', hidden: true, 'aria-label': 'Beams'});
    this.node = h('section', {'aria-label': 'Requests', class: 'engine-queue'}, h('h2', null, 'Requests'), this.groups.map((group) => group.node),
      h('div', {class: 'queue-area', tabindex: '0', role: 'group', 'aria-label': 'Running requests and beams'}, table, this.beams));
  }

  draw(state) {
    this.state = state;
    for (const group of this.groups) this.drawGroup(group);
    this.drawTable();
    this.drawBeams();
  }

  drawGroup(group) {
    const {state} = this;
    if (!state) return;
    const requests = [...state.requests.values()].filter((one) => one.state === group.state).sort((a, b) => a.position - b.position || a.id - b.id);
    group.node.hidden = !requests.length;
    if (!requests.length) return;
    const head = requests.find((one) => !kTurns.includes(one.code)) ?? requests[0];
    const says = `${requests.length} ${kGroups[group.state]}: ${reason(head, state)}`;
    if (group.line.textContent !== says) group.line.textContent = says;
    if (!group.node.open) return;
    fill(group.list, requests.slice(0, kListed).map((one) =>
      h('li', null, `request ${one.id}: ${reason(one, state)}; ${plural(one.prompt, 'prompt token')}, ${seconds(state.now - one.arrival)} old`)),
      requests.length > kListed ? h('li', null, `and ${requests.length - kListed} more`) : null);
  }

  drawTable() {
    const {state} = this;
    const of = new Map();
    for (const sequence of state.sequences.values()) of.set(sequence.request, [...(of.get(sequence.request) ?? []), sequence]);
    const running = [...state.requests.values()].filter((one) => !(one.state in kGroups)).sort((a, b) => a.id - b.id).slice(0, kListed);
    const none = state.requests.size ? 'none running' : 'idle';
    fill(this.body, running.map((request) => this.row(request, of.get(request.id) ?? [])),
      running.length ? null : h('tr', null, h('td', {colspan: kColumns.length}, none)));
  }

  row(request, own) {
    const {state} = this;
    const generated = own.reduce((sum, one) => sum + Math.max(0, one.tokens - request.prompt), 0);
    const blocks = new Set(own.flatMap((one) => one.blocks)).size + own.reduce((sum, one) => sum + one.swapped, 0);
    const swatch = this.lit.has(request.id) ? h('span', {class: 'swatch'}) : null;
    if (swatch) swatch.style.background = this.lit.get(request.id);
    const cells = [[swatch, String(request.id)], h('span', {title: reason(request, state)}, request.code === 'parked' ? 'parked' : request.state),
      `${Math.min(request.prompt, own[0]?.computed ?? 0)}/${request.prompt}`, request.cached, `${generated}${own.length > 1 ? ` in ${own.length}` : ''}`,
      blocks, request.preemptions, seconds(state.now - request.arrival)];
    return h('tr', {class: request.state}, cells.map((content, i) => cell('td', i, null, content)));
  }

  drawBeams() {
    const {state} = this;
    const beams = [...state.requests.values()].filter((one) => one.beam);
    this.beams.hidden = beams.length === 0;
    fill(this.beams, beams.slice(0, 4).map((request) => [h('h3', null, `Beams of request ${request.id}`), h('ol', null,
      [...state.sequences.values()].filter((one) => one.request === request.id).sort((a, b) => b.logprob - a.logprob).map((one) =>
        h('li', null, `logprob ${one.logprob.toFixed(2)}, ${plural(one.tokens, 'token')}, ${plural(one.blocks.length, 'block')}, ${one.blocks.filter((block) => state.owners[block].length > 1).length} shared`)))]));
  }
}
