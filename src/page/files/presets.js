// System prompt presets: a few built-in ones, and the reader's own, stored in this browser.
import {h, fill} from './dom.js';

const kBuiltIn = [
  ['Short answers', 'Answer in as few words as the question allows. If you do not know, say so.'],
  ['Programmer', 'You are an experienced programmer. Give working code first, then a short explanation. State the assumptions you make.'],
  ['Code review', 'Review the code in the message. List bugs first, then risks, then style. Name the line and suggest a fix for each.'],
  ['Summary', 'Summarise the text in the message in at most five bullet points. Add nothing that the text does not say.'],
  ['Translation into English', 'Translate the message into English. Reply with the translation only.'],
  ['Tutor', 'Explain step by step, with a small example. End with one question that checks whether it was understood.'],
];
const kKept = 'pagoda-presets';
const kMaxKept = 50;

function own() {
  try {
    const kept = JSON.parse(localStorage.getItem(kKept) ?? '[]');
    return Array.isArray(kept) ? kept.filter((row) => Array.isArray(row) && row.length === 2 && row.every((part) => typeof part === 'string')) : [];
  } catch {
    return [];
  }
}

// Returns false if the browser cannot store them.
function keep(rows) {
  try {
    localStorage.setItem(kKept, JSON.stringify(rows));
    return true;
  } catch {
    return false;
  }
}

// A list of presets for the field `input`. Choosing a preset fills the field as if typed.
export function presetPicker(input, say) {
  const select = h('select', {id: 'preset', 'aria-label': 'System prompt preset'});
  const save = h('button', {type: 'button', onclick: () => ask()}, 'Save as preset');
  const drop = h('button', {type: 'button', onclick: () => { keep(own().filter(([name]) => name !== select.value.slice(4))); show(); }}, 'Delete preset');
  const row = h('div', {class: 'row wrapleft'});
  const textOf = (value) => value.startsWith('own:') ? own().find(([name]) => name === value.slice(4))?.[1] : kBuiltIn.find(([name]) => name === value)?.[1];

  // Rebuilds the list and selects the preset that matches the field.
  function show() {
    const kept = own();
    const option = (prefix) => ([name]) => h('option', {value: prefix + name}, name);
    fill(select, h('option', {value: ''}, 'Choose a preset'), h('optgroup', {label: 'Built in'}, kBuiltIn.map(option(''))),
      kept.length ? h('optgroup', {label: 'Saved in this browser'}, kept.map(option('own:'))) : null);
    match();
    fill(row, save, drop);
  }
  function match() {
    const is = ([, text]) => text === input.value;
    const mine = own().find(is);
    select.value = mine ? `own:${mine[0]}` : kBuiltIn.find(is)?.[0] ?? '';
    drop.hidden = !mine;
    save.hidden = !input.value.trim() || select.value !== '';
  }
  function ask() {
    const name = h('input', {'aria-label': 'Name of the preset', placeholder: 'Name', maxlength: 60});
    const end = () => {
      const called = name.value.trim();
      if (!called) return show();
      if (!keep([...own().filter(([other]) => other !== called), [called, input.value]].slice(-kMaxKept))) say('This browser blocks storage: the preset was not saved.');
      show();
    };
    name.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') { event.preventDefault(); end(); }
      if (event.key === 'Escape') { event.stopPropagation(); show(); }
    });
    fill(row, name, h('button', {type: 'button', class: 'main', onclick: end}, 'Save'));
    name.focus();
  }

  select.addEventListener('change', () => {
    const text = textOf(select.value);
    if (text === undefined) return match();
    input.value = text;
    input.dispatchEvent(new Event('change'));
  });
  for (const kind of ['input', 'change']) input.addEventListener(kind, match);
  show();
  return [select, row];
}
