/** The dialog that imports stories from files of many programs, and exports the story that is open. */

import { setApart } from "../desk/apart.js";
import { read } from "../formats/detect.js";
import { BEGINNING, checkSize } from "../formats/file.js";
import { filesOf, packed } from "../formats/folder.js";
import { ENDINGS } from "../formats/importers.js";
import { fileName, WRITERS } from "../formats/write.js";
import { countWords } from "../keep/describe.js";
import { msg, NUMBER, wordCount } from "../languages.js";
import { base64, brought, fromBase64 } from "../media.js";
import { StoryError } from "../story/read.js";
import { html, live } from "../vendor/lit.js";
import { dialogHead } from "./dialog_head.js";
import { download } from "./download.js";
import { languageOf } from "./language.js";
import { DialogPart } from "./part.js";
import { asPng } from "./picture_files.js";

/**
 * @typedef {import("../formats/write.js").Writer} Writer
 * @typedef {import("../story.js").Story} Story
 * @typedef {import("../formats/pictures.js").Files} Files
 *
 * @typedef {object} Offer  stories that were read and wait for a choice
 * @property {string} format
 * @property {{story: Story, chosen: boolean}[]} choices
 * @property {string[]} remarks
 */

const ACCEPTED = [...ENDINGS, "application/json", "text/plain", "text/markdown"].join(",");
const TOO_LARGE = msg`The story is too large for a file of this browser. The command \`srb stories export\` writes it.`;

class Formats extends DialogPart {
  constructor() {
    super("formats");
    /** @type {Offer | null} */
    this.offer = null;
    this.message = "";
    this.error = "";
    /** @type {AbortController | null} of the files that are being read */
    this.reading = null;
  }

  /** @param {{files?: File[], folders?: FileSystemEntry[]}} [detail] what was dropped on the page */
  async open({ files, folders } = {}) {
    if (files) return void (await this.take(files));
    if (folders)
      return void (await this.takeFolders(folders.map((each) => ({ name: each.name, files: filesOf(each) }))));
    await this.updateComplete;
    if (this.dialog.open) return;
    this.offer = null;
    this.say("");
    await this.updateComplete;
    this.showModal();
  }

  // ---- Import

  /** @param {Event} event */
  async pick(event) {
    const input = /** @type {HTMLInputElement} */ (event.target);
    const files = [...(input.files ?? [])];
    await this.take(files);
    input.value = ""; // so that the same file can be chosen again
  }

  /** @param {Event} event */
  async pickFolder(event) {
    const input = /** @type {HTMLInputElement} */ (event.target);
    const files = [...(input.files ?? [])].map((file) => ({ path: file.webkitRelativePath, file }));
    const name = files[0]?.path.split("/")[0] ?? "";
    if (files.length > 0) await this.takeFolders([{ name, files }]);
    input.value = "";
  }

  /** @param {{name: string, files: {path: string, file: File}[] | Promise<{path: string, file: File}[]>}[]} folders */
  async takeFolders(folders) {
    await this.open();
    try {
      await this.take(await Promise.all(folders.map(async ({ name, files }) => packed(name, await files))));
    } catch (error) {
      if (!(error instanceof StoryError) && !(error instanceof DOMException)) throw error;
      this.fail(error.message);
    }
  }

  /** @param {ClipboardEvent} event */
  paste(event) {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    this.take(files);
  }

  /** @param {SubmitEvent} event */
  async takePasted(event) {
    event.preventDefault();
    const area = /** @type {HTMLTextAreaElement} */ (this.querySelector("textarea"));
    const taken = await this.take([new File([area.value], "")]);
    if (taken) area.value = "";
  }

  /**
   * Read files and import what they hold: one story at once, of several those that are chosen. If one file cannot be read,
   * none is imported.
   * @param {File[]} files
   * @returns {Promise<boolean>} whether all were read
   */
  async take(files) {
    if (files.length === 0) return false;
    await this.open();
    this.offer = null;
    this.reading?.abort();
    const reading = new AbortController();
    this.reading = reading;
    this.say(msg`Reading …`);
    try {
      this.offer = await readAll(files, reading.signal);
    } catch (error) {
      if (this.reading !== reading) return false; // others are being read by now
      if (!(error instanceof StoryError) && !(error instanceof DOMException)) throw error;
      this.fail(files.length > 1 ? `${error.message} ${msg`Nothing was imported.`}` : error.message);
      return false;
    } finally {
      if (this.reading === reading) this.reading = null;
    }
    this.say("");
    await this.updateComplete;
    const box = /** @type {HTMLElement | null} */ (this.querySelector("fieldset input"));
    if (this.offer.choices.length === 1) await this.importChosen();
    else box?.focus();
    return true;
  }

  async importChosen() {
    const { choices, format, remarks } = /** @type {Offer} */ (this.offer);
    const stories = choices.filter(({ chosen }) => chosen).map(({ story }) => story);
    if (stories.length === 0) return this.fail(msg`Choose at least one story.`);
    for (const story of stories) {
      if (await setApart(story, this.desk.keeper)) remarks.push(apart(titleOf(story)));
      await this.desk.importStory(story);
      remarks.push(
        ...((await this.desk.withRounds(({ context }) => context.media.takeIn(brought.get(story) ?? {}))) ?? []),
      );
    }
    this.offer = null;
    const done = summary(stories, format);
    if (remarks.length === 0) {
      this.dialog.close();
      this.desk.notice(done, "info");
    } else {
      this.say([done, ...remarks].join(" "));
      this.querySelector("button")?.focus();
    }
  }

  // ---- Export

  /** @param {Writer} writer */
  async save({ write, media, ending, type, lack }) {
    const { story } = this.desk;
    const name = fileName(String(story.meta("title") ?? "") || this.desk.title, ending);
    if (media === "printed" && story.meta("language") === undefined)
      this.desk.setMeta("language", languageOf(this.desk));
    /** @type {Error[]} */
    let unread = [];
    try {
      const found = media && (await this.media(media));
      unread = found?.unread ?? [];
      download(write(story, found?.files), name, type);
    } catch (error) {
      if (error instanceof RangeError) return this.fail(TOO_LARGE);
      if (!(error instanceof StoryError)) throw error;
      return this.fail(error.message);
    }
    this.say([msg`“${name}” is among your downloads.`, lack?.(story)].filter(Boolean).join(" "));
    const { length: count, 0: first } = unread;
    if (count === 1) this.fail(msg`“${name}” is among your downloads, without 1 picture or sound: ${first.message}`);
    if (count > 1)
      this.fail(
        msg`“${name}” is among your downloads, without ${NUMBER.format(count)} pictures or sounds: ${first.message}`,
      );
  }

  /** Return pictures and sounds for a writer. @param {"all" | "text" | "printed"} which @returns {Promise<{files: Files, unread: Error[]} | null>} */
  async media(which) {
    const texts = which === "all" ? undefined : [this.desk.text];
    const found = await this.desk.withRounds(({ context }) => context.media.all(texts));
    if (found && which === "printed") await makePrintable(found.files);
    return found;
  }

  // ---- Words

  /** @param {string} message */
  say(message) {
    this.message = message;
    this.error = "";
    this.requestUpdate();
  }

  /** @param {string} error */
  fail(error) {
    this.message = "";
    this.error = error;
    this.requestUpdate();
  }

  render() {
    return html`<dialog aria-labelledby="formats-title" @paste=${this.paste}>
        ${dialogHead(this, msg`Import and export`)}
        <p class="message" role="status">${this.message}</p>
        ${this.reading ? html`<p><button type="button" @click=${() => this.reading?.abort()}>${msg`Stop reading`}</button></p>` : null}
        ${this.error ? html`<p class="error" role="alert">${this.error}</p>` : null}
        ${this.offer && this.offer.choices.length > 1 ? this.choiceForm(this.offer) : [this.importForm(), this.exportList()]}
      </dialog>`;
  }

  importForm() {
    return html`<section aria-labelledby="formats-import">
      <h3 id="formats-import">${msg`Import a story`}</h3>
      <p>${msg`From SRB; Word, OpenDocument, EPUB, HTML, Rich Text, Markdown or plain text; a project of Scrivener or novelWriter; Obsidian Loom (a note, or the plugin's data.json), socketteer's loom, mikupad, KoboldAI, NovelAI, Exoloom, or a chat of SillyTavern.`}
        ${msg`It becomes a story of its own, with all its branches.`}</p>
      <p><label>${msg`Choose files, or drop them anywhere`} <input type="file" multiple accept=${ACCEPTED} @change=${this.pick}></label></p>
      <p><label>${msg`Or a folder: a project of Scrivener or novelWriter, or chapters in Markdown`} <input type="file" webkitdirectory @change=${this.pickFolder}></label></p>
      <form @submit=${this.takePasted}>
        <label>${msg`Or paste a story`} <textarea rows="2" required spellcheck="false"></textarea></label>
        <button>${msg`Import what was pasted`}</button>
      </form>
    </section>`;
  }

  exportList() {
    return html`<section aria-labelledby="formats-export">
      <h3 id="formats-export">${msg`Export “${this.desk.title}”`}</h3>
      ${this.bookFields()}
      <ul>${WRITERS.map(
        (writer) => html`<li>
          <button aria-describedby=${`formats-${writer.id}`} @click=${() => this.save(writer)}>${writer.label}</button>
          <span id=${`formats-${writer.id}`}>${writer.ending}: ${writer.holds}</span>
        </li>`,
      )}</ul>
    </section>`;
  }

  /** What a book says of itself; kept with the story. */
  bookFields() {
    const author = String(this.desk.story.meta("author") ?? "");
    const keep = (/** @type {any} */ event) => this.desk.setMeta("author", event.target.value.trim());
    return html`<div class="book">
      <label>${msg`Author`} <input maxlength="200" .value=${live(author)} @change=${keep}></label>
      <srb-language data-place="formats" .desk=${this.desk}></srb-language>
    </div>`;
  }

  /** @param {Offer} offer */
  choiceForm(offer) {
    const submit = (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      return this.importChosen();
    };
    return html`<form class="choice" @submit=${submit}>
      <fieldset>
        <legend>${msg`${NUMBER.format(offer.choices.length)} stories from ${offer.format}`}</legend>
        ${offer.choices.map(
          (choice) => html`<label>
            <input type="checkbox" .checked=${choice.chosen} @change=${(/** @type {any} */ event) => {
              choice.chosen = event.target.checked;
            }}>
            <span dir="auto">${titleOf(choice.story)}</span>
            <span class="size">${sizeOf([choice.story])}</span>
          </label>`,
        )}
      </fieldset>
      <p><button class="main">${msg`Import the chosen`}</button>
        <button type="button" @click=${() => this.forget()}>${msg`Cancel`}</button></p>
    </form>`;
  }

  forget() {
    this.offer = null;
    this.say("");
  }
}

/**
 * @param {File[]} files
 * @param {AbortSignal} signal
 * @returns {Promise<Offer>}
 * @throws {StoryError} if one of them is no story
 */
async function readAll(files, signal) {
  for (const file of files) checkSize(file.name, file.size, await file.slice(0, BEGINNING).text());
  /** @type {Offer} */
  const offer = { format: "", choices: [], remarks: [] };
  for (const file of files) {
    const found = await read(file.name, new Uint8Array(await file.arrayBuffer()), signal);
    if ("error" in found) throw new StoryError(found.error);
    offer.choices.push(...found.stories.map((story) => ({ story, chosen: true })));
    offer.remarks.push(...found.remarks);
    offer.format = offer.format === "" || offer.format === found.format ? found.format : msg`several programs`;
  }
  return offer;
}

/** Make PNGs of the pictures that books do not show. @param {Files} files */
async function makePrintable(files) {
  for (const file of Object.values(files)) {
    if (file.type !== "image/bmp") continue;
    const png = await asPng(fromBase64(file.data)).catch(() => null);
    if (png) Object.assign(file, { type: "image/png", data: base64(png) });
  }
}

/**
 * @param {Story[]} stories
 * @param {string} format
 */
function summary(stories, format) {
  const words = sizeOf(stories);
  if (stories.length === 1) return msg`Imported ${words} from ${format}.`;
  return msg`Imported ${NUMBER.format(stories.length)} stories with ${words} from ${format}.`;
}

/** The words of all texts of stories. @param {Story[]} stories */
function sizeOf(stories) {
  const texts = stories.flatMap(({ nodes }) => Array.from(nodes.values(), ({ text }) => text));
  return wordCount(texts.reduce((sum, text) => sum + countWords(text), 0));
}

/** @param {string} title */
function apart(title) {
  return msg`“${title}” is a story of its own now: the one from which the file was exported has other texts.`;
}

/** @param {Story} story */
function titleOf(story) {
  return String(story.meta("title") ?? "") || msg`Untitled`;
}

customElements.define("srb-formats", Formats);
