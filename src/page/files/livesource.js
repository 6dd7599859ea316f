// Sources of frames: the server's stream, or a file of a run. The stream is open only while the view is visible, and
// restarts with a snapshot after an interruption.
import {events, ApiFailure} from './api.js';

export class LiveStream {
  // on: {frame(frame), status(kind, text)}; kinds: live, lost, key, busy, error. everyStep: one frame per step; else
  // ten per second.
  constructor(on, {everyStep = false} = {}) {
    this.on = on;
    // Selects one of several engines (--data-parallel-size) by the page's ?engine=N.
    const engine = new URLSearchParams(location.search).get('engine') ?? '0';
    this.path = `debug/live?engine=${encodeURIComponent(engine)}${everyStep ? '&every=step' : ''}`;
    this.stopper = null;
  }

  start() {
    if (this.stopper) return;
    this.stopper = new AbortController();
    this.run(this.stopper);
  }

  stop() {
    this.stopper?.abort();
    this.stopper = null;
  }

  async run(stopper) {
    for (let wait = 500; !stopper.signal.aborted; wait = Math.min(10000, wait * 2)) {
      try {
        for await (const data of events(this.path, {signal: stopper.signal})) {
          wait = 500;
          if (!this.on.frame(JSON.parse(data))) break;
          this.on.status('live', '');
        }
      } catch (error) {
        if (stopper.signal.aborted) return;
        const kind = error instanceof ApiFailure ? error.kind : 'error';
        this.on.status(kind === 'gone' ? 'lost' : kind, error.message);
        if (kind === 'key') return;
      }
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
}

// The stops of a recording: one for each frame with steps, including the frames up to the next one, and one before
// the first. {ends: index of the last frame of each stop; single: true if each stop is one step}
export function stopsOf(frames) {
  const ends = [];
  let single = true;
  frames.forEach((frame, i) => {
    const steps = frame.type === 'delta' ? frame.steps?.length ?? 0 : 0;
    if (i === 1 || steps > 0) ends.push(i);
    else if (i > 1) ends[ends.length - 1] = i;
    if (steps > 1) single = false;
  });
  return {ends, single};
}

// The frames of a file (pagoda simulate --live-out), one per line. Throws Error with a message for the reader.
export function framesOf(text) {
  const frames = text.split('\n').filter((line) => line.trim()).map((line, i) => {
    try {
      return JSON.parse(line);
    } catch {
      throw new Error(`Line ${i + 1} of the file is not valid JSON.`);
    }
  });
  const known = (frame) => frame !== null && typeof frame === 'object' && ['hello', 'snap', 'delta'].includes(frame.type);
  if (!frames.every(known) || frames[0]?.type !== 'hello' || frames[1]?.type !== 'snap' ||
      !Number.isInteger(frames[0].blocks) || frames[0].blocks > 10_000_000)
    throw new Error('The file is not an engine recording (pagoda simulate --live-out writes one).');
  return frames;
}
