// Lessons: a few requests that show the techniques of the PagedAttention paper. Every step is recorded, then played
// back slowly in the engine view with a sentence on what to look at.
import {h, fill, plural} from './dom.js';
import {getJson} from './api.js';
import {LiveState} from './livestate.js';
import {LiveStream, stopsOf} from './livesource.js';

const kStory = 'The keeper of the lighthouse wrote down every ship that passed, its flag and its course, and the weather of the day. '.repeat(4);

async function complete(model, prompt, more) {
  return getJson('v1/completions', {method: 'POST', body: {model, prompt, ignore_eos: true, ...more}});
}

const kLessons = [
  {name: 'samples', title: 'Parallel sampling: one prompt, four answers', paper: '§4.4',
    watch: 'Four sequences share the blocks of the prompt (reference count 4). When a sequence writes its first token into the last, partly filled block, that block is copied first (copy-on-write, drawn as an arrow). The last owner writes in place.',
    run: (model) => complete(model, `${kStory}One night`, {n: 4, max_tokens: 160, temperature: 1})},
  {name: 'beams', title: 'Beam search: forking and pruning', paper: '§4.4',
    watch: 'Beams fork from each other and share all blocks but their last ones. The blocks of a pruned beam are freed. The list of beams shows their cumulative log-probabilities.',
    run: (model) => complete(model, `${kStory}One night`, {n: 4, use_beam_search: true, max_tokens: 64, temperature: 0})},
  {name: 'prefix', title: 'Shared prefix: computed once, pinned', paper: '§4.4',
    watch: 'Pinned blocks have a notch. Three requests with the same prefix share its blocks (reference count 4 with the pin) and skip their prefill.',
    run: async (model) => {
      const name = `lesson-${Date.now()}`;
      await getJson('admin/prefixes', {method: 'POST', body: {name, text: kStory}});
      try {
        await Promise.all(['In spring', 'In summer', 'In winter'].map((end) => complete(model, kStory + end, {max_tokens: 120, temperature: 1})));
      } finally {
        await getJson(`admin/prefixes/${name}`, {method: 'DELETE'}).catch(() => {});
      }
    }},
  {name: 'preemption', title: 'Preemption: more requests than memory', paper: '§4.5', tight: true,
    watch: 'When no block is free, the request that arrived last is preempted: its blocks are swapped out, or recomputed later. The queue says what requests wait for; red marks above the steps are preemptions and swaps.',
    run: (model, hello) => {
      const tokens = Math.min(300, Math.floor(hello.max_model_len / 2));
      const count = Math.min(12, Math.max(4, Math.ceil(1.6 * hello.blocks * hello.block_size / (tokens + 150))));
      return Promise.all(Array.from({length: count}, (_, i) => complete(model, `${i} ${kStory}`, {max_tokens: tokens, temperature: 1})));
    }},
];
const kTightBlocks = 260;
const kLastFrames = 3000;  // ms to wait for the frames of the last step

// Records every engine step while `work(hello)` runs, as frames. Throws Error with a message for the reader.
async function record(work) {
  const frames = [];
  const state = new LiveState();
  let restarts = -1;  // hellos after the first: the reader did not keep up
  let trouble = '';
  let wake = null;
  const stream = new LiveStream({
    frame: (frame) => {
      if (frame.type === 'hello') { ++restarts; frames.length = 0; }
      frames.push(frame);
      state.apply(frame);
      wake?.();
      return true;
    },
    status: (kind, text) => { if (kind !== 'live') { trouble = text || kind; wake?.(); } },
  }, {everyStep: true});
  const until = (ready, ms) => new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    wake = () => { if (ready()) { clearTimeout(timer); resolve(); } };
    wake();
  });
  try {
    stream.start();
    await until(() => trouble || frames.length >= 2, 15000);
    if (frames.length < 2) throw new Error(trouble || 'The engine sends no frames.');
    await work(frames[0]);
    await until(() => trouble || state.requests.size === 0, kLastFrames);
  } finally {
    wake = null;
    stream.stop();
  }
  if (trouble || restarts > 0) throw new Error('The connection was too slow to record every step. Try again.');
  return frames;
}

export class LessonsView {
  // show(frames, name, text): plays the frames.
  constructor(page, show) {
    this.page = page;
    this.show = show;
    this.node = h('div', {class: 'lessons'}, h('h1', {class: 'title'}, 'Lessons'), h('p', null,
      'Each lesson sends a few requests to this server, records every engine step and plays the recording back slowly.'),
      kLessons.map((lesson) => this.card(lesson)));
  }

  card(lesson) {
    const said = h('p', {class: 'panel', role: 'status'});
    const button = h('button', {type: 'button', class: 'main', id: `lesson-${lesson.name}`, onclick: () => this.start(lesson, said)}, 'Run');
    return h('section', {class: 'lesson', 'aria-label': lesson.title}, h('h2', null, `${lesson.title} (${lesson.paper})`), h('p', null, lesson.watch), h('div', {class: 'row'}, button, said));
  }

  async start(lesson, said) {
    if (this.busy) return;
    if (this.page.facts().task) return fill(said, 'The lessons need a model that generates text; this one does not.');
    this.busy = true;
    try {
      fill(said, 'recording …');
      const frames = await record((hello) => {
        if (lesson.tight && hello.blocks > kTightBlocks)
          throw new Error(`This server has ${hello.blocks} blocks, too many to fill in a lesson. Start one with --max-model-len 512 --kv-cache-memory-bytes 16M --swap-space 16M.`);
        return lesson.run(this.page.model(), hello);
      });
      fill(said, `recorded ${plural(stopsOf(frames).ends.length - 1, 'step')}`);
      this.show(frames, lesson.title, lesson.watch);
    } catch (error) {
      fill(said, error.message);
    } finally {
      this.busy = false;
    }
  }
}
