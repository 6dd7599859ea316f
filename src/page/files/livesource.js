// Where frames come from: the server's stream, or a file of a run. A stream is open only while somebody looks, and
// begins anew, with a snapshot, after a break.
import {events, ApiFailure} from './api.js';

export class LiveStream {
  // on: {frame(frame), status(kind, text)}; kinds: live, lost, key, busy, error
  constructor(on) {
    this.on = on;
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
        for await (const data of events('debug/live', {signal: stopper.signal})) {
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

// The frames of a file (pagoda simulate --live-out), a line each. Throws Error with a sentence.
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
