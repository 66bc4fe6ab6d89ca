/**
 * Shelves: values under keys of texts, in the browser's IndexedDB or, where it has none to give, in memory.
 *
 * @typedef {string[]} Key  story, section, id, and the key of a mark
 *
 * @typedef {object} Shelf
 * @property {boolean} lasts  whether the values are there when the page is opened again
 * @property {(keys: Key[], change: (key: Key, stored: any) => any) => Promise<void>} change  stores what `change` returns,
 *   undefined removes; all of the changes or none
 * @property {(keys: Key[]) => Promise<any[]>} get
 * @property {(first: string) => Promise<[Key, any][]>} read  all of which the key begins with `first`
 * @property {(first: string, most: number) => Promise<Key[]>} keys  the first `most` of these keys, in order
 * @property {(first: string) => Promise<void>} remove
 * @property {() => Promise<string[]>} firsts  the first texts of all keys
 */
import { openDB } from "../vendor/idb.js";

const STORE = "parts";
/** So many values of a story are read one by one; for more the whole story is read at once. */
const MANY = 500;

/** @implements {Shelf} */
export class MemoryShelf {
  lasts = false;
  /** @type {Map<string, [Key, any]>} */
  #values = new Map();

  /**
   * @param {Key[]} keys
   * @param {(key: Key, stored: any) => any} change
   */
  async change(keys, change) {
    for (const key of keys) {
      const name = JSON.stringify(key);
      const value = change(key, this.#values.get(name)?.[1]);
      if (value === undefined) this.#values.delete(name);
      else this.#values.set(name, [key, structuredClone(value)]);
    }
  }

  /** @param {Key[]} keys */
  async get(keys) {
    return keys.map((key) => structuredClone(this.#values.get(JSON.stringify(key))?.[1]));
  }

  /** @param {string} first */
  async read(first) {
    const found = [...this.#values.values()].filter(([key]) => key[0] === first);
    return found.map(([key, value]) => /** @type {[Key, any]} */ ([key, structuredClone(value)]));
  }

  /**
   * @param {string} first
   * @param {number} most
   */
  async keys(first, most) {
    const found = [...this.#values].filter(([, [key]]) => key[0] === first).sort(([a], [b]) => (a < b ? -1 : 1));
    return found.slice(0, most).map(([, [key]]) => key);
  }

  /** @param {string} first */
  async remove(first) {
    for (const [name, [key]] of this.#values) if (key[0] === first) this.#values.delete(name);
  }

  async firsts() {
    return [...new Set([...this.#values.values()].map(([key]) => /** @type {string} */ (key[0])))].sort();
  }
}

/** @implements {Shelf} */
export class IdbShelf {
  lasts = true;
  /** @type {Promise<import("idb").IDBPDatabase> | null} */
  #opened = null;

  /** @param {string} name  of the database */
  constructor(name) {
    this.name = name;
  }

  /** Open the database. A browser may end it at any time (another version, data cleared); the next use opens it again. */
  #database() {
    const forget = () => {
      this.#opened = null;
    };
    this.#opened ??= openDB(this.name, 1, {
      upgrade: (database) => {
        database.createObjectStore(STORE);
      },
      blocking: (_now, _wanted, event) => {
        /** @type {IDBDatabase} */ (event.target).close();
        forget();
      },
      terminated: forget,
    });
    this.#opened.catch(forget);
    return this.#opened;
  }

  /**
   * @param {Key[]} keys
   * @param {(key: Key, stored: any) => any} change
   */
  async change(keys, change) {
    const transaction = (await this.#database()).transaction(STORE, "readwrite");
    const { store } = transaction;
    const stored =
      keys.length < MANY ? await Promise.all(keys.map((key) => store.get(key))) : await manyOf(store, keys);
    const changes = keys.map((key, n) => {
      const value = change(key, stored[n]);
      return value === undefined ? store.delete(key) : store.put(value, key);
    });
    await Promise.all([...changes, transaction.done]);
  }

  /** @param {Key[]} keys */
  async get(keys) {
    const { store } = (await this.#database()).transaction(STORE);
    return Promise.all(keys.map((key) => store.get(key)));
  }

  /** @param {string} first */
  async read(first) {
    const { store } = (await this.#database()).transaction(STORE);
    const [keys, values] = await Promise.all([store.getAllKeys(allOf(first)), store.getAll(allOf(first))]);
    return keys.map((key, n) => /** @type {[Key, any]} */ ([key, values[n]]));
  }

  /**
   * @param {string} first
   * @param {number} most
   */
  async keys(first, most) {
    return /** @type {Promise<Key[]>} */ ((await this.#database()).getAllKeys(STORE, allOf(first), most));
  }

  /** @param {string} first */
  async remove(first) {
    await (await this.#database()).delete(STORE, allOf(first));
  }

  async firsts() {
    const { store } = (await this.#database()).transaction(STORE);
    const firsts = [];
    let cursor = await store.openKeyCursor();
    while (cursor !== null) {
      const [first] = /** @type {Key} */ (cursor.key);
      firsts.push(/** @type {string} */ (first));
      cursor = await cursor.continue([first, []]);
    }
    return firsts;
  }
}

/** @param {string} first */
const allOf = (first) => IDBKeyRange.bound([first], [first, []]);

/**
 * @param {{getAll: (range: IDBKeyRange) => Promise<any[]>, getAllKeys: (range: IDBKeyRange) => Promise<any[]>}} store
 * @param {Key[]} keys  of one story
 * @returns {Promise<any[]>} what is stored under them
 */
async function manyOf(store, keys) {
  const range = allOf(/** @type {string} */ (keys[0]?.[0]));
  const [found, values] = await Promise.all([store.getAllKeys(range), store.getAll(range)]);
  const stored = new Map(found.map((key, n) => [JSON.stringify(key), values[n]]));
  return keys.map((key) => stored.get(JSON.stringify(key)));
}
