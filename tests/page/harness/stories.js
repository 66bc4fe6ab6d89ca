import { DEFAULTS } from "../page/desk/defaults.js";
import "../page/parts/stories.js";

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

const entry = (id, title, words, age, more = {}) => ({
  id,
  title,
  words,
  changed: Date.now() - age,
  deleted: null,
  isUnsaved: false,
  ...more,
});

class FakeKeeper {
  trouble = "";
  stories = [
    entry("a", "The lighthouse", 3214, 0),
    entry("b", "", 1, 5 * MINUTE, { isUnsaved: true }),
    entry("c", "<b>Bold</b> \u202eesrever", 0, 3 * DAY),
    entry("d", "Thrown away", 12, 9 * DAY, { deleted: Date.now() - 2 * DAY }),
  ];

  async list({ binned = false } = {}) {
    const isThere = ({ deleted, isUnsaved }) => (deleted !== null) === binned && (!this.trouble || isUnsaved);
    return {
      fault: this.trouble,
      stories: this.stories.filter(isThere),
      where: "Stories are kept by the server at desk.test.",
    };
  }

  async flush() {}

  async rename(id, title) {
    this.find(id).title = title;
  }

  find(id) {
    return this.stories.find((story) => story.id === id);
  }
}

class FakeDesk extends EventTarget {
  keeper = new FakeKeeper();
  story = { id: "a" };
  settings = DEFAULTS;
  searched = [];
  api = {
    get: async (path) => {
      this.searched.push(path);
      const place = { story: "b", title: "<i>Salt</i>", node: "n", begin: 4, end: 8 };
      return { results: [{ ...place, before: "the ", words: "lamp", after: " <b>went</b> out" }], more: true };
    },
  };
  head = { node: "n", at: 20 };
  text = "the lamp went out";
  manuscript = document.querySelector("h1");
  acts = [];

  openDialog(name) {
    this.dispatchEvent(new CustomEvent("dialog", { detail: { name } }));
    this.acts.push(`dialog ${name}`);
  }

  async openStory(id) {
    if (id === "c") throw new Error("This story is not there any more.");
    this.story = { id, pieces: () => [{ node: "n" }] };
    this.acts.push(`open ${id}`);
  }

  newStory() {
    this.acts.push("new");
  }

  async importStory(story) {
    this.acts.push(`import ${story.nodes.size > 20}`);
  }

  setTitle(title) {
    this.keeper.find(this.story.id).title = title;
  }

  async removeStory(id) {
    this.keeper.find(id).deleted = Date.now();
  }

  async restoreStory(id) {
    this.keeper.find(id).deleted = null;
  }
}

const desk = new FakeDesk();
desk.manuscript.tabIndex = -1;
desk.manuscript.select = (begin, end) => desk.acts.push(`select ${begin} ${end}`);
const part = document.createElement("srb-stories");
part.desk = desk;
document.body.append(part);
Object.assign(window, { desk, ready: true });
