// One call for an answer: turns a conversation and its settings into growing messages. Independent of what is on the
// screen. Each of the n choices becomes a separate message under the same parent.
import {addMessage, pathTo} from './store.js';
import {contentOf} from './files.js';
import {chatChunks, ApiFailure} from './api.js';
import {requestFields} from './settings.js';

// The request's messages: the path to `parent`, without the page's own fields.
export function messagesFor(chat, parent) {
  const out = chat.settings.system ? [{role: 'system', content: chat.settings.system}] : [];
  for (const node of pathTo(chat, parent)) {
    if (node.role === 'tool') out.push({role: 'tool', tool_call_id: node.call, content: node.text});
    else if (node.role === 'user') out.push({role: 'user', content: contentOf(node.text, node.files)});
    else if (node.tools?.length)
      out.push({role: 'assistant', content: node.text || null,
        tool_calls: node.tools.map((call) => ({id: call.id, type: 'function', function: {name: call.name, arguments: call.arguments}}))});
    else out.push({role: 'assistant', content: node.text});
  }
  return out;
}

function take(node, delta) {
  if (delta.content) node.text += delta.content;
  const reasoning = delta.reasoning ?? delta.reasoning_content;
  if (reasoning) node.reasoning = (node.reasoning ?? '') + reasoning;
  for (const part of delta.tool_calls ?? []) {
    node.tools ??= [];
    const call = node.tools[part.index] ??= {id: '', name: '', arguments: ''};
    if (part.id) call.id = part.id;
    if (part.function?.name) call.name += part.function.name;
    if (part.function?.arguments) call.arguments += part.function.arguments;
  }
}

function takeTokens(node, logprobs) {
  for (const token of logprobs?.content ?? []) {
    node.tokens ??= [];
    node.tokens.push([token.token, token.logprob, token.top_logprobs.map((top) => [top.token, top.logprob])]);
  }
}

// Prepares `fields` and `node`, the last message, for a call that continues it.
function continued(node, fields) {
  delete fields.n;
  Object.assign(fields, {continue_final_message: true, add_generation_prompt: false});
  for (const name of ['error', 'finish', 'stats']) delete node[name];
  return Object.assign(node, {running: true});
}

// Starts the call immediately; calls `changed()` on every change. The answers become messages below `parent`; `cut`:
// an answer below it to continue instead. The result's `done` always resolves when the call ends; failures are in the
// messages' `error`.
export function askFor(chat, parent, page, changed, cut = null) {
  const fields = requestFields(chat.settings, page.facts());
  const messages = messagesFor(chat, cut?.id ?? parent);
  const nodes = cut ? [continued(cut, fields)] : [];
  const group = fields.n > 1 ? String(Date.now()) : undefined;
  while (nodes.length < (fields.n ?? 1)) nodes.push(addMessage(chat, parent, {role: 'assistant', running: true, group}));
  chat.chosen[parent] = nodes[0].id;
  const stopper = new AbortController();
  const began = performance.now();
  let firstAt = 0;

  async function once() {
    const request = {model: page.model(), messages, ...fields};
    for await (const chunk of chatChunks(request, stopper.signal)) {
      nodes[0].call_id ??= chunk.id;
      if (chunk.best_so_far) {
        nodes[0].best = chunk.best_so_far.text;
        firstAt ||= performance.now();
      }
      for (const choice of chunk.choices ?? []) {
        const node = nodes[choice.index];
        if (!node) continue;
        if (choice.delta.content || choice.delta.reasoning || choice.delta.tool_calls) firstAt ||= performance.now();
        take(node, choice.delta);
        takeTokens(node, choice.logprobs);
        if (choice.finish_reason) node.finish = choice.finish_reason;
      }
      if (chunk.usage && !(chunk.choices ?? []).length) note(chunk.usage);
      changed();
    }
  }

  function note(usage) {
    const now = performance.now();
    nodes[0].stats = {prompt: usage.prompt_tokens, output: usage.completion_tokens,
      cached: usage.prompt_tokens_details?.cached_tokens ?? 0, timings: usage.timings,
      first: Math.round((firstAt || now) - began), total: Math.round(now - began)};
  }

  async function wait(seconds) {
    for (let left = seconds; left > 0; --left) {
      nodes[0].waiting = left;
      changed();
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, 1000);
        stopper.signal.addEventListener('abort', () => { clearTimeout(timer); resolve(); }, {once: true});
      });
      if (stopper.signal.aborted) break;
    }
    delete nodes[0].waiting;
  }

  async function run() {
    let failure = null;
    for (let attempt = 0; ; ++attempt) {
      failure = null;
      try {
        await once();
      } catch (error) {
        failure = error instanceof ApiFailure ? error : new ApiFailure('error', 'The server sent a malformed response.');
      }
      // A busy server says when to retry. Retries once, and only if no text has arrived.
      if (failure?.kind !== 'busy' || attempt > 0 || firstAt) break;
      await wait(failure.seconds);
      if (stopper.signal.aborted) { failure = new ApiFailure('stopped', 'Stopped.'); break; }
    }
    for (const node of nodes) {
      delete node.running;
      if (!node.text && node.best) node.text = node.best;
      delete node.best;
      if (failure && failure.kind !== 'stopped') node.error = {kind: failure.kind, message: failure.message};
      if (failure?.kind === 'stopped') node.finish = 'stopped';
    }
    changed();
    return failure;
  }
  return {nodes, stop: () => stopper.abort(), done: run()};
}
