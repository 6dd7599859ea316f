// Steps as bars, with a few curves below them; drawn on a canvas, newest on the right.
import {h, themeColours} from './dom.js';

function prepare(canvas) {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== width * ratio || canvas.height !== height * ratio) [canvas.width, canvas.height] = [width * ratio, height * ratio];
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  const colours = themeColours();
  context.fillStyle = colours.bg;
  context.fillRect(0, 0, width, height);
  context.font = '12px system-ui';
  return {context, width, height, colours};
}

export class Timeline {
  constructor(pick) {
    this.canvas = h('canvas', {class: 'timeline', tabindex: '0', role: 'img', 'aria-label': 'Engine steps: prefill and decode tokens'});
    this.node = h('div', {class: 'timeline-box'}, this.canvas);
    this.pick = pick;
    this.bar = 5;
    this.canvas.addEventListener('pointermove', (event) => {
      const step = this.shown?.[Math.floor(event.offsetX / this.bar) - (this.offset ?? 0)];
      if (step) pick(step);
    });
  }

  draw(state) {
    const {context, width, height, colours} = prepare(this.canvas);
    const count = Math.max(1, Math.floor(width / this.bar));
    const steps = this.shown = state.steps.slice(-count);
    this.offset = count - steps.length;
    const budget = state.hello?.max_num_batched_tokens ?? 0;
    const top = Math.max(8, ...steps.map((step) => step.prefill + step.decode));
    const scale = (height - 30) / top;
    steps.forEach((step, i) => {
      const x = (this.offset + i) * this.bar;
      const decode = step.decode * scale;
      const prefill = step.prefill * scale;
      context.fillStyle = colours.good;
      context.fillRect(x, height - 14 - decode, this.bar - 1, decode);
      context.fillStyle = colours.accent;
      context.fillRect(x, height - 14 - decode - prefill, this.bar - 1, prefill);
      if (step.preempted || step.out || step.back) {
        context.fillStyle = colours.bad;
        context.beginPath();
        context.moveTo(x, 2);
        context.lineTo(x + this.bar + 2, 2);
        context.lineTo(x + this.bar / 2, 9);
        context.fill();
      }
      if (step.copies) {
        context.fillStyle = colours.shared;
        context.fillRect(x, height - 11, this.bar - 1, 5);
      }
    });
    context.fillStyle = colours.dim;
    context.fillText(`max ${top} tokens per step`, 4, 12);
    if (budget && budget <= top * 1.2) {
      context.strokeStyle = colours.bad;
      context.setLineDash([4, 3]);
      context.beginPath();
      context.moveTo(0, height - 14 - budget * scale);
      context.lineTo(width, height - 14 - budget * scale);
      context.stroke();
      context.setLineDash([]);
    }
  }
}

// A curve of one value over steps or requests. `values`: newest last; absent values leave gaps.
export class Curve {
  constructor(label, unit) {
    this.label = label;
    this.unit = unit;
    this.canvas = h('canvas', {class: 'curve', role: 'img', 'aria-label': label});
    this.node = h('figure', {class: 'curvebox'}, this.canvas, this.caption = h('figcaption', null, label));
  }

  draw(values) {
    const {context, width, height, colours} = prepare(this.canvas);
    const shown = values.slice(-200);
    const top = Math.max(1e-9, ...shown);
    context.strokeStyle = colours.accent;
    context.lineWidth = 1.5;
    context.lineCap = 'round';
    context.beginPath();
    shown.forEach((value, i) => {
      const x = (200 - shown.length + i) / 200 * width;
      const y = height - 3 - value / top * (height - 8);
      if (!i) context.moveTo(x, y);
      if (i || shown.length === 1) context.lineTo(x, y);  // a single value is drawn as a dot
    });
    context.stroke();
    const last = shown.at(-1);
    this.caption.textContent = `${this.label}: ${last === undefined ? '–' : `${last === 0 || last >= 100 ? Math.round(last) : last.toFixed(last < 10 ? 2 : 1)} ${this.unit}`}`;
  }
}
