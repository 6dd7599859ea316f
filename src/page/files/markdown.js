// Converts Markdown to nodes, from the lexer's tokens: no HTML strings are made, and HTML in the text stays text.
// Links may only use http, https and mailto; an image is shown as its text, so that no answer can make the browser
// fetch anything. Without the libraries the text is shown unformatted.
import {h, fill, iconButton, announce} from './dom.js';
import libraries from './libraries.js';
import {maths, mathsExtensions} from './maths.js';

let lexer = null;
let prism = null;
const early = new Map();  // views shown before the libraries were loaded -> their text
const loaded = (async () => {
  if (libraries.includes('marked.js')) {
    const marked = await import('./marked.js');
    marked.use({extensions: mathsExtensions});
    ({lexer} = marked);
  }
  if (libraries.includes('prism.js')) prism = (await import('./prism.js')).default;
})();
loaded.then(() => {
  for (const [view, text] of early) view.update(text);
  early.clear();
});

const kEntities = {amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', copy: '©', reg: '®', hellip: '…',
  mdash: '—', ndash: '–', times: '×', rarr: '→', larr: '←', deg: '°', euro: '€', middot: '·', bull: '•'};
function decode(text) {
  return text.replace(/&(#x[0-9a-f]{1,6}|#[0-9]{1,7}|[a-z]{1,8});/gi, (all, name) => {
    if (name[0] !== '#') return kEntities[name] ?? all;
    const code = name[1] === 'x' || name[1] === 'X' ? parseInt(name.slice(2), 16) : parseInt(name.slice(1), 10);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : all;
  });
}

export function safeLink(text) {
  try {
    const url = new URL(text);
    return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function inline(tokens) {
  return (tokens ?? []).map((token) => {
    switch (token.type) {
      case 'strong': return h('strong', null, inline(token.tokens));
      case 'em': return h('em', null, inline(token.tokens));
      case 'del': return h('del', null, inline(token.tokens));
      case 'br': return h('br');
      case 'codespan': return h('code', null, decode(token.text));
      case 'image': return `[image: ${decode(token.text ?? '')}]`;
      case 'link': {
        const href = safeLink(decode(token.href ?? ''));
        const text = inline(token.tokens);
        if (!href) return h('span', null, text);
        return h('a', {href, target: '_blank', rel: 'noopener noreferrer nofollow'}, text);
      }
      case 'html': return token.raw;
      case 'text': return token.tokens ? inline(token.tokens) : decode(token.text);
      case 'escape': return decode(token.text);
      case 'maths': return maths(token);
      default: return token.raw;
    }
  });
}

const kAliases = {js: 'javascript', py: 'python', sh: 'bash', shell: 'bash', zsh: 'bash', html: 'markup', xml: 'markup',
  svg: 'markup', ts: 'typescript', 'c++': 'cpp', cc: 'cpp', h: 'c', rs: 'rust', yml: 'yaml', golang: 'go'};
const kMaxHighlighted = 50000;

function coloured(parts) {
  return (Array.isArray(parts) ? parts : [parts]).map((part) => typeof part === 'string' ? part
    : h('span', {class: `tok-${String(part.type).replace(/[^a-z-]/g, '')}`}, coloured(part.content)));
}

function code(token) {
  const name = (token.lang ?? '').trim().split(/\s/)[0].toLowerCase();
  const grammar = prism && Object.hasOwn(prism.languages, kAliases[name] ?? name)
    ? prism.languages[kAliases[name] ?? name] : null;
  const text = token.text;
  const body = typeof grammar === 'object' && grammar && text.length < kMaxHighlighted
    ? coloured(prism.tokenize(text, grammar)) : text;
  const copy = iconButton('copy', 'Copy the code', async () => {
    await navigator.clipboard?.writeText(text);
    announce('copied');
  });
  return h('figure', {class: 'code'},
    h('figcaption', null, h('span', null, name.slice(0, 20) || 'text'), copy),
    h('pre', {tabindex: '0'}, h('code', null, body)));
}

function block(token) {
  switch (token.type) {
    case 'heading': return h(`h${Math.min(token.depth + 1, 6)}`, null, inline(token.tokens));
    case 'paragraph': return h('p', null, inline(token.tokens));
    case 'text': return h('span', null, token.tokens ? inline(token.tokens) : decode(token.text));
    case 'code': return code(token);
    case 'blockquote': return h('blockquote', null, token.tokens.map(block));
    case 'hr': return h('hr');
    case 'maths': return h('p', null, maths(token));
    case 'list':
      return h(token.ordered ? 'ol' : 'ul', {start: token.ordered && token.start !== 1 ? token.start : null},
        token.items.map((item) => h('li', null,
          item.task && h('input', {type: 'checkbox', disabled: true, checked: item.checked, 'aria-label': 'done'}),
          item.tokens.map(block))));
    case 'table': {
      const side = (i) => token.align[i] ? `to-${token.align[i]}` : null;
      return h('div', {class: 'wide', tabindex: '0', role: 'group', 'aria-label': 'table'}, h('table', null,
        h('thead', null, h('tr', null, token.header.map((cell, i) =>
          h('th', {scope: 'col', class: side(i)}, inline(cell.tokens))))),
        h('tbody', null, token.rows.map((row) => h('tr', null, row.map((cell, i) =>
          h('td', {class: side(i)}, inline(cell.tokens))))))));
    }
    case 'space': case 'def': return null;
    default: return h('p', null, token.raw);
  }
}

// The view of a growing text. Unchanged blocks keep their nodes, so that a new token only rebuilds the last block.
export class MarkdownView {
  constructor() {
    this.node = h('div', {class: 'markdown'});
    this.raws = [];
  }

  update(text) {
    if (!lexer) {
      early.set(this, text);
      this.node.classList.add('plain');
      this.node.textContent = text;
      return;
    }
    if (this.node.classList.contains('plain')) fill(this.node).classList.remove('plain');
    let tokens;
    try {
      tokens = lexer(text).filter((token) => token.type !== 'space' && token.type !== 'def');
    } catch {  // nested too deeply
      this.raws = [];
      this.node.textContent = text;
      return;
    }
    let same = 0;
    while (same < tokens.length && this.raws[same] === tokens[same].raw) ++same;
    while (this.node.childNodes.length > same) this.node.lastChild.remove();
    this.raws.length = Math.min(this.raws.length, same);
    for (const token of tokens.slice(same)) {
      let node;
      try {
        node = block(token);
      } catch {
        node = h('p', null, token.raw);
      }
      this.node.append(node ?? '');
      this.raws.push(token.raw);
    }
  }
}
