// Mathematics in Markdown: $…$, $$…$$, \(…\) and \[…\] become tokens of the lexer, which KaTeX renders as MathML. KaTeX is
// loaded with the first formula. Formulas that KaTeX does not support, or all in a build without it, stay text.
import {h} from './dom.js';
import libraries from './libraries.js';

const kMaxLength = 5000;
const kShapes = [
  {open: '$$', rule: /^\$\$((?:[^$\\]|\\[^])+?)\$\$/, display: true},
  {open: '\\[', rule: /^\\\[([^]+?)\\\]/, display: true},
  {open: '\\(', rule: /^\\\(([^\n]+?)\\\)/, display: false},
  // Prices are not formulas: no blank just inside the dollar signs, no digit after them.
  {open: '$', rule: /^\$(?![\s$])((?:[^$`\\\n]|\\[^\n])+?)(?<![\s\\])\$(?![\d$])/, display: false},
];

function start(text) {
  return Math.min(...kShapes.map(({open}) => text.indexOf(open)).filter((at) => at >= 0));
}

function tokenizer(shapes, end) {
  return (text) => {
    for (const {rule, display} of shapes) {
      const found = rule.exec(text);
      if (!found || found[1].length > kMaxLength) continue;
      const after = end.exec(text.slice(found[0].length));
      if (after) return {type: 'maths', raw: found[0] + after[0], formula: found[1].trim(), display};
    }
    return undefined;
  };
}

// Extensions for marked.use().
export const mathsExtensions = [
  {name: 'maths', level: 'inline', start: (text) => { const at = start(text); return at < Infinity ? at : undefined; }, tokenizer: tokenizer(kShapes, /^/)},
  {name: 'mathsBlock', level: 'block', start: (text) => text.match(/\n(?:\$\$|\\\[)/)?.index, tokenizer: tokenizer(kShapes.filter((shape) => shape.display), /^[ \t]*(?:\n+|$)/)},
];

let loading = null;
function load() {
  loading ??= libraries.includes('katex.js') ? import('./katex.js').then((module) => module.default) : Promise.resolve(null);
  return loading;
}

export function maths(token) {
  const node = h('span', {class: token.display ? 'maths display' : 'maths'}, token.raw.trim());
  load().then((katex) => {
    if (!katex) return;
    const made = h('span');
    // Throws on unknown commands. `trust: false`, so that a formula cannot contain links.
    katex.render(token.formula, made, {output: 'mathml', displayMode: token.display, trust: false, strict: 'ignore', maxExpand: 200, maxSize: 20});
    node.replaceChildren(...made.childNodes);
  }).catch(() => node.classList.add('unknown'));
  return node;
}
