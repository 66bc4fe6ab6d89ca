/** The server's HTTP interface, as the page uses it: JSON, streams of server-sent events, one question for the API key. */

import { msg } from "./languages.js";

/** A refusal by the server, or (status 0) a server that could not be reached. */
export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {number} status HTTP status; 0 if no answer came
   * @param {string} code the server's code, such as `loading` or `engine_restarted`
   * @param {any} [body]
   */
  constructor(message, status, code, body) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
    this.body = body;
  }

  /** Whether the same request may succeed later: the server is away, loading or full. */
  get isTemporary() {
    return (
      this.status === 0 || this.status === 429 || this.status === 502 || this.status === 503 || this.status === 504
    );
  }
}

const KEY = "srb.key";

// Above the page's own folder, so that a path prefix of a proxy is kept, and above that of its edition, `page/~3f2a…`.
const SERVER = new URL(/\/~\w+\/api\.js$/.test(import.meta.url) ? "../../" : "../", import.meta.url);

/** Requests to the page's own server. */
export class Api {
  /**
   * @param {string | URL} [base] address of the server, with a slash at its end
   * @param {(message: string) => Promise<{key: string, remember: boolean} | null>} [askKey] asks the person for the key
   */
  constructor(base = SERVER, askKey = async () => null) {
    this.base = String(base);
    this.askKey = askKey;
    /** @type {Promise<boolean> | null} */
    this.asking = null;
    this.isDeclined = false;
    this.key = remembered();
  }

  /** @param {string} path relative to the server, such as `v1/srb/completions` @param {{signal?: AbortSignal}} [options] */
  get(path, options) {
    return this.send("GET", path, undefined, options);
  }

  /** @param {string} path @param {unknown} body @param {{signal?: AbortSignal, keepalive?: boolean}} [options] */
  post(path, body, options) {
    return this.send("POST", path, body, options);
  }

  /**
   * Return the answer's JSON (null for an empty answer), or throw an ApiError.
   * @param {string} method @param {string} path @param {unknown} [body]
   * @param {{signal?: AbortSignal, keepalive?: boolean}} [options]
   * @returns {Promise<any>}
   */
  async send(method, path, body, options = {}) {
    const response = await this.open(method, path, body, options);
    const text = await response.text();
    return text ? parsed(text, response.status) : null;
  }

  /**
   * Return a response whose status is a success; ask for the key once if the server wants one.
   * @param {string} method @param {string} path @param {unknown} [body]
   * @param {{signal?: AbortSignal, keepalive?: boolean}} [options]
   * @returns {Promise<Response>}
   */
  async open(method, path, body, options = {}) {
    const usedKey = this.key;
    /** @type {Record<string, string>} */
    const headers = {};
    if (usedKey) headers.Authorization = `Bearer ${usedKey}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const sent = body === undefined ? undefined : JSON.stringify(body);
    let response;
    try {
      response = await fetch(this.base + path, {
        method,
        headers,
        body: sent,
        signal: options.signal,
        keepalive: options.keepalive,
        credentials: "same-origin",
        cache: "no-store",
      });
    } catch (error) {
      if (options.signal?.aborted) throw error;
      throw new ApiError(msg`The server cannot be reached.`, 0, "unreachable");
    }
    if (response.ok) return response;
    const refusal = await readRefusal(response);
    if (response.status === 401 && (await this.newKey(usedKey))) {
      return this.open(method, path, body, options);
    }
    throw refusal;
  }

  /**
   * Whether there is another key than the one that was refused; one question for all requests that wait for it. A person who
   * has given no answer is asked again only if `isWanted`.
   * @param {string} refused @param {{isWanted?: boolean}} [options]
   */
  async newKey(refused, { isWanted = false } = {}) {
    if (this.key !== refused) return true;
    if (this.isDeclined && !isWanted) return false;
    this.asking ??= this.askOnce().finally(() => {
      this.asking = null;
    });
    return this.asking;
  }

  async askOnce() {
    const given = await this.askKey(this.key ? msg`The server does not accept that key.` : "");
    this.isDeclined = !given?.key;
    if (!given?.key) return false;
    this.key = given.key;
    store(sessionStorage, given.key);
    store(localStorage, given.remember ? given.key : "");
    return true;
  }

  /**
   * Read a stream of server-sent events until its end; `onevents` gets the JSON of all events that came together.
   * @param {string} method @param {string} path @param {unknown} body
   * @param {{signal: AbortSignal, onevents: (events: any[]) => void}} options
   */
  async stream(method, path, body, { signal, onevents }) {
    const response = await this.open(method, path, body, { signal });
    if (!response.body) return;
    const reader = response.body.getReader();
    try {
      await readEvents(reader, signal, onevents);
    } finally {
      reader.cancel().catch(() => {}); // after an error the connection would stay open
    }
  }
}

/**
 * @param {ReadableStreamDefaultReader<Uint8Array>} reader @param {AbortSignal} signal
 * @param {(events: any[]) => void} onevents
 */
async function readEvents(reader, signal, onevents) {
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    let part;
    try {
      part = await reader.read();
    } catch (error) {
      if (signal.aborted) throw error;
      throw new ApiError(msg`The connection to the server was lost.`, 0, "lost");
    }
    if (part.done) return;
    const blocks = (rest + decoder.decode(part.value, { stream: true })).split("\n\n");
    rest = blocks.pop() ?? "";
    const events = blocks.filter((block) => block.startsWith("data: ")).map((block) => JSON.parse(block.slice(6)));
    if (events.length) onevents(events);
  }
}

/** @param {Response} response */
async function readRefusal(response) {
  const text = await response.text().catch(() => "");
  let body = null;
  try {
    body = JSON.parse(text);
  } catch {
    // a proxy's page of HTML; its status says enough
  }
  const error = body?.error ?? {};
  const message = typeof error.message === "string" ? error.message : msg`The server answered ${response.status}.`;
  return new ApiError(message, response.status, String(error.type ?? error.code ?? ""), body);
}

/** @param {string} text @param {number} status */
function parsed(text, status) {
  try {
    return JSON.parse(text);
  } catch {
    throw new ApiError(msg`The server's answer is not JSON.`, status, "not_json");
  }
}

function remembered() {
  try {
    return sessionStorage.getItem(KEY) || localStorage.getItem(KEY) || "";
  } catch {
    return ""; // storage is switched off in this browser
  }
}

/** @param {Storage} storage @param {string} key */
function store(storage, key) {
  try {
    if (key) storage.setItem(KEY, key);
    else storage.removeItem(KEY);
  } catch {
    // storage is full or switched off: the key is kept until the page is closed
  }
}
