// "Show me": a few requests that make the engine do what the paper is about, recorded from the live stream, then
// played slowly in the engine's view with a sentence on what to look at.
import {h, fill} from './dom.js';
import {getJson} from './api.js';
import {LiveStream} from './livesource.js';

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

export class LessonsView {
  // show(frames, name, text): plays them.
  constructor(page, show) {
    this.page = page;
    this.show = show;
    this.node = h('div', {class: 'lessons'}, h('h1', {class: 'title'}, 'Lessons'), h('p', null,
      'Each lesson sends a few requests to this server, records the engine and replays the recording in slow motion.'),
      kLessons.map((lesson) => this.card(lesson)));
  }

  card(lesson) {
    const said = h('p', {class: 'panel', role: 'status'});
    const button = h('button', {type: 'button', class: 'main', id: `lesson-${lesson.name}`, onclick: () => this.start(lesson, said)}, 'Run');
    return h('section', {class: 'lesson', 'aria-label': lesson.title}, h('h2', null, `${lesson.title} (${lesson.paper})`), h('p', null, lesson.watch), h('div', {class: 'row'}, button, said));
  }

  async start(lesson, said) {
    if (this.busy) return;
    this.busy = true;
    const frames = [];
    let trouble = '';
    let begun = null;
    const stream = new LiveStream({
      frame: (frame) => {
        frames.push(frame);
        if (frame.type === 'snap') begun?.();
        return true;
      },
      status: (kind, text) => { if (kind !== 'live') { trouble = text || kind; begun?.(); } },
    });
    const first = new Promise((resolve) => { begun = resolve; });
    try {
      fill(said, 'recording …');
      stream.start();
      await first;
      if (trouble) throw new Error(trouble);
      if (lesson.tight && frames[0].blocks > kTightBlocks)
        throw new Error(`This server has ${frames[0].blocks} blocks, too many to fill in a lesson. Start one with --max-model-len 512 --kv-cache-memory-bytes 8M --swap-space 8M.`);
      await lesson.run(this.page.model(), frames[0]);
      await new Promise((resolve) => setTimeout(resolve, 400));
      const broken = frames.findLastIndex((frame) => frame.type === 'hello');
      fill(said, `recorded ${frames.length - 2} frames`);
      stream.stop();
      this.show(frames.slice(broken), lesson.title, lesson.watch);
    } catch (error) {
      fill(said, error.message);
    } finally {
      stream.stop();
      this.busy = false;
    }
  }
}
