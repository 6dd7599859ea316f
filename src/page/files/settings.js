// The settings of a conversation: one table of fields, from which the form and the request are derived.
import {h, fill} from './dom.js';
import {presetPicker} from './presets.js';

const kFields = [
  {name: 'system', label: 'System prompt', kind: 'text', rows: 4},
  {name: 'temperature', label: 'Temperature', kind: 'number', min: 0, max: 100, step: 0.05, hint: '0: greedy'},
  {name: 'top_p', label: 'Top p', kind: 'number', min: 0.001, max: 1, step: 0.01},
  {name: 'top_k', label: 'Top k', kind: 'whole', min: -1, max: 100000, hint: '-1: off'},
  {name: 'min_p', label: 'Min p', kind: 'number', min: 0, max: 1, step: 0.01},
  {name: 'max_tokens', label: 'Max tokens', kind: 'whole', min: 1, max: 1000000, hint: 'per answer'},
  {name: 'n', label: 'Answers (n)', kind: 'whole', min: 1, max: 8, hint: 'sampled in parallel, shown side by side'},
  {name: 'seed', label: 'Seed', kind: 'whole', min: 0, max: 2147483647},
  {name: 'repetition_penalty', label: 'Repetition penalty', kind: 'number', min: 0.01, max: 100, step: 0.05},
  {name: 'presence_penalty', label: 'Presence penalty', kind: 'number', min: -2, max: 2, step: 0.1},
  {name: 'frequency_penalty', label: 'Frequency penalty', kind: 'number', min: -2, max: 2, step: 0.1},
  {name: 'beam_width', label: 'Beam width', kind: 'whole', min: 2, max: 8, hint: 'beam search; empty: sampling'},
  {name: 'stop', label: 'Stop strings', kind: 'lines', rows: 2, hint: 'one per line'},
  {name: 'logprobs', label: 'Token probabilities', kind: 'tick', hint: 'colours each token; hover for the alternatives'},
  {name: 'thinking', label: 'Thinking', kind: 'choice', options: ['on', 'off'], shown: (facts) => facts.thinking},
  {name: 'tools', label: 'Tools (JSON array)', kind: 'json', rows: 4},
  {name: 'schema', label: 'JSON schema of the answer', kind: 'json', rows: 4},
];

// llama.cpp's defaults, for models whose files set none; the API's defaults, for values that a model's files omit.
const kLlamaCpp = {temperature: 0.8, top_p: 0.95, top_k: 40, min_p: 0.05};
const kApi = {temperature: 1, top_p: 1, top_k: -1, min_p: 0, repetition_penalty: 1};

// {defaults: by field; sent: defaults that must be sent because the server does not have them; whose: "model",
//  "llama.cpp" or ""; thinking; task: "embed", "score" or "classify" for a model that generates no text}
export const unknownServer = () => ({defaults: {}, sent: {}, whose: '', thinking: false, task: ''});

// `props`: the answer to GET /props, or null.
export function factsOf(props) {
  const params = props?.default_generation_settings?.params;
  if (!params) return unknownServer();
  // The server's numbers are float32: shows 0.2, not 0.200000003.
  const stated = Object.fromEntries(Object.entries(params).map(([name, value]) => [name, typeof value === 'number' ? Number(value.toPrecision(6)) : value]));
  const thinking = String(props.chat_template ?? '').includes('enable_thinking');
  const task = String(props.pooling_task ?? '');
  if (!Object.keys(stated).length)
    return {defaults: {...kApi, ...kLlamaCpp}, sent: kLlamaCpp, whose: 'llama.cpp', thinking, task};
  const {repeat_penalty, ...others} = stated;
  return {defaults: {...kApi, ...others, ...(repeat_penalty === undefined ? {} : {repetition_penalty: repeat_penalty})},
    sent: {}, whose: 'model', thinking, task};
}

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
  if (field.kind === 'text' || field.kind === 'choice') return text;
  if (field.kind === 'lines') return text.split('\n').filter((line) => line !== '');
  if (field.kind === 'json') return JSON.parse(text);
  const number = Number(text);
  if (!Number.isFinite(number) || number < field.min || number > field.max || (field.kind === 'whole' && !Number.isInteger(number)))
    throw new Error(`must be from ${field.min} to ${field.max}`);
  return number;
}

function shown(field, value) {
  if (value === undefined || value === null) return '';
  if (field.kind === 'lines') return Array.isArray(value) ? value.join('\n') : '';
  if (field.kind === 'json') return JSON.stringify(value, null, 1);
  return String(value);
}

// The default is shown in the empty field; the hint below names its source.
function hintOf(field, facts) {
  const known = facts.defaults[field.name] !== undefined && facts.whose;
  return [field.hint, known ? `default: ${facts.whose === 'model' ? 'the model’s' : 'llama.cpp’s'}` : ''].filter(Boolean).join('; ');
}

// Fills `node` with the form. Calls `changed(settings)` after each valid change, and `say(text)` if something cannot
// be stored. Returns a function that gives the form new facts and preserves text being typed.
export function showSettings(node, settings, facts, changed, say) {
  const fields = kFields.map((field) => {
    const id = `set-${field.name}`;
    let hint = '';
    const note = h('small', {id: `${id}-note`});
    const input = field.kind === 'tick' ? h('input', {id, type: 'checkbox', 'aria-describedby': `${id}-note`})
      : field.rows ? h('textarea', {id, rows: field.rows, spellcheck: 'false', 'aria-describedby': `${id}-note`})
      : field.kind === 'choice' ? h('select', {id, 'aria-describedby': `${id}-note`}, h('option', {value: ''}, 'model default'),
        field.options.map((option) => h('option', {value: option}, option)))
      : h('input', {id, type: 'number', min: field.min, max: field.max, step: field.step ?? 1, 'aria-describedby': `${id}-note`});
    if (field.kind === 'tick') input.checked = settings[field.name] === true;
    else input.value = shown(field, settings[field.name]);
    input.addEventListener('change', () => {
      try {
        const value = read(field, field.kind === 'tick' ? input.checked : input.value);
        if (value === undefined || value === false) delete settings[field.name];
        else settings[field.name] = value;
        input.removeAttribute('aria-invalid');
        note.textContent = hint;
        keep(settings);
        changed(settings);
      } catch (error) {
        input.setAttribute('aria-invalid', 'true');
        note.textContent = field.kind === 'json' ? 'Not valid JSON.' : error.message;
      }
    });
    const row = h('div', {class: field.kind === 'tick' ? 'field tick' : 'field'}, h('label', {for: id}, field.label),
      field.name === 'system' && presetPicker(input, say), input, note);
    const tell = (known) => {
      hint = hintOf(field, known);
      if (input.getAttribute('aria-invalid') !== 'true') note.textContent = hint;
      if (input.type === 'number') input.placeholder = known.defaults[field.name] ?? 'default';
      row.hidden = !(field.shown?.(known) ?? true);
    };
    return {row, tell};
  });
  const tellAll = (known) => { for (const field of fields) field.tell(known); };
  tellAll(facts);
  fill(node, fields.map((field) => field.row));
  return tellAll;
}

const kPlain = ['temperature', 'top_p', 'top_k', 'min_p', 'max_tokens', 'n', 'seed', 'repetition_penalty',
  'presence_penalty', 'frequency_penalty', 'stop'];

// The request's fields other than model and messages.
export function requestFields(settings, facts) {
  const fields = {stream: true, stream_options: {include_usage: true}, ...facts.sent};
  for (const name of kPlain) if (settings[name] !== undefined) fields[name] = settings[name];
  if (settings.beam_width !== undefined) {
    Object.assign(fields, {use_beam_search: true, beam_width: Math.max(settings.beam_width, settings.n ?? 1), temperature: 0,
      stream_best_so_far: true});
    for (const name of ['top_p', 'top_k', 'min_p', 'seed']) delete fields[name];
  }
  if (settings.thinking && facts.thinking) fields.chat_template_kwargs = {enable_thinking: settings.thinking === 'on'};
  if (settings.logprobs) Object.assign(fields, {logprobs: true, top_logprobs: 5});
  if (Array.isArray(settings.tools) && settings.tools.length) fields.tools = settings.tools;
  if (settings.schema) fields.response_format = {type: 'json_schema', json_schema: {name: 'answer', schema: settings.schema}};
  return fields;
}
