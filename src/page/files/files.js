// Text files attached to a message: reads and checks them, shows them as chips, and formats them for the model.
import {h, iconButton, plural} from './dom.js';

const kMaxBytes = 512 * 1024;  // per file
const kMaxFiles = 10;  // per message

export function sizeText(bytes) {
  if (bytes < 1024) return plural(bytes, 'byte');
  return bytes < 1024 * 1024 ? `${(bytes / 1024).toFixed(bytes < 10240 ? 1 : 0)} KB` : `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}

// Decodes UTF-8, or UTF-16 with a byte order mark; null if the bytes are not text.
function decode(bytes) {
  const utf16 = {'255,254': 'utf-16le', '254,255': 'utf-16be'}[`${bytes[0]},${bytes[1]}`];
  try {
    const text = new TextDecoder(utf16 ?? 'utf-8', {fatal: true}).decode(bytes);
    // Rejects control characters other than tabs, line ends and escapes (colours of terminal logs).
    return text.startsWith('%PDF-') || /[\x00-\x08\x0e-\x1a\x1c-\x1f]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

async function readOne(file) {
  if (file.size > kMaxBytes) throw new Error(`“${file.name}” is too large (${sizeText(file.size)}); the limit is ${sizeText(kMaxBytes)}.`);
  let bytes;
  try {
    bytes = new Uint8Array(await file.arrayBuffer());
  } catch {
    throw new Error(`“${file.name}” cannot be read.`);
  }
  if (!bytes.length) throw new Error(`“${file.name}” is empty.`);
  const text = decode(bytes);
  if (text === null) throw new Error(`“${file.name}” is not plain text. Only text files can be attached.`);
  return {name: file.name, text};
}

// Returns {files: {name, text} of `already` and of all `chosen` files that can be read; a file replaces an older one of
//  the same name; problems: a sentence for each file that cannot be read}
export async function readFiles(already, chosen) {
  const files = new Map(already.map((file) => [file.name, file]));
  const problems = [];
  for (const one of chosen) {
    try {
      if (!files.has(one.name) && files.size >= kMaxFiles) throw new Error(`“${one.name}” is left out: a message takes ${kMaxFiles} files at most.`);
      files.set(one.name, await readOne(one));
    } catch (error) {
      problems.push(error.message);
    }
  }
  return {files: [...files.values()], problems};
}

// Validates the files of a stored or imported message.
export const areFiles = (files) => files === undefined || Array.isArray(files) &&
  files.every((file) => file !== null && typeof file === 'object' && typeof file.name === 'string' && typeof file.text === 'string');

// A message's content in the API's form: a string, or one text part per file followed by the message.
export function contentOf(text, files) {
  if (!files?.length) return text;
  const parts = files.map((file) => `--- File: ${file.name.replace(/\s+/g, ' ')} ---\n${file.text}${file.text.endsWith('\n') ? '' : '\n'}`);
  return [...parts, ...(text ? [text] : [])].map((part) => ({type: 'text', text: part}));
}

// Chips that open to show the file's text. `remove(file)`: adds a remove button if given.
export function chips(files, remove) {
  return (files ?? []).map((file) => h('div', {class: 'chip'},
    h('details', null, h('summary', null, h('span', {class: 'chip-name'}, file.name), h('small', null, sizeText(new Blob([file.text]).size))),
      h('pre', {tabindex: '0', 'aria-label': file.name}, file.text)),
    remove && iconButton('close', `Remove ${file.name}`, () => remove(file))));
}
