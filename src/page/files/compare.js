// The view for models that generate no text. Embedding models compare texts with each other, rerankers score
// documents against a query, and classifiers label texts.
import {h, fill, announce, plural} from './dom.js';
import {getJson, ApiFailure} from './api.js';

const kMaxTexts = 64;

// The API's answers as rows in the order of `texts`.
const kTasks = {
  embed: {title: 'Compare texts', says: 'This is an embedding model. Paste texts to see how similar they are: each cell is the cosine similarity of two texts.',
    button: 'Compare', least: 2, example: ['A cat sleeps on the sofa.', 'A kitten naps on the couch.', 'The train to Berlin leaves at nine.'],
    run: async (model, texts, view) => view.showMatrix(texts, vectorsOf(await getJson('v1/embeddings', {method: 'POST', body: {model, input: texts, encoding_format: 'float'}}), texts.length))},
  score: {title: 'Rank documents', says: 'This model scores how relevant a document is to a query. Paste documents to rank them, the best first.',
    button: 'Rank', least: 1, query: 'Where does the cat sleep?', example: ['A cat sleeps on the sofa.', 'A kitten naps on the couch.', 'The train to Berlin leaves at nine.'],
    run: async (model, texts, view) => view.showRanks(texts, (await getJson('v1/rerank', {method: 'POST', body: {model, query: view.query.value.trim(), documents: texts}})).results)},
  classify: {title: 'Classify texts', says: 'This model assigns a label to each text.',
    button: 'Classify', least: 1, example: ['What a lovely day!', 'The delivery was late again.'],
    run: async (model, texts, view) => view.showLabels(texts, (await getJson('classify', {method: 'POST', body: {model, input: texts}})).data)},
};
export const knownTask = (task) => task in kTasks;

function vectorsOf(answer, count) {
  const vectors = Array(count).fill(null);
  for (const row of answer.data) vectors[row.index] = row.embedding;
  return vectors;
}

export function cosine(a, b) {
  let [dot, aa, bb] = [0, 0, 0];
  for (let i = 0; i < a.length; ++i) { dot += a[i] * b[i]; aa += a[i] * a[i]; bb += b[i] * b[i]; }
  return aa && bb ? dot / Math.sqrt(aa * bb) : 0;
}

// One text per line or, if there are empty lines, one text per paragraph.
export function textsOf(pasted) {
  const whole = pasted.replaceAll('\r\n', '\n').trim();
  return whole.split(/\n\s*\n/.test(whole) ? /\n\s*\n/ : '\n').map((text) => text.trim()).filter(Boolean);
}

export class CompareView {
  // page: {model(), facts(), askKey(), say(text)}
  constructor(page) {
    this.page = page;
    this.node = h('div', {class: 'compare'});
  }

  // Shows the form for the model's task.
  shown() {
    const task = kTasks[this.page.facts().task];
    if (!task || task === this.task) return;
    this.task = task;
    this.query = task.query === undefined ? null : h('input', {id: 'query', value: task.query});
    this.input = h('textarea', {id: 'texts', rows: 7, spellcheck: 'false', value: task.example.join('\n'), 'aria-describedby': 'texts-note'});
    this.button = h('button', {type: 'button', class: 'main', id: 'compare', onclick: () => this.run()}, task.button);
    this.state = h('p', {class: 'panel', role: 'status'});
    this.result = h('div', {class: 'compare-result'});
    fill(this.node, h('h1', {class: 'title'}, task.title), h('p', null, task.says),
      this.query && h('div', {class: 'field'}, h('label', {for: 'query'}, 'Query'), this.query),
      h('div', {class: 'field'}, h('label', {for: 'texts'}, task.query === undefined ? 'Texts' : 'Documents'), this.input,
        h('small', {id: 'texts-note'}, 'One per line; with blank lines between them, one per paragraph.')),
      h('div', {class: 'row'}, this.button, this.state), this.result);
  }

  async run() {
    if (this.busy) return;
    const texts = textsOf(this.input.value);
    if (texts.length < this.task.least) return fill(this.state, `Enter at least ${plural(this.task.least, 'text')}.`);
    if (texts.length > kMaxTexts) return fill(this.state, `${texts.length} texts; the limit is ${kMaxTexts}.`);
    if (this.query && !this.query.value.trim()) return fill(this.state, 'Enter a query.');
    this.busy = this.button.disabled = true;
    fill(this.state, 'computing …');
    const began = performance.now();
    try {
      await this.task.run(this.page.model(), texts, this);
      fill(this.state, `${plural(texts.length, 'text')} in ${((performance.now() - began) / 1000).toFixed(2)} s`);
      announce('done');
    } catch (error) {
      fill(this.result);
      fill(this.state, error instanceof ApiFailure ? error.message : 'The server sent a malformed response.');
      if (error.kind === 'key') this.page.askKey();
    } finally {
      this.busy = this.button.disabled = false;
    }
  }

  showMatrix(texts, vectors) {
    const values = vectors.map((a) => vectors.map((b) => cosine(a, b)));
    let best = null;
    values.forEach((row, i) => row.forEach((value, j) => { if (j > i && (!best || value > best.value)) best = {i, j, value}; }));
    const name = (i) => h('span', {class: 'text-name', title: texts[i]}, h('b', null, String(i + 1)), ` ${texts[i]}`);
    const cell = (value, i, j) => {
      const node = h('td', {class: 'similarity', title: `${i + 1} and ${j + 1}: ${value.toFixed(4)}`}, h('i', {class: 'heat'}), h('span', null, value.toFixed(2)));
      node.firstChild.style.opacity = String(Math.max(0, Math.min(1, value)) * 0.45);
      return node;
    };
    fill(this.result, h('div', {class: 'wide', tabindex: '0', role: 'group', 'aria-label': 'Similarity of each pair'}, h('table', {class: 'matrix'},
      h('caption', {class: 'unseen'}, 'Cosine similarity'),
      h('thead', null, h('tr', null, h('th', {scope: 'col'}, 'Text'), texts.map((_, i) => h('th', {scope: 'col', title: texts[i]}, String(i + 1))))),
      h('tbody', null, values.map((row, i) => h('tr', null, h('th', {scope: 'row'}, name(i)), row.map((value, j) => cell(value, i, j))))))),
    best && h('p', {class: 'dim'}, `Most similar: ${best.i + 1} and ${best.j + 1} (${best.value.toFixed(3)}). Vectors of ${vectors[0].length} elements.`));
  }

  showRanks(texts, results) {
    const top = Math.max(1e-9, ...results.map((row) => Math.abs(row.relevance_score)));
    fill(this.result, h('ol', {class: 'ranks'}, results.map((row) => this.bar(texts[row.index], row.relevance_score.toFixed(4), Math.max(0, row.relevance_score) / top))));
  }

  showLabels(texts, rows) {
    fill(this.result, h('ol', {class: 'ranks'}, rows.map((row, i) =>
      this.bar(texts[row.index ?? i], `${row.label ?? 'no label'}, ${(100 * Math.max(...row.probs)).toFixed(1)} %`, Math.max(...row.probs)))));
  }

  bar(text, says, share) {
    const fillIn = h('i', {class: 'bar-fill'});
    fillIn.style.width = `${Math.round(100 * Math.min(1, share))}%`;
    return h('li', null, h('span', {class: 'rank-text'}, text), h('span', {class: 'rank-bar', 'aria-hidden': 'true'}, fillIn), h('span', {class: 'rank-says'}, says));
  }
}
