/**
 * The clipboard of texts: copied words are there without Markdown's signs, for programs that read plain text, as HTML with their emphasis,
 * and as they stand, for this page. Pasted HTML becomes Markdown; the key for plain text (Ctrl+Shift+V) takes its words alone.
 */
import { placedRunsOf, readLine } from "../markdown.js";
import { EditorView } from "../vendor/codemirror.js";
import { plain } from "./prose_editor.js";

const OWN = "text/x-srb-markdown";
const HTML = "text/html";
const LONGEST = 64 * 1024; // characters of HTML that are read at once; a worker reads more
const LOOKS = /(^|\n) {0,3}#{1,6} |[*_]|\n\n\n/; // of a text that is more than its words

/** @param {string} text */
const escaped = (text) => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

/**
 * A part of a text in the forms that programs ask for.
 * @param {string} text
 * @param {number} from
 * @param {number} to
 * @returns {Record<string, string>} by media type
 */
export function formsOf(text, from, to) {
  const first = text.lastIndexOf("\n", from - 1) + 1;
  const [words, blocks] = [
    /** @type {string[]} */ ([]),
    /** @type {{name: string, html: string, isBegun: boolean}[]} */ ([]),
  ];
  let isBegun = false; // a block goes on in the next line
  let at = first;
  for (const line of text.slice(first, to).split("\n")) {
    const end = text.indexOf("\n", at);
    const whole = text.slice(at, end === -1 ? undefined : end); // signs are read in the whole line
    const part = { from: Math.max(from - at, 0), to: line.length };
    at += line.length + 1;
    const { kind, level } = readLine(whole);
    if (kind === "break") {
      words.push(whole.slice(part.from, part.to));
      blocks.push({ name: "hr", html: "", isBegun: false });
      isBegun = false;
      continue;
    }
    const runs = placedRunsOf(whole, [part.from, part.to]).filter((run) => run.at >= part.from && run.at < part.to);
    words.push(runs.map((run) => run.text).join(""));
    const html = runs
      .map((run) => {
        const inner = run.em ? `<em>${escaped(run.text)}</em>` : escaped(run.text);
        return run.strong ? `<strong>${inner}</strong>` : inner;
      })
      .join("");
    if (html === "") isBegun = false;
    else {
      blocks.push({ name: level > 0 ? `h${level}` : "p", html, isBegun });
      isBegun = level === 0;
    }
  }
  return { "text/plain": words.join("\n"), [HTML]: htmlOf(blocks), [OWN]: text.slice(from, to) };
}

/** @param {{name: string, html: string, isBegun: boolean}[]} blocks */
function htmlOf(blocks) {
  if (blocks.length === 1 && blocks[0]?.name === "p") return blocks[0].html; // words within a paragraph
  let html = "";
  for (const [index, { name, html: inner, isBegun }] of blocks.entries()) {
    const goesOn = blocks[index + 1]?.isBegun === true;
    if (name === "hr") html += "<hr>";
    else html += (isBegun ? "<br>" : `<${name}>`) + inner + (goesOn ? "" : `</${name}>`);
  }
  return html;
}

/** Put a part of a text on the clipboard. @param {ClipboardEvent} event @param {string} text @param {number} from @param {number} to */
export function put(event, text, from, to) {
  for (const [type, form] of Object.entries(formsOf(text, from, to))) event.clipboardData?.setData(type, form);
  event.preventDefault();
}

/**
 * HTML as Markdown; null where its words alone say all of it, or it has none.
 * @param {string} html
 * @returns {Promise<string | null>}
 */
export async function markdownOf(html) {
  const { draftsIn, read } = await import("../formats/detect.js");
  const bytes = new TextEncoder().encode(html);
  const name = "clipboard.html";
  const found = html.length > LONGEST ? await read(name, bytes) : await draftsIn(name, bytes);
  if ("error" in found) return null;
  const [json] =
    "stories" in found ? found.stories.map((story) => story.toJSON()) : found.drafts.map((draft) => draft.json);
  const text = Object.values(/** @type {{nodes: Record<string, {text: string}>}} */ (json).nodes)
    .map((node) => node.text)
    .join("");
  return LOOKS.test(text) ? text : null;
}

/** The extension of the editor. A paste stands where it was made, though HTML is read a moment later. */
export function clipboard() {
  /** @type {Set<{from: number, to: number}>} places of pastes that are being read */
  const waiting = new Set();
  /** @param {EditorView} view @param {{from: number, to: number}} place @param {string} text */
  const insert = (view, { from, to }, text) => {
    const words = plain(text);
    const isHere = view.state.selection.main.to === to;
    view.dispatch({
      changes: { from, to, insert: words },
      ...(isHere ? { selection: { anchor: from + words.length } } : {}),
      userEvent: "input.paste",
      scrollIntoView: isHere,
    });
  };
  /** @param {EditorView} view @param {string} html @param {string} words */
  const insertHtml = async (view, html, words) => {
    const { from, to } = view.state.selection.main;
    const place = { from, to };
    waiting.add(place);
    const text = await markdownOf(html).catch(() => null); // the server is away: the words come without their looks
    waiting.delete(place);
    insert(view, place, text === null ? words : withEdges(text, words));
  };
  /** @param {ClipboardEvent} event @param {EditorView} view @param {boolean} isCut */
  const copy = (event, view, isCut) => {
    const { main, ranges } = view.state.selection;
    if (main.empty || ranges.length > 1) return false;
    put(event, view.state.doc.toString(), main.from, main.to);
    if (isCut)
      view.dispatch({ changes: { from: main.from, to: main.to }, userEvent: "delete.cut", scrollIntoView: true });
    return true;
  };
  return [
    EditorView.updateListener.of(({ docChanged, changes }) => {
      if (docChanged)
        for (const place of waiting) {
          place.to = changes.mapPos(place.to, place.from === place.to ? -1 : 1);
          place.from = changes.mapPos(place.from, -1);
        }
    }),
    EditorView.domEventHandlers({
      copy: (event, view) => copy(event, view, false),
      cut: (event, view) => copy(event, view, true),
      paste: (event, view) => {
        const [own, html, words] = [OWN, HTML, "text/plain"].map((type) => event.clipboardData?.getData(type) ?? "");
        if (!own && !html) return false;
        event.preventDefault();
        if (own) insert(view, view.state.selection.main, own);
        else insertHtml(view, html ?? "", words ?? "");
        return true;
      },
    }),
  ];
}

/** Words within a line keep the spaces at their ends, which a page does not show. @param {string} text @param {string} plain */
function withEdges(text, plain) {
  if (text.includes("\n")) return text;
  const [, before = "", after = ""] = /^([ \t]*)(?:.*?)([ \t]*)$/s.exec(plain) ?? [];
  return before + text + after;
}
