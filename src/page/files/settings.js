// What can be set for a conversation: one table of fields, from which the form and the request follow.
import {h, fill} from './dom.js';

const kFields = [
  {name: 'system', label: 'System prompt', kind: 'text', rows: 4},
  {name: 'temperature', label: 'Temperature', kind: 'number', min: 0, max: 100, step: 0.05, hint: '0: the likeliest token'},
  {name: 'top_p', label: 'Top p', kind: 'number', min: 0.001, max: 1, step: 0.01},
  {name: 'top_k', label: 'Top k', kind: 'whole', min: -1, max: 100000, hint: '-1: all'},
  {name: 'min_p', label: 'Min p', kind: 'number', min: 0, max: 1, step: 0.01},
  {name: 'max_tokens', label: 'Most tokens', kind: 'whole', min: 1, max: 1000000},
  {name: 'n', label: 'Answers', kind: 'whole', min: 1, max: 8, hint: 'side by side'},
  {name: 'seed', label: 'Seed', kind: 'whole', min: 0, max: 2147483647},
  {name: 'repetition_penalty', label: 'Repetition penalty', kind: 'number', min: 0.01, max: 100, step: 0.05},
  {name: 'presence_penalty', label: 'Presence penalty', kind: 'number', min: -2, max: 2, step: 0.1},
  {name: 'frequency_penalty', label: 'Frequency penalty', kind: 'number', min: -2, max: 2, step: 0.1},
  {name: 'beam_width', label: 'Beam width', kind: 'whole', min: 2, max: 8, hint: 'beam search; empty: sampling'},
  {name: 'stop', label: 'Stop strings', kind: 'lines', rows: 2, hint: 'one a line'},
  {name: 'logprobs', label: 'Token probabilities', kind: 'tick', hint: 'colours tokens; hover for alternatives'},
  {name: 'tools', label: 'Tools (JSON list)', kind: 'json', rows: 4},
  {name: 'schema', label: 'Answer as JSON of this schema', kind: 'json', rows: 4},
];

const kKept = 'pagoda-settings';
export function lastSettings() {
  try {
    const kept = JSON.parse(localStorage.getItem(kKept) ?? '{}');
    return kept !== null && typeof kept === 'object' ? kept : {};
  } catch {
    return {};
  }
}

function keep(settings) {
  try {
    localStorage.setItem(kKept, JSON.stringify(settings));
  } catch { /* the next conversation begins without */ }
}

function read(field, text) {
  if (field.kind === 'tick') return text === true;
  if (text.trim() === '') return undefined;
  if (field.kind === 'text') return text;
  if (field.kind === 'lines') return text.split('\n').filter((line) => line !== '');
  if (field.kind === 'json') return JSON.parse(text);
  const number = Number(text);
  if (!Number.isFinite(number) || number < field.min || number > field.max || (field.kind === 'whole' && !Number.isInteger(number)))
    throw new Error(`from ${field.min} to ${field.max}`);
  return number;
}

function shown(field, value) {
  if (value === undefined || value === null) return '';
  if (field.kind === 'lines') return Array.isArray(value) ? value.join('\n') : '';
  if (field.kind === 'json') return JSON.stringify(value, null, 1);
  return String(value);
}

// Fills `node` with the form; `changed(settings)` after each change that is right.
export function showSettings(node, settings, changed) {
  fill(node, kFields.map((field) => {
    const id = `set-${field.name}`;
    const note = h('small', {id: `${id}-note`}, field.hint ?? '');
    const input = field.kind === 'tick' ? h('input', {id, type: 'checkbox', 'aria-describedby': `${id}-note`})
      : field.rows ? h('textarea', {id, rows: field.rows, spellcheck: 'false', 'aria-describedby': `${id}-note`})
      : h('input', {id, type: 'number', min: field.min, max: field.max, step: field.step ?? 1, placeholder: 'default',
        'aria-describedby': `${id}-note`});
    if (field.kind === 'tick') input.checked = settings[field.name] === true;
    else input.value = shown(field, settings[field.name]);
    input.addEventListener('change', () => {
      try {
        const value = read(field, field.kind === 'tick' ? input.checked : input.value);
        if (value === undefined || value === false) delete settings[field.name];
        else settings[field.name] = value;
        input.removeAttribute('aria-invalid');
        note.textContent = field.hint ?? '';
        keep(settings);
        changed(settings);
      } catch (error) {
        input.setAttribute('aria-invalid', 'true');
        note.textContent = field.kind === 'json' ? 'This is no JSON.' : error.message;
      }
    });
    return h('div', {class: field.kind === 'tick' ? 'field tick' : 'field'}, h('label', {for: id}, field.label), input, note);
  }));
}

const kPlain = ['temperature', 'top_p', 'top_k', 'min_p', 'max_tokens', 'n', 'seed', 'repetition_penalty',
  'presence_penalty', 'frequency_penalty', 'stop'];

// The request's fields beside model and messages.
export function requestFields(settings) {
  const fields = {stream: true, stream_options: {include_usage: true}};
  for (const name of kPlain) if (settings[name] !== undefined) fields[name] = settings[name];
  if (settings.beam_width !== undefined) {
    Object.assign(fields, {use_beam_search: true, beam_width: Math.max(settings.beam_width, settings.n ?? 1), temperature: 0,
      stream_best_so_far: true});
    for (const name of ['top_p', 'top_k', 'min_p', 'seed']) delete fields[name];
  }
  if (settings.logprobs) Object.assign(fields, {logprobs: true, top_logprobs: 5});
  if (Array.isArray(settings.tools) && settings.tools.length) fields.tools = settings.tools;
  if (settings.schema) fields.response_format = {type: 'json_schema', json_schema: {name: 'answer', schema: settings.schema}};
  return fields;
}
