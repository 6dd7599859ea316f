// The page: views selected by the URL's hash, the server's status, the API key, light and dark theme.
import {h, fill, iconButton} from './dom.js';
import {getJson, key, onServer, ApiFailure} from './api.js';
import {ChatView} from './chat.js';
import {CompareView, knownTask} from './compare.js';
import {EngineView} from './engine.js';
import {LessonsView} from './lessons.js';
import {unknownServer, factsOf} from './settings.js';

const main = document.getElementById('main');
const banner = document.getElementById('banner');
const kViews = [['chat', 'Chat'], ['engine', 'Engine'], ['lessons', 'Lessons']];
const kTaskNames = {embed: 'Compare', score: 'Rank', classify: 'Classify'};  // replaces "Chat"
const views = {};
let models = [];
let facts = unknownServer();

function say(text, kind = 'info') {
  banner.className = kind;
  fill(banner, h('span', null, text), iconButton('close', 'Dismiss', () => { banner.hidden = true; }));
  banner.hidden = !text;
}

let keyForm = null;
function askKey() {
  if (keyForm) return;
  const input = h('input', {type: 'password', autocomplete: 'off', 'aria-label': 'API key', required: true});
  const dialog = h('dialog', {class: 'key-dialog', 'aria-labelledby': 'key-title'}, h('h2', {id: 'key-title'}, 'API key required'),
    h('p', null, 'The key is kept in this tab only and sent to no other server.'), input,
    h('div', {class: 'row'}, h('button', {type: 'button', class: 'main', onclick: () => use()}, 'Save'),
      h('button', {type: 'button', onclick: () => dialog.close()}, 'Cancel')));
  const use = () => {
    if (!input.value) return;
    key.set(input.value);
    dialog.close();
    start();
  };
  input.addEventListener('keydown', (event) => { if (event.key === 'Enter') use(); });
  dialog.addEventListener('close', () => { dialog.remove(); keyForm = null; });
  document.body.append(dialog);
  keyForm = dialog;
  dialog.showModal();
}

const page = {model: () => models[0] ?? '', facts: () => facts, askKey, say};

async function start() {
  try {
    const list = (await getJson('v1/models')).data;
    models = list.map((entry) => entry.id);
    document.getElementById('model').textContent = models[0] ?? '';
    const context = list[0]?.max_model_len;
    document.getElementById('context').textContent = context ? `context ${context.toLocaleString('en')} tokens` : '';
    if (banner.className === 'error') banner.hidden = true;
    facts = factsOf(await getJson('props').catch(() => null));
    views.chat?.factsChanged();
    if (knownTask(facts.task)) show();
  } catch (error) {
    if (error instanceof ApiFailure && error.kind === 'key') askKey();
    else if (!(error instanceof ApiFailure && error.kind === 'gone')) say(error.message, 'error');
  }
}

function show() {
  const name = location.hash.slice(1).split('/')[0];
  const current = kViews.some(([known]) => known === name) ? name : 'chat';
  const pools = knownTask(facts.task);
  fill(document.getElementById('tabs'), kViews.map(([known, label]) =>
    h('a', {href: `#${known}`, 'aria-current': known === current ? 'page' : null}, known === 'chat' && pools ? kTaskNames[facts.task] : label)));
  const shown = current === 'chat' && pools ? 'compare' : current;
  if (pools) views.compare ??= new CompareView(page);
  else views.chat ??= new ChatView(page);
  if (current !== 'chat') views.engine ??= new EngineView(page);
  if (current === 'lessons') views.lessons ??= new LessonsView(page, (frames, title, text) => {
    location.hash = '#engine';
    views.engine.showRun(frames, title, text);
  });
  for (const [known, view] of Object.entries(views)) if (known !== shown) view.hidden?.();
  fill(main, views[shown].node);
  views[shown].shown?.();
}

const kThemes = ['', 'light', 'dark'];
function theme(next) {
  let now = '';
  try {
    now = localStorage.getItem('pagoda-theme') ?? '';
    if (next) localStorage.setItem('pagoda-theme', now = kThemes[(kThemes.indexOf(now) + 1) % 3]);
  } catch { /* not kept */ }
  if (now) document.documentElement.dataset.theme = now;
  else delete document.documentElement.dataset.theme;
  for (const view of Object.values(views)) view.theme?.();
}

theme(false);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => theme(false));
fill(document.getElementById('tools'), iconButton('moon', 'Theme: system, light or dark', () => theme(true)),
  iconButton('key', 'API key', askKey));
document.addEventListener('keydown', (event) => { if (views.chat?.onKey(event)) event.preventDefault(); });
addEventListener('hashchange', show);
onServer((reachable) => {
  if (!reachable) return say('Server unreachable. Reconnecting … Saved conversations stay readable.', 'error');
  banner.hidden = true;
  start();
});
show();
start();
