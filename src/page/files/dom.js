// Makes DOM nodes without HTML strings. All nodes of the page are made here.

// h('button', {class: 'x', onclick: f, 'aria-label': 'y'}, 'text', node, [more]): null and false are skipped.
export function h(tag, props, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'class') node.className = value;
    else if (name === 'value') node.value = value;
    else if (value === true) node.setAttribute(name, '');
    else node.setAttribute(name, value);
  }
  add(node, children);
  return node;
}

export function add(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

export function fill(node, ...children) {
  node.replaceChildren();
  return add(node, children);
}

const kPaths = {
  send: 'M3 11l18-8-8 18-2.500-7.500z',
  stop: 'M6 6h12v12H6z',
  again: 'M4 12a8 8 0 1 0 2.500-5.800M4 4v4.500h4.500',
  edit: 'M4 20h4L19 9l-4-4L4 16z',
  copy: 'M8 8h11v12H8zM5 16V4h11',
  more: 'M4 7h16M4 12h16M4 17h16',
  plus: 'M12 5v14M5 12h14',
  trash: 'M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13',
  rename: 'M4 20h16M6 15l9-9 3 3-9 9H6z',
  left: 'M14 6l-6 6 6 6',
  right: 'M10 6l6 6-6 6',
  gear: 'M12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6M12 2v4M12 18v4M2 12h4M18 12h4M5 5l3 3M16 16l3 3M19 5l-3 3M8 16l-3 3',
  moon: 'M19 14A8 8 0 0 1 10 5a8 8 0 1 0 9 9z',
  key: 'M14 10a4 4 0 1 1-4-4 4 4 0 0 1 4 4zM13 13l7 7M17 17l2-2',
  save: 'M12 4v11M7 11l5 5 5-5M5 20h14',
  load: 'M12 16V5M7 9l5-5 5 5M5 20h14',
  play: 'M7 5l12 7-12 7z',
  pause: 'M8 5v14M16 5v14',
  attach: 'M19 11l-8 8a5 5 0 0 1-7-7l9-9a3.500 3.500 0 0 1 5 5l-9 9a1.800 1.800 0 0 1-2.500-2.500l8-8',
  close: 'M6 6l12 12M18 6L6 18',
};

export function icon(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  for (const [key, value] of Object.entries({viewBox: '0 0 24 24', class: 'icon', 'aria-hidden': 'true'}))
    svg.setAttribute(key, value);
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  path.setAttribute('d', kPaths[name]);
  svg.append(path);
  return svg;
}

// A button that only has an icon; `label` is its tooltip and its name for screen readers.
export function iconButton(name, label, onclick, more) {
  return h('button', {type: 'button', class: 'quiet', title: label, 'aria-label': label, onclick, ...more}, icon(name));
}

// Sets the line that screen readers announce when it changes.
export function announce(text) {
  document.getElementById('announce').textContent = text;
}

export function download(name, text, type = 'application/json') {
  const url = URL.createObjectURL(new Blob([text], {type}));
  h('a', {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// Lets the reader choose files. `props`: attributes of the input (accept, multiple).
export function pickFiles(props, use) {
  const input = h('input', {type: 'file', ...props});
  input.addEventListener('change', () => use([...input.files]));
  input.click();
}

export function pickFile(accept, use) {
  pickFiles({accept}, async ([file]) => { if (file) use(await file.text(), file.name); });
}

// Wraps `work` so that it runs at most once per frame.
export function oncePerFrame(work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; work(); });
  };
}

// The style sheet's colours in the current theme, for painting on a canvas: {bg, text, held, ...}.
const kColourNames = ['bg', 'text', 'dim', 'accent', 'good', 'bad', 'free', 'cached', 'held', 'shared', 'pinned'];
export function themeColours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(kColourNames.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

// "1 block", "2 blocks".
export const plural = (count, noun) => `${count} ${noun}${count === 1 ? '' : 's'}`;
