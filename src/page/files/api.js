// Access to the server: JSON calls, server-sent events, errors with advice, the API key. URLs are relative, so that
// the page works under any path prefix of a proxy. The key is kept for this tab only.

const kKeyName = 'pagoda-key';
export const key = {
  get: () => { try { return sessionStorage.getItem(kKeyName) ?? ''; } catch { return ''; } },
  set: (value) => { try { sessionStorage.setItem(kKeyName, value); } catch { /* asked for again, then */ } },
  clear: () => { try { sessionStorage.removeItem(kKeyName); } catch { /* none was kept */ } },
};

// kind: 'key' (401, 403), 'busy' (429, 503; seconds), 'gone' (no answer), 'stopped', 'error'.
export class ApiFailure extends Error {
  constructor(kind, message, {status = 0, seconds = 0} = {}) {
    super(message);
    this.kind = kind;
    this.status = status;
    this.seconds = seconds;
  }
}

const listeners = new Set();
export function onServer(listener) { listeners.add(listener); }
let gone = false;
function serverIs(reachable) {
  if (reachable !== gone) return;
  gone = !reachable;
  for (const listener of listeners) listener(reachable);
  if (gone) lookAgain();
}

// Polls until the server answers again, with growing intervals.
function lookAgain(wait = 500) {
  setTimeout(async () => {
    try {
      if ((await fetch('health', {cache: 'no-store'})).ok) return serverIs(true);
    } catch { /* still away */ }
    lookAgain(Math.min(wait * 2, 8000));
  }, wait);
}

async function failureOf(response) {
  let message = `The server answered ${response.status}.`;
  try {
    message = JSON.parse(await response.text()).error.message;
  } catch { /* not ours: the number says what there is to say */ }
  const status = response.status;
  if (status === 401 || status === 403) {
    if (status === 401) key.clear();
    return new ApiFailure('key', message, {status});
  }
  if (status === 429 || status === 503) {
    const seconds = Math.min(60, Math.max(1, Number(response.headers.get('retry-after')) || 1));
    return new ApiFailure('busy', message, {status, seconds});
  }
  return new ApiFailure('error', message, {status});
}

async function ask(path, {method = 'GET', body, signal} = {}) {
  const headers = {};
  if (body !== undefined) headers['content-type'] = 'application/json';
  if (key.get()) headers.authorization = `Bearer ${key.get()}`;
  let response;
  try {
    response = await fetch(path, {method, headers, signal, cache: 'no-store', credentials: 'same-origin',
      body: body === undefined ? undefined : JSON.stringify(body)});
  } catch (error) {
    if (signal?.aborted) throw new ApiFailure('stopped', 'Stopped.');
    serverIs(false);
    throw new ApiFailure('gone', 'The server is unreachable.');
  }
  serverIs(true);
  if (!response.ok) throw await failureOf(response);
  return response;
}

export async function getJson(path, options) {
  const text = await (await ask(path, options)).text();
  return text ? JSON.parse(text) : null;
}

// Yields each event's data until the stream ends. Throws ApiFailure if it ends early.
export async function* events(path, options = {}) {
  const response = await ask(path, options);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const {done, value} = await reader.read();
      if (done) return;
      const parts = (rest + value).split('\n\n');
      rest = parts.pop();
      for (const part of parts) {
        const data = part.split('\n').filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trimStart());
        if (data.length) yield data.join('\n');
      }
    }
  } catch (error) {
    if (options.signal?.aborted) throw new ApiFailure('stopped', 'Stopped.');
    serverIs(false);
    throw new ApiFailure('gone', 'The connection was lost.');
  } finally {
    reader.cancel().catch(() => {});
  }
}

// Yields the chunks of a chat answer. Throws on an error inside the stream.
export async function* chatChunks(body, signal) {
  for await (const data of events('v1/chat/completions', {method: 'POST', body, signal})) {
    if (data === '[DONE]') return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ApiFailure('error', chunk.error.message);
    yield chunk;
  }
  throw new ApiFailure('gone', 'The stream ended before the answer was complete.');
}
