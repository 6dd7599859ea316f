// A bar that shows how an answer's time was spent. Measured by the server (`timings`) or else by the page.
import {h} from './dom.js';

const kParts = [['queue_ms', 'queued', 'queue'], ['prompt_ms', 'prefill', 'prefill'],
  ['preempted_ms', 'preempted', 'preempted'], ['predicted_ms', 'decode', 'decode']];

export function timeBar(stats) {
  if (!stats) return null;
  const timings = stats.timings ?? {prompt_ms: stats.first, predicted_ms: Math.max(0, stats.total - stats.first)};
  const parts = kParts.map(([key, says, kind]) => ({says, kind, ms: Number(timings[key]) || 0})).filter((part) => part.ms > 0);
  const total = parts.reduce((sum, part) => sum + part.ms, 0);
  if (!total) return null;
  const label = parts.map((part) => `${part.says} ${(part.ms / 1000).toFixed(2)} s`).join(', ');
  const bar = h('span', {class: 'timebar', role: 'img', 'aria-label': label, title: label}, parts.map((part) => {
    const piece = h('span', {class: `part ${part.kind}`});
    piece.style.flexGrow = String(part.ms / total);
    return piece;
  }));
  return bar;
}
