// Conversations, stored only in this browser (IndexedDB). A conversation is a tree of messages: editing or asking
// again adds a sibling, and `chosen` says which child is shown. If the browser cannot store them, they last as long
// as the page, and `kept` is false.

import {areFiles} from './files.js';

const kName = 'pagoda';
const kStore = 'chats';
const memory = new Map();
export let kept = true;
let opening = null;

function database() {
  opening ??= new Promise((resolve) => {
    let request;
    try {
      request = indexedDB.open(kName, 1);
    } catch {
      kept = false;
      return resolve(null);
    }
    request.onupgradeneeded = () => request.result.createObjectStore(kStore, {keyPath: 'id'});
    request.onsuccess = () => resolve(request.result);
    request.onerror = request.onblocked = () => { kept = false; resolve(null); };
  });
  return opening;
}

async function run(mode, work) {
  const db = await database();
  if (!db) return null;
  return new Promise((resolve, reject) => {
    const transaction = db.transaction(kStore, mode);
    const request = work(transaction.objectStore(kStore));
    transaction.oncomplete = () => resolve(request.result);
    transaction.onerror = transaction.onabort = () => reject(transaction.error);
  });
}

export async function loadChats() {
  const chats = (await run('readonly', (store) => store.getAll())) ?? [...memory.values()];
  return chats.filter(isChat).sort((a, b) => b.updated - a.updated);
}

// Throws if the browser's storage is full.
export async function saveChat(chat) {
  memory.set(chat.id, chat);
  await run('readwrite', (store) => store.put(JSON.parse(JSON.stringify(chat))));
}

export async function dropChat(id) {
  memory.delete(id);
  await run('readwrite', (store) => store.delete(id));
}

export const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(9)), (byte) =>
  byte.toString(16).padStart(2, '0')).join('');

export function newChat(settings) {
  const now = Date.now();
  return {id: newId(), title: '', created: now, updated: now, settings: {...settings}, nodes: {}, chosen: {}};
}

const kRoles = ['user', 'assistant', 'tool'];
export const kRoot = 'root';

export function addMessage(chat, parent, message) {
  const node = {id: newId(), parent, at: Date.now(), text: '', ...message};
  chat.nodes[node.id] = node;
  chat.chosen[parent] = node.id;
  return node;
}

export function children(chat, parent) {
  return Object.values(chat.nodes).filter((node) => node.parent === parent).sort((a, b) => a.at - b.at);
}

// The messages shown, from first to last.
export function path(chat) {
  const nodes = [];
  for (let at = kRoot; chat.nodes[chat.chosen[at]] && nodes.length < 10000; at = chat.chosen[at])
    nodes.push(chat.nodes[chat.chosen[at]]);
  return nodes;
}

export function pathTo(chat, id) {
  const nodes = [];
  for (let node = chat.nodes[id]; node && nodes.length < 10000; node = chat.nodes[node.parent]) nodes.unshift(node);
  return nodes;
}

// Accepts only conversations that this page could have written.
function isChat(chat) {
  return chat !== null && typeof chat === 'object' && typeof chat.id === 'string' && typeof chat.title === 'string' &&
    chat.nodes !== null && typeof chat.nodes === 'object' && chat.chosen !== null && typeof chat.chosen === 'object' &&
    Object.entries(chat.nodes).every(([id, node]) => node !== null && typeof node === 'object' && node.id === id &&
      typeof node.parent === 'string' && kRoles.includes(node.role) && typeof node.text === 'string' && areFiles(node.files));
}

export function exportText(chats) {
  return JSON.stringify({format: 'pagoda-chats', version: 1, chats}, null, 1);
}

// The conversations in a file, with new ids where an id is taken. Throws Error with a message for the reader.
export function importText(text, taken) {
  let file;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error('The file is not valid JSON.');
  }
  if (file?.format !== 'pagoda-chats' || !Array.isArray(file.chats))
    throw new Error('The file contains no conversations exported from this page.');
  const chats = file.chats.filter(isChat);
  if (chats.length !== file.chats.length) throw new Error('A conversation in the file is malformed.');
  return chats.map((chat) => ({
    id: taken.has(chat.id) ? newId() : chat.id, title: chat.title, created: Number(chat.created) || Date.now(),
    updated: Number(chat.updated) || Date.now(), nodes: chat.nodes, chosen: chat.chosen,
    settings: chat.settings !== null && typeof chat.settings === 'object' ? chat.settings : {},
  }));
}
