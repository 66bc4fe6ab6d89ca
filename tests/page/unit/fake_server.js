/** The story routes in memory, by the rules of the server, with switches for its troubles. */
import { ApiError } from "../../../srb/page/api.js";
import { compareNodes } from "../../../srb/page/story/merge.js";

const ROOT = "v1/srb/stories";
const MOST_BYTES = 1024 * 1024; // of one post
const copy = (value) => JSON.parse(JSON.stringify(value));

export class FakeServer {
  base = "http://127.0.0.1:9090/";
  name = "file1";
  /** @type {Map<string, {seq: number, changed: number, deleted: number | null, items: Map<string, {seq: number, section: string, path: string[], value: any}>}>} */
  stories = new Map();
  /** The name of the key that the page has. */
  person = "";
  /** @type {Map<string, object>} of stories that are another's, by id: whose they are, and what the page may do with them; "none" is as if there were none */
  shares = new Map();
  /** How the server answers: "", or the name of a trouble. */
  trouble = "";
  /** The room that every story has left, if it is nearly full. */
  room = null;
  /** The next so many posts are stored, but their answers are lost. */
  lostAnswers = 0;
  /** @type {{method: string, path: string, body: any, keepalive: boolean}[]} */
  calls = [];

  get(path, options) {
    return this.send("GET", path, undefined, options);
  }

  post(path, body, options) {
    return this.send("POST", path, body, options);
  }

  async send(method, path, body, { keepalive = false } = {}) {
    this.calls.push({ method, path, body: body === undefined ? undefined : copy(body), keepalive });
    await null;
    if (this.trouble === "silent") await new Promise(() => {});
    this.#refuse(method);
    const [route, query = ""] = path.split("?");
    const [id, act] = route.slice(ROOT.length + 1).split("/");
    if (id === "" || id === undefined)
      return method === "GET" ? this.#list(query.includes("deleted")) : this.#file(body);
    if (method === "POST" && act === undefined && Buffer.byteLength(JSON.stringify(body)) > MOST_BYTES)
      throw new ApiError(
        "The body is larger than 1048576 bytes, the limit of one post of a story",
        413,
        "body_too_large",
      );
    if (method === "GET") return this.#read(id, new URLSearchParams(query));
    if (method === "DELETE") return this.#setDeleted(id, 1);
    if (act === "restore") return this.#setDeleted(id, null);
    const { access } = this.shares.get(id) ?? {};
    if (access === "read") {
      const error = { message: "This story is alice's, and you may only read it", owner: "alice" };
      throw new ApiError(error.message, 403, "permission_error", { error });
    }
    if (access === "none") this.#story(id);
    const answer = this.#post(id, copy(body));
    if (this.lostAnswers > 0) {
      this.lostAnswers -= 1;
      throw new ApiError("The connection to the server was lost.", 0, "lost");
    }
    return answer;
  }

  #refuse(method) {
    const troubles = {
      down: [0, "unreachable", "The server cannot be reached."],
      off: [404, "stories_off", "This server keeps no stories"],
      read_only: [503, "stories_read_only", "stories.sqlite3 may only be read"],
      full: [507, "stories_full", "The disk is full"],
      damaged: [503, "stories_damaged", "stories.sqlite3 is damaged"],
      large: [413, "request_too_large", "The story would take 70000000 bytes"],
    };
    const found = troubles[this.trouble];
    if (found === undefined || (this.trouble === "read_only" && method === "GET")) return;
    const [status, code, message] = found;
    throw new ApiError(message, status, code);
  }

  #story(id) {
    const story = this.stories.get(id);
    if (story === undefined || this.shares.get(id)?.access === "none")
      throw new ApiError("There is no such story", 404, "not_found_error");
    return story;
  }

  #list(binned) {
    const { person } = this;
    const stories = [...this.stories].filter(
      ([id, story]) => (story.deleted !== null) === binned && this.shares.get(id)?.access !== "none",
    );
    return {
      state: "ok",
      server: this.name,
      ...(person && { person }),
      stories: stories.map(([id, { seq, changed, deleted, items }]) => ({
        id,
        seq,
        changed,
        title: items.get("meta/title")?.value.value ?? "",
        words: items.get("meta/words")?.value.value,
        ...(deleted === null ? {} : { deleted }),
        ...this.shares.get(id),
      })),
    };
  }

  #above(story, since, until = Number.POSITIVE_INFINITY) {
    const parts = { meta: {}, nodes: {}, runs: {}, marks: {} };
    for (const { seq, section, path, value } of story.items.values()) {
      if (seq <= since || seq > until) continue;
      if (section === "marks") parts.marks[path[0]] = { ...parts.marks[path[0]], [path[1]]: value };
      else parts[section][path[0]] = value;
    }
    return parts;
  }

  #head(id, story) {
    const deleted = story.deleted === null ? {} : { deleted: story.deleted };
    return {
      id,
      server: this.name,
      seq: story.seq,
      ...deleted,
      ...this.shares.get(id),
      ...(this.room === null ? {} : { room: this.room }),
    };
  }

  #known(story, since, server) {
    return (server ?? this.name) === this.name && since <= story.seq ? since : 0;
  }

  #read(id, query) {
    const story = this.#story(id);
    const since = this.#known(story, Number(query.get("since") ?? 0), query.get("server"));
    return since === story.seq ? null : { ...this.#head(id, story), ...copy(this.#above(story, since)) };
  }

  #post(id, body) {
    const { since, server, ...parts } = body;
    const isNew = !this.stories.has(id);
    const story = this.stories.get(id) ?? { seq: 0, changed: 0, deleted: null, items: new Map() };
    this.stories.set(id, story);
    const before = story.seq;
    const refused = [];
    const changed = this.#merge(story, parts, refused);
    if (changed || isNew) story.seq += 1;
    story.changed = Date.now();
    const answer = { ...this.#head(id, story), refused };
    if (since === undefined) return answer;
    const lacks = this.#above(story, this.#known(story, since, server ?? null), before);
    for (const { node } of refused)
      if (story.items.has(`nodes/${node}`)) lacks.nodes[node] = story.items.get(`nodes/${node}`).value;
    return copy({ ...answer, ...lacks });
  }

  #merge(story, { meta = {}, nodes = {}, runs = {}, marks = {} }, refused) {
    let changed = false;
    const put = (section, path, value) => {
      story.items.set(`${section}/${path.join("/")}`, { seq: story.seq + 1, section, path, value });
      changed = true;
    };
    for (const [id, node] of Object.entries(nodes)) {
      const stored = story.items.get(`nodes/${id}`)?.value;
      const parent = story.items.get(`nodes/${node.parent}`)?.value;
      const length = parent === undefined ? 0 : this.#written(story, parent);
      if (node.parent !== undefined && parent === undefined)
        refused.push({ node: id, reason: "parent_unknown", message: "its parent is not in the story" });
      else if (node.tail === undefined && node.keep > length && parent.tail === undefined)
        refused.push({ node: id, reason: "beyond", message: "it keeps more than there is" });
      else if (stored !== undefined && !stored.open && stored.text !== node.text)
        refused.push({ node: id, reason: "conflict", message: "another text of it is stored" });
      else if (stored === undefined || compareNodes(node, stored) > 0) put("nodes", [id], node);
    }
    for (const [id, run] of Object.entries(runs)) if (!story.items.has(`runs/${id}`)) put("runs", [id], run);
    const entries = Object.entries(meta).map(([key, value]) => ["meta", [key], value]);
    for (const [id, values] of Object.entries(marks))
      for (const [key, value] of Object.entries(values)) entries.push(["marks", [id, key], value]);
    for (const [section, path, value] of entries) {
      const stored = story.items.get(`${section}/${path.join("/")}`)?.value;
      if (stored === undefined || value.changed > stored.changed) put(section, path, value);
    }
    return changed;
  }

  #written = (_story, { keep = 0, text }) => keep + text.length;

  /** Another's story is shared anew. */
  setShare(id, share) {
    this.shares.set(id, share);
    this.stories.get(id).seq += 1;
  }

  #file({ id, nodes, runs }) {
    const { seq } = this.#post(id, { nodes, runs });
    return { id, seq, copied: false };
  }

  #setDeleted(id, deleted) {
    const story = this.#story(id);
    story.deleted = deleted;
    story.seq += 1;
    return this.#head(id, story);
  }

  /** All that is stored of a story, as a wire. */
  wire(id) {
    return this.#above(this.#story(id), 0);
  }

  posts() {
    return this.calls.filter(({ method }) => method === "POST");
  }
}

/** Channels between tabs of one browser. */
export class FakeBrowser {
  /** @type {Set<FakeChannel>} */
  channels = new Set();

  channel() {
    return new FakeChannel(this);
  }

  storage = new (class extends Map {
    getItem(key) {
      return this.get(key) ?? null;
    }

    setItem(key, value) {
      this.set(key, value);
    }
  })();
}

class FakeChannel extends EventTarget {
  constructor(browser) {
    super();
    this.browser = browser;
    browser.channels.add(this);
  }

  postMessage(data) {
    for (const other of this.browser.channels) {
      if (other !== this) other.dispatchEvent(Object.assign(new Event("message"), { data: structuredClone(data) }));
    }
  }

  close() {
    this.browser.channels.delete(this);
  }
}
