// An answer as tokens, coloured by their probability, with the alternatives at each position. The thickness of the
// underline conveys the same as the colour.
import {h} from './dom.js';

export function level(logprob) {
  const p = Math.exp(logprob);
  return p > 0.9 ? 0 : p > 0.6 ? 1 : p > 0.3 ? 2 : p > 0.1 ? 3 : 4;
}

const percent = (logprob) => `${(100 * Math.exp(logprob)).toFixed(1)} %`;
const visible = (text) => text.replaceAll('\n', '⏎').replaceAll(' ', '␣') || '∅';
let shown = null;

function hide() {
  shown?.remove();
  shown = null;
}

function show(target, [text, logprob, top]) {
  hide();
  const rows = top.some(([other]) => other === text) ? top : [[text, logprob], ...top];
  shown = h('div', {class: 'alternatives', id: 'alternatives', role: 'tooltip'}, h('table', null, rows.map(([other, lp]) =>
    h('tr', {class: other === text ? 'taken' : null}, h('td', null, visible(other)), h('td', null, percent(lp)),
      h('td', null, h('meter', {min: 0, max: 1, value: Math.exp(lp), 'aria-hidden': 'true'}))))));
  document.body.append(shown);
  const box = target.getBoundingClientRect();
  shown.style.left = `${Math.max(4, Math.min(box.left, innerWidth - shown.offsetWidth - 4))}px`;
  const below = box.bottom + 4;
  shown.style.top = `${below + shown.offsetHeight < innerHeight ? below : box.top - shown.offsetHeight - 4}px`;
  target.setAttribute('aria-describedby', 'alternatives');
}

// Appends the new tokens. The group is one tab stop: arrow keys move between tokens.
export function tokenView(node, tokens) {
  if (node.childNodes.length === 0) {
    node.setAttribute('role', 'group');
    node.setAttribute('aria-label', 'Tokens with their probabilities; arrow keys move between tokens');
    node.addEventListener('pointerover', (event) => {
      const at = event.target.closest('.token');
      if (at) show(at, at.token);
    });
    node.addEventListener('pointerleave', hide);
    node.addEventListener('focusin', (event) => { if (event.target.token) show(event.target, event.target.token); });
    node.addEventListener('focusout', hide);
    node.addEventListener('keydown', (event) => {
      const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
      const next = step === 1 ? event.target.nextSibling : step === -1 ? event.target.previousSibling : null;
      if (event.key === 'Escape') hide();
      if (!next) return;
      event.preventDefault();
      event.target.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
  }
  for (let i = node.childNodes.length; i < tokens.length; ++i) {
    const span = h('span', {class: `token p${level(tokens[i][1])}`, tabindex: i === 0 ? '0' : '-1', role: 'img',
      'aria-label': `${tokens[i][0]} ${percent(tokens[i][1])}`}, tokens[i][0]);
    span.token = tokens[i];
    node.append(span);
  }
}
