// The chat view: conversations on the left, the current one in the middle, its settings on the right.
import {h, fill, iconButton, announce, download, pickFile, pickFiles, oncePerFrame, plural} from './dom.js';
import {readFiles, chips} from './files.js';
import {loadChats, saveChat, dropChat, newChat, addMessage, children, path, kRoot, exportText, importText, kept} from './store.js';
import {askFor} from './answer.js';
import {viewOf} from './message.js';
import {showSettings, lastSettings} from './settings.js';

const kPrompts = ['What is the capital of Japan?', 'Write a haiku about memory.', 'Suggest three names for a cat.'];

const narrow = () => matchMedia('(max-width: 999px)').matches;

export class ChatView {
  // page: {model(), askKey(), say(text)}
  constructor(page) {
    this.page = page;
    this.chats = [];
    this.chat = newChat(lastSettings());
    this.files = [];  // attachments of the next message
    this.calls = new Map();  // conversation id -> running call
    this.views = new Map();  // message id -> view
    this.build();
    this.redraw = oncePerFrame(() => this.draw());
    loadChats().catch(() => []).then((chats) => { this.chats = chats; this.drawList(); });
  }

  build() {
    this.search = h('input', {type: 'search', placeholder: 'Search', 'aria-label': 'Search conversations', oninput: () => this.drawList()});
    this.list = h('ul', {class: 'chats'});
    this.side = h('aside', {id: 'side', class: 'side', 'aria-label': 'Conversations', hidden: narrow()},
      h('div', {class: 'panel-head'}, h('h2', null, 'Conversations'), iconButton('close', 'Close the list', () => this.setOpen(this.side, false))),
      h('div', {class: 'row'}, h('button', {type: 'button', class: 'main', onclick: () => this.open(null)}, 'New chat'),
        iconButton('load', 'Import conversations', () => this.importFile()),
        iconButton('save', 'Export all conversations', () => this.exportChats(this.chats))), this.search, this.list);
    this.log = h('div', {class: 'log', role: 'log', 'aria-live': 'off', 'aria-label': 'Conversation', tabindex: '0'});
    this.input = h('textarea', {id: 'prompt', rows: 1, placeholder: 'Write a message', 'aria-label': 'Message', autocomplete: 'off'});
    this.button = h('button', {type: 'button', id: 'send', class: 'main send'});
    this.form = h('div', {class: 'form'});
    this.settings = h('aside', {id: 'settings', class: 'settings', 'aria-label': 'Settings', hidden: true},
      h('div', {class: 'panel-head'}, h('h2', null, 'Settings'), iconButton('close', 'Close settings', () => this.setOpen(this.settings, false))), this.form);
    this.shade = h('div', {class: 'shade', hidden: true, onclick: () => this.closePanels()});
    this.sideButton = iconButton('more', 'List of conversations (Ctrl+B)', () => this.toggle(this.side), {id: 'show-side', 'aria-controls': 'side'});
    this.settingsButton = iconButton('gear', 'Settings', () => this.toggle(this.settings), {id: 'show-settings', 'aria-controls': 'settings'});
    this.chips = h('div', {class: 'chips', hidden: true, role: 'group', 'aria-label': 'Attached files'});
    const composer = h('div', {class: 'composer'}, this.chips,
      iconButton('attach', 'Attach text files', () => pickFiles({multiple: true}, (files) => this.attach(files)), {id: 'attach'}), this.input, this.button);
    this.node = h('div', {class: 'chat'}, this.side, h('section', {class: 'middle', 'aria-label': 'Chat'}, h('div', {class: 'row bar'},
      this.sideButton,
      this.title = h('h1', {class: 'title'}, 'New chat'),
      this.settingsButton), this.log, composer), this.settings, this.shade);
    for (const panel of this.panels()) this.setOpen(panel, !panel.hidden);
    this.input.addEventListener('input', () => this.grow());
    this.input.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); this.send(); }
    });
    this.input.addEventListener('paste', (event) => {
      if (!event.clipboardData.files.length) return;
      event.preventDefault();
      this.attach(event.clipboardData.files);
    });
    this.node.addEventListener('dragover', (event) => { if (event.dataTransfer.types.includes('Files')) event.preventDefault(); });
    this.node.addEventListener('drop', (event) => {
      if (!event.dataTransfer.files.length) return;
      event.preventDefault();
      this.attach(event.dataTransfer.files);
    });
    this.button.addEventListener('click', () => this.running() ? this.stop() : this.send());
    // Keeps scrolling to the end as long as the reader is at the end.
    this.log.addEventListener('scroll', () => {
      this.atEnd = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 40;
    });
    this.atEnd = true;
  }

  shown() { this.onScreen = true; this.showSettings(); this.redraw(); this.drawList(); }
  hidden() { this.onScreen = false; if (narrow()) this.closePanels(); }
  running() { return this.calls.get(this.chat.id); }

  // The list and the settings are shown beside the chat. On a narrow screen they cover it, one at a time.
  panels() { return [this.side, this.settings]; }
  setOpen(panel, open) {
    const button = panel === this.side ? this.sideButton : this.settingsButton;
    if (open && narrow()) for (const other of this.panels()) if (other !== panel && !other.hidden) this.setOpen(other, false);
    const hadFocus = panel.contains(document.activeElement);
    panel.hidden = !open;
    button.setAttribute('aria-expanded', String(open));
    this.shade.hidden = this.panels().every((other) => other.hidden);
    if (!open && hadFocus) button.focus();
  }
  toggle(panel) { this.setOpen(panel, panel.hidden); }
  closePanels() { for (const panel of this.panels()) if (!panel.hidden) this.setOpen(panel, false); }

  grow() {
    this.input.style.height = 'auto';
    this.input.style.height = `${Math.min(this.input.scrollHeight + 2, innerHeight / 3)}px`;
  }
  factsChanged() { this.tellSettings?.(this.page.facts()); }
  showSettings() {
    this.tellSettings = showSettings(this.form, this.chat.settings, this.page.facts(), () => { if (Object.keys(this.chat.nodes).length) this.save(this.chat); },
      (text) => this.page.say(text));
  }

  async attach(chosen) {
    const {files, problems} = await readFiles(this.files, [...chosen]);
    this.setFiles(files);
    if (problems.length) this.page.say(problems.join(' '));
    this.input.focus();
  }
  setFiles(files) {
    this.files = files;
    this.chips.hidden = !files.length;
    fill(this.chips, chips(files, (file) => this.setFiles(this.files.filter((other) => other !== file))));
  }

  open(chat) {
    if (this.form.contains(document.activeElement)) document.activeElement.blur();  // commits a setting being typed
    this.chat = chat ?? newChat(lastSettings());
    this.views.clear();
    this.atEnd = true;
    this.showSettings();
    this.draw();
    this.drawList();
    if (narrow()) this.closePanels();
    this.input.focus();
  }

  async save(chat) {
    chat.updated = Date.now();
    if (!this.chats.includes(chat)) this.chats.unshift(chat);
    this.drawList();
    try {
      await saveChat(chat);
    } catch {
      this.page.say("The browser's storage is full. Export this conversation to keep it.");
    }
  }

  send(text = this.input.value) {
    const {chat, files} = this;
    if (!text.trim() && !files.length || this.running()) return;
    const parent = path(chat).at(-1)?.id ?? kRoot;
    chat.title ||= (text.trim() || files[0].name).split('\n')[0].slice(0, 60);
    const node = addMessage(chat, parent, {role: 'user', text, ...(files.length ? {files} : {})});
    this.input.value = '';
    this.setFiles([]);
    this.grow();
    this.answer(node.id);
  }

  // Generates new answers to the message `parent`, or continues the answer `cut`.
  answer(parent, cut = null) {
    const chat = this.chat;
    this.atEnd = true;
    const call = askFor(chat, parent, this.page, () => { if (chat === this.chat) this.redraw(); }, cut);
    this.calls.set(chat.id, call);
    this.save(chat);
    announce('answering');
    this.draw();
    call.done.then((failure) => {
      this.calls.delete(chat.id);
      this.save(chat);
      if (chat === this.chat) this.draw();
      if (failure?.kind === 'key') this.page.askKey();
      announce(failure ? failure.message : `done, ${plural(call.nodes[0].text.split(/\s+/).length, 'word')}`);
    });
  }

  stop() { this.running()?.stop(); }

  actions() {
    return {
      askKey: () => this.page.askKey(),
      again: (node) => { if (!this.running()) this.answer(node.parent); },
      edit: (node, text, files) => {
        if (!text.trim() && !files.length || this.running()) return;
        this.answer(addMessage(this.chat, node.parent, {role: 'user', text, ...(files.length ? {files} : {})}).id);
      },
      // True if an answer was cut off and can be continued by a call. A grammar would start over, so not with a
      // schema.
      cut: (node) => Boolean(node.text && (node.error || node.finish === 'length' || node.finish === 'stopped') && !node.tools && !node.group &&
        !this.chat.settings.schema && path(this.chat).at(-1) === node),
      continue: (node) => { if (!this.running()) this.answer(node.parent, node); },
      choose: (node) => { this.chat.chosen[node.parent] = node.id; delete node.group; this.rebuild(); },
      answered: (node) => !this.running() && children(this.chat, node.id).length === 0,
      toolResult: (node, call, text) => {
        let last = node;
        while (this.chat.nodes[this.chat.chosen[last.id]]) last = this.chat.nodes[this.chat.chosen[last.id]];
        const added = addMessage(this.chat, last.id, {role: 'tool', call: call.id, text});
        const given = new Set(path(this.chat).filter((other) => other.role === 'tool').map((other) => other.call));
        if (node.tools.every((other) => given.has(other.id))) this.answer(added.id);
        else this.redraw();
      },
      branches: (node) => this.branches(node),
    };
  }

  rebuild() { this.views.clear(); this.save(this.chat); this.draw(); }

  // "‹ 2/3 ›" if a message has siblings other than its columns.
  branches(node) {
    const siblings = children(this.chat, node.parent).filter((other) => !node.group || other.group !== node.group || other === node);
    if (siblings.length < 2) return null;
    const at = siblings.indexOf(node);
    const go = (step) => {
      if (this.running()) return;
      this.chat.chosen[node.parent] = siblings[(at + step + siblings.length) % siblings.length].id;
      this.rebuild();
    };
    return h('span', {class: 'branches'}, iconButton('left', 'Previous version', () => go(-1)), `${at + 1}/${siblings.length}`,
      iconButton('right', 'Next version', () => go(1)));
  }

  draw() {
    const nodes = path(this.chat);
    this.title.textContent = this.chat.title || 'New chat';
    const wanted = nodes.map((node) => {
      let view = this.views.get(node.id);
      if (!view) this.views.set(node.id, view = viewOf(node, children(this.chat, node.parent), this.actions()));
      view.update();
      return view.node;
    });
    if (!nodes.length) wanted.push(this.empty());
    wanted.forEach((node, i) => { if (this.log.childNodes[i] !== node) this.log.insertBefore(node, this.log.childNodes[i] ?? null); });
    while (this.log.childNodes.length > wanted.length) this.log.lastChild.remove();
    const running = Boolean(this.running());
    if (this.wasRunning !== running) {
      this.wasRunning = running;
      fill(this.button, running ? 'Stop' : 'Send');
      this.button.title = running ? 'Stop (Esc)' : 'Send (Enter)';
    }
    if (this.atEnd) this.log.scrollTop = this.log.scrollHeight;
  }

  empty() {
    this.emptyNode ??= h('div', {class: 'empty'}, h('h2', null, 'Start a conversation'), kept ? null : h('p', null,
      'This browser blocks storage: conversations are lost when the page is closed.'), h('div', {class: 'row wrap'}, kPrompts.map((text) =>
      h('button', {type: 'button', onclick: () => this.send(text)}, text))));
    return this.emptyNode;
  }

  drawList() {
    const typing = this.renamed?.input === document.activeElement;
    const wanted = this.search.value.trim().toLowerCase();
    const hit = (chat) => !wanted || chat.title.toLowerCase().includes(wanted) ||
      Object.values(chat.nodes).some((node) => node.text.toLowerCase().includes(wanted));
    fill(this.list, this.chats.filter(hit).map((chat) => h('li', {class: chat === this.chat ? 'current' : null},
      chat === this.renamed?.chat ? this.renamed.input
        : h('button', {type: 'button', class: 'open', 'aria-current': chat === this.chat ? 'true' : null, onclick: () => this.open(chat)},
          chat.title || 'untitled'),
      iconButton('rename', `Rename “${chat.title}”`, () => this.rename(chat)),
      iconButton('save', `Export “${chat.title}”`, () => this.exportChats([chat])),
      iconButton('trash', `Delete “${chat.title}”`, () => this.drop(chat)))));
    if (typing) this.renamed?.input.focus();
  }

  // Replaces the name by a text field. Enter or blur accepts the new name, Escape discards it.
  rename(chat) {
    const input = h('input', {class: 'name', 'aria-label': 'Name of the conversation', value: chat.title, maxlength: 200});
    const end = (taken) => {
      if (this.renamed?.input !== input) return;
      this.renamed = null;
      if (!taken || !input.value.trim()) return this.drawList();
      chat.title = input.value.trim();
      this.save(chat);
      this.redraw();
    };
    input.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' && event.key !== 'Escape' || event.isComposing) return;
      event.stopPropagation();
      end(event.key === 'Enter');
    });
    input.addEventListener('blur', () => { if (input.isConnected) end(true); });
    this.renamed = {chat, input};
    this.drawList();
    input.focus();
    input.select();
  }

  async drop(chat) {
    if (!confirm(`Delete “${chat.title}”?`)) return;
    this.calls.get(chat.id)?.stop();
    this.chats = this.chats.filter((other) => other !== chat);
    await dropChat(chat.id).catch(() => {});
    if (chat === this.chat) this.open(null);
    this.drawList();
  }

  exportChats(chats) { download(chats.length === 1 ? 'pagoda-chat.json' : 'pagoda-chats.json', exportText(chats)); }
  importFile() {
    pickFile('.json,application/json', async (text) => {
      try {
        const chats = importText(text, new Set(this.chats.map((chat) => chat.id)));
        for (const chat of chats) await this.save(chat);
        this.page.say(`${plural(chats.length, 'conversation')} imported.`);
        if (chats[0]) this.open(chats[0]);
      } catch (error) {
        this.page.say(error.message);
      }
    });
  }

  // Handles keys that work everywhere on the page. Returns true if handled.
  onKey(event) {
    if (!this.onScreen || event.isComposing || document.querySelector('dialog[open]')) return false;
    if (event.key === 'Escape') return this.onEscape();
    if (event.ctrlKey && event.shiftKey && event.key.toLowerCase() === 'o') this.open(null);
    else if (event.ctrlKey && event.key.toLowerCase() === 'k') { this.setOpen(this.side, true); this.search.focus(); }
    else if (event.ctrlKey && event.key.toLowerCase() === 'b') this.toggle(this.side);
    else return false;
    return true;
  }

  // Closes panels that cover the chat, else stops the answer, else closes the panel with the focus.
  onEscape() {
    const open = this.panels().filter((panel) => !panel.hidden && (narrow() || panel.contains(document.activeElement)));
    if (narrow() && open.length) this.closePanels();
    else if (this.running()) this.stop();
    else if (open.length) this.setOpen(open[0], false);
    else return false;
    return true;
  }
}
