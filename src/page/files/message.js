// Views of messages. A view has a node and update(), which is cheap if little has changed.
import {h, fill, iconButton, announce, plural} from './dom.js';
import {MarkdownView} from './markdown.js';
import {tokenView} from './tokens.js';
import {timeBar} from './timebar.js';
import {chips} from './files.js';

function toolCard(call, answer) {
  let text = call.arguments;
  try {
    text = JSON.stringify(JSON.parse(call.arguments), null, 1);
  } catch { /* still being written, or not JSON: as it is */ }
  return h('section', {class: 'card tool', 'aria-label': `Call to ${call.name}`},
    h('div', {class: 'head'}, 'Tool call: ', h('code', null, call.name || '…')), h('pre', {tabindex: '0'}, text), answer);
}

function toolAnswer(call, send) {
  const input = h('textarea', {rows: 2, 'aria-label': `Result of ${call.name}`, placeholder: 'Tool output'});
  return h('div', {class: 'row'}, input, h('button', {type: 'button', onclick: () => send(call, input.value)}, 'Submit result'));
}

function statsLine(node) {
  const stats = node.stats;
  if (!stats) return node.finish === 'stopped' ? 'stopped' : '';
  const seconds = (stats.total - stats.first) / 1000;
  const speed = stats.output > 1 && seconds > 0 ? ` · ${((stats.output - 1) / seconds).toFixed(1)} tokens/s` : '';
  const cached = stats.cached ? ` (${stats.cached} cached)` : '';
  const end = node.finish === 'length' ? ' · stopped at max tokens' : node.finish === 'stopped' ? ' · stopped' : '';
  return `${plural(stats.prompt, 'prompt token')}${cached} · ${stats.output} generated · first token after ${(stats.first / 1000).toFixed(2)} s${speed}${end}`;
}

class AnswerView {
  constructor(node, actions) {
    this.message = node;
    this.actions = actions;
    this.text = new MarkdownView();
    this.reasoning = new MarkdownView();
    this.reasoningBox = h('details', {class: 'reasoning', hidden: true}, h('summary', null, 'Reasoning'), this.reasoning.node);
    this.tokens = h('div', {class: 'tokens', hidden: true});
    this.cards = h('div');
    this.state = h('div', {class: 'state'});
    this.foot = h('footer');
    this.node = h('article', {class: 'message assistant', 'aria-label': 'Answer', 'data-id': node.id},
      this.reasoningBox, this.text.node, this.tokens, this.cards, this.state, this.foot);
    this.asTokens = Boolean(node.tokens);
    this.settled = false;
    this.update();
  }

  update() {
    const node = this.message;
    if (this.settled && !node.running) return;
    this.settled = !node.running;
    this.node.setAttribute('aria-busy', String(Boolean(node.running)));
    if (node.reasoning) {
      this.reasoningBox.hidden = false;
      this.reasoning.update(node.reasoning);
    }
    if (node.tokens && !this.seenTokens) this.seenTokens = this.asTokens = true;
    this.text.node.hidden = this.asTokens;
    this.tokens.hidden = !this.asTokens;
    if (this.asTokens) tokenView(this.tokens, node.tokens);
    else this.text.update(node.text || node.best || '');
    this.text.node.classList.toggle('guess', !node.text && Boolean(node.best));
    if (node.tools) {
      const ask = !node.running && this.actions.answered(node) ? toolAnswer : null;
      fill(this.cards, node.tools.map((call) => toolCard(call, ask?.(call, (c, text) => this.actions.toolResult(node, c, text)))));
    }
    this.showState();
    this.showFoot();
  }

  showState() {
    const node = this.message;
    if (node.waiting) return fill(this.state, h('p', {class: 'note'}, `The server is busy. Retrying in ${node.waiting} s …`));
    if (node.running) {
      const begun = node.text || node.reasoning || node.tools || node.best;
      return fill(this.state, begun ? null : h('p', {class: 'note pulse'}, 'waiting for the first token …'));
    }
    if (!node.error) return fill(this.state);
    const titles = {key: 'API key required', busy: 'Server busy', gone: 'Server unreachable', error: 'Request failed'};
    fill(this.state, h('div', {class: 'error', role: 'alert'}, h('strong', null, titles[node.error.kind] ?? titles.error),
      h('p', null, node.error.message),
      node.error.kind === 'key' && h('button', {type: 'button', onclick: () => this.actions.askKey()}, 'Enter API key'),
      h('button', {type: 'button', onclick: () => this.actions.again(node)}, 'Retry')));
  }

  showFoot() {
    const node = this.message;
    if (node.running) return fill(this.foot);
    fill(this.foot, h('span', {class: 'stats'}, statsLine(node)), timeBar(node.stats),
      h('span', {class: 'actions'}, this.actions.branches(node),
        iconButton('copy', 'Copy the answer', async () => {
          await navigator.clipboard?.writeText(node.text);
          announce('copied');
        }),
        node.tokens && h('button', {type: 'button', class: 'quiet', 'aria-pressed': String(this.asTokens), onclick: () => {
          this.asTokens = !this.asTokens;
          this.settled = false;
          this.update();
        }}, 'Token probabilities'),
        node.group && h('button', {type: 'button', class: 'quiet', onclick: () => this.actions.choose(node)}, 'Use this answer'),
        this.actions.cut(node) && h('button', {type: 'button', class: 'quiet continue', title: 'Continue where the answer was cut off', onclick: () => this.actions.continue(node)}, 'Continue'),
        iconButton('again', 'Answer again', () => this.actions.again(node))));
  }
}

class UserView {
  constructor(node, actions) {
    this.message = node;
    this.actions = actions;
    this.node = h('article', {class: 'message user', 'aria-label': 'You', 'data-id': node.id});
    this.show();
  }
  update() {}
  show() {
    const node = this.message;
    fill(this.node, chips(node.files), node.text && h('div', {class: 'text'}, node.text), h('footer', null, h('span', {class: 'actions'},
      this.actions.branches(node), iconButton('edit', 'Edit', () => this.edit()))));
  }
  edit() {
    const input = h('textarea', {rows: 4, 'aria-label': 'Edit the message', value: this.message.text});
    let files = this.message.files ?? [];
    const kept = h('div', {class: 'chips'});
    const showFiles = () => fill(kept, chips(files, (file) => { files = files.filter((other) => other !== file); showFiles(); }));
    showFiles();
    const send = () => { this.show(); this.actions.edit(this.message, input.value, files); };
    input.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') { event.stopPropagation(); this.show(); }
      if (event.key === 'Enter' && !event.shiftKey) { event.preventDefault(); send(); }
    });
    fill(this.node, kept, input, h('div', {class: 'row'}, h('button', {type: 'button', class: 'main', onclick: send}, 'Send'),
      h('button', {type: 'button', onclick: () => this.show()}, 'Cancel')));
    input.focus();
  }
}

class ToolView {
  constructor(node) {
    this.message = node;
    this.node = h('article', {class: 'message user', 'aria-label': 'Tool result', 'data-id': node.id},
      h('section', {class: 'card tool'}, h('div', {class: 'head'}, 'Tool result'), h('pre', {tabindex: '0'}, node.text)));
  }
  update() {}
}

// Choices of one call, side by side.
class ColumnsView {
  constructor(nodes, actions) {
    this.views = nodes.map((node) => new AnswerView(node, actions));
    this.node = h('div', {class: 'columns', role: 'group', 'aria-label': `${nodes.length} answers`}, this.views.map((view) => view.node));
  }
  update() { for (const view of this.views) view.update(); }
}

export function viewOf(node, siblings, actions) {
  if (node.role === 'user') return new UserView(node, actions);
  if (node.role === 'tool') return new ToolView(node);
  const group = node.group ? siblings.filter((other) => other.group === node.group) : [];
  return group.length > 1 ? new ColumnsView(group, actions) : new AnswerView(node, actions);
}
