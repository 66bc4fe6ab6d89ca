import "../page/parts/file_drops.js";
import "../page/parts/formats.js";
import { Story } from "../page/story.js";

/** A desk that keeps what it was given. */
class FakeDesk extends EventTarget {
  story = Story.create("The lighthouse");
  imported = []; // stories, in order
  keeper = { flush: async () => {}, list: async () => ({ stories: [] }) };
  notices = [];

  get title() {
    return this.story.meta("title") || "Untitled";
  }

  openDialog(name, detail = {}) {
    this.dispatchEvent(new CustomEvent("dialog", { detail: { name, ...detail } }));
  }

  setMeta(key, value) {
    this.story.setMeta(key, value);
  }

  importStory(story) {
    this.imported.push(story);
    this.story = story;
    this.dispatchEvent(new CustomEvent("story"));
  }

  /** Stories of this desk have no pictures. */
  withRounds(act) {
    return act({ context: { media: { takeIn: async () => [], all: async () => ({ files: {}, unread: [] }) } } });
  }

  notice(text, kind) {
    this.notices.push({ text, kind });
  }
}

const desk = new FakeDesk();
desk.story.head = desk.story.edit({ node: "", at: 0 }, 0, 0, "Fog – and “a lamp” 🌕.\n");
const formats = document.createElement("srb-formats");
const drops = document.createElement("srb-file-drops");
formats.desk = drops.desk = desk;
document.body.append(formats, drops);
document.querySelector("#open").addEventListener("click", () => desk.openDialog("formats"));
document
  .querySelector("#elsewhere")
  .addEventListener("drop", () => desk.notice("the text field took the drop", "error"));
Object.assign(window, { desk, formats, ready: true });
