// <srb-directions>: what happens in each card of the next round, one line a card: written, dealt from the deck, or kept for every round.
// Where words are selected, each line says what becomes of them.

import { deal, deckOf, LONGEST, ownDeck, readDeck, waysOf } from "../deck.js";
import { draftOf, keepDraft } from "../desk/drafts.js";
import { msg, NUMBER } from "../languages.js";
import { EACH } from "../tasks.js";
import { html, live } from "../vendor/lit.js";
import { icon } from "./icons.js";
import { pickFile } from "./picked_file.js";
import { PlacePart } from "./place_part.js";

/** @typedef {{text: string, isDealt: boolean, isKept: boolean}} Line */

class DirectionsPart extends PlacePart {
  constructor() {
    super("directions");
    /** @type {Line[]} */
    this.lines = [];
    /** @type {AbortController | null} of the question to the model */
    this.asking = null;
    /** @type {Promise<void> | null} while lines are dealt */
    this.dealing = null;
    this.message = ""; // on the deck's file
    this.isError = false;
    this.isFilling = false; // of its gap: the lines are events, as at a text's end
  }

  async open() {
    if (this.isThere) return this.focusFirst(); // dealt lines stay, and the model may be naming some
    this.say("");
    this.passage = this.desk.selected;
    this.isFilling = false;
    const { directions, n } = this.desk.settings;
    const begun = draftOf(this.desk, this.draft).split("\n");
    this.lines = Array.from({ length: n }, (_, place) => {
      const kept = (!this.passage && directions[place]) || "";
      return lineOf(begun[place] || kept, kept !== "" && (begun[place] || kept) === kept);
    });
    await super.open();
    this.focusFirst();
  }

  focusFirst() {
    /** @type {HTMLElement | null} */ (this.querySelector("li input"))?.focus();
  }

  /** Whether it is shown, for what is selected and as many cards. */
  get isThere() {
    const { selected, settings } = this.desk;
    return this.dialog && this.isShown && this.passage === selected && this.lines.length === settings.n;
  }

  /** About a passage it goes when that is no longer selected. */
  get stays() {
    return !this.passage;
  }

  /** The name of what is written. */
  get draft() {
    return this.passage ? "ways" : "directions";
  }

  get isEmpty() {
    return this.lines.every(isOpen);
  }

  /** Whether each line says what becomes of a passage, and not what happens. */
  get isRevising() {
    return this.passage !== "" && !this.isFilling;
  }

  /** @param {boolean} isFilling */
  choose(isFilling) {
    this.isFilling = isFilling;
    for (const line of this.lines) if (line.isDealt) Object.assign(line, lineOf()); // from the other deck
    this.requestUpdate();
  }

  /** Fill the lines that are empty, or with `isAgain` those that were dealt, too. @param {{isAgain?: boolean}} [options] */
  async deal({ isAgain = false } = {}) {
    const deck = await (this.isRevising ? waysOf : deckOf)(this.desk.story);
    const dealt = this.lines.map(({ text }) => text);
    const open = this.lines.filter((line) => isOpen(line) || (isAgain && line.isDealt && !line.isKept));
    for (const [place, move] of deal(deck, open.length, { dealt }).entries())
      Object.assign(open[place], { text: move, isDealt: true });
    this.requestUpdate();
  }

  /** Fill the open lines with the model's own ideas. */
  async ask() {
    const asking = new AbortController();
    this.asking = asking;
    this.requestUpdate();
    try {
      const open = this.lines.filter(isOpen);
      const { ideasOf } = await import("../desk/ideas.js");
      const ideas = await ideasOf(this.desk, open.length, asking.signal);
      for (const [place, text] of ideas.entries())
        if (open[place] && isOpen(open[place])) Object.assign(open[place], { text, isDealt: true });
    } catch (error) {
      if (!asking.signal.aborted) this.desk.notice(/** @type {Error} */ (error).message, "error");
    } finally {
      if (this.asking === asking) this.asking = null;
      this.requestUpdate();
    }
  }

  closed() {
    this.asking?.abort();
  }

  /** Begin the round; without a line, deal first, for which a second Enter waits. @param {Event} event */
  async go(event) {
    event.preventDefault();
    if (this.dealing) await this.dealing;
    else if (this.isEmpty) return this.dealOrSay();
    if (this.isShown && !this.isEmpty) this.write();
  }

  write() {
    const directions = this.lines.map(({ text }) => text.trim());
    keepDraft(this.desk, this.draft, "");
    this.close();
    const place = this.isRevising ? { task: EACH } : { isFilling: this.isFilling };
    this.desk.go({ n: directions.length, directions, ...place });
    this.desk.manuscript?.focus();
  }

  /** @param {{isAgain?: boolean}} [options] */
  async dealOrSay(options) {
    this.dealing = this.deal(options).catch(() => this.desk.sayNotLoaded());
    await this.dealing;
    this.dealing = null;
  }

  /** Keep the lines that every round is to have, with the story. */
  keep() {
    if (this.passage) return;
    const kept = this.lines.map(({ text, isKept }) => (isKept ? text.trim() : ""));
    while (kept.length && !kept.at(-1)) kept.pop();
    if (kept.join("\n") !== this.desk.settings.directions.join("\n")) this.desk.setSetting("directions", kept);
  }

  // ---- The deck's file

  /** Let the story have the deck of a file. @param {Event} event */
  pick(event) {
    return pickFile(this, event, async ({ name }, bytes, isOpen) => {
      const { decode, parse } = await import("../formats/file.js");
      const moves = readDeck(parse(decode(bytes, name).text, name));
      if (!isOpen()) return "";
      this.setDeck({ name: name.replace(/\.json$/iu, ""), moves });
      return msg`${NUMBER.format(Object.values(moves).flat().length)} lines came in.`;
    });
  }

  /** @param {import("../deck.js").OwnDeck | null} deck null: the language's */
  setDeck(deck) {
    const before = this.desk.story.meta("deck");
    this.desk.setMeta("deck", deck);
    this.desk.recordMeta("deck", before);
    this.requestUpdate();
  }

  /** Have the page's deck again. Its button goes, and the focus stays where it was. */
  reset() {
    this.setDeck(null);
    this.say("");
    /** @type {HTMLElement | null} */ (this.querySelector(".deck summary"))?.focus();
  }

  /** Write the deck into a file, to be changed and read again. */
  async save() {
    const [{ fileName }, { download }] = await Promise.all([import("../formats/write.js"), import("./download.js")]);
    const { story } = this.desk;
    const name = fileName(ownDeck(story)?.name ?? msg`deck`, ".json");
    download(JSON.stringify(await deckOf(story), null, 2), name, "application/json");
    this.say(msg`“${name}” is among your downloads.`);
  }

  /** @param {string} message */
  say(message, isError = false) {
    Object.assign(this, { message, isError });
    this.requestUpdate();
  }

  deck() {
    const own = ownDeck(this.desk.story);
    const save = () => this.save().catch(() => this.desk.sayNotLoaded());
    return html`<details class="deck">
      <summary>${own ? msg`The deck: ${own.name}` : msg`The deck`}</summary>
      <p><label>${msg`One of your own for this story: a JSON file of lists`}
        <input type="file" accept=".json,application/json" @change=${(/** @type {Event} */ event) => this.pick(event)}></label></p>
      <p class="buttons"><button type="button" @click=${save}>${msg`Save it as a file`}</button>
        ${own ? html`<button type="button" @click=${() => this.reset()}>${msg`The page's deck again`}</button>` : ""}</p>
      <p role=${this.isError ? "alert" : "status"} class=${this.isError ? "wrong" : "hint"}>${this.message}</p>
    </details>`;
  }

  /** @param {Line} line @param {Partial<Line>} change */
  change(line, change) {
    Object.assign(line, change);
    const begun = this.lines.map(({ text, isDealt, isKept }) => (isDealt || isKept ? "" : text));
    keepDraft(this.desk, this.draft, begun.some(Boolean) ? begun.join("\n") : "");
    this.keep();
    this.requestUpdate();
  }

  /** Put pasted lines into a line and those after it. @param {ClipboardEvent} event @param {number} place */
  paste(event, place) {
    const pasted = (event.clipboardData?.getData("text/plain") ?? "").split(/\r?\n/u).filter((line) => line.trim());
    if (pasted.length < 2) return;
    event.preventDefault();
    for (const [index, text] of pasted.entries())
      if (this.lines[place + index]) this.change(this.lines[place + index], lineOf(text.slice(0, LONGEST), false));
  }

  render() {
    const { desk, isEmpty, isRevising, lines, passage } = this;
    const hasDealt = lines.some(({ isDealt }) => isDealt);
    const asks = desk.server.chat_template && !passage && lines.some(isOpen);
    const title = isRevising ? msg`What becomes of ${this.quote} in each card` : msg`What happens in each card`;
    return this.box(
      title,
      html`<form @submit=${this.go}>
        ${passage ? this.kinds() : ""}
        <ol>${lines.map((line, place) => this.row(line, place))}</ol>
        <p class="buttons">
          <button class="main">${isEmpty ? msg`Deal` : msg`Write, ${lines.length} ways`}</button>
          ${isEmpty || !lines.some(isOpen) ? "" : html`<button type="button" title=${msg`Fill the empty lines from the deck`} @click=${() => this.dealOrSay()}>${msg`Deal`}</button>`}
          ${asks ? this.askButton() : ""}
          ${hasDealt ? html`<button type="button" title=${msg`Other cards for the lines that were dealt`} @click=${() => this.dealOrSay({ isAgain: true })}>${msg`Deal again`}</button>` : ""}
        </p>
        <p><label><input type="checkbox" .checked=${live(desk.settings.shows_directions)}
          @change=${(/** @type {any} */ event) => desk.setSetting("shows_directions", event.target.checked)} /> ${msg`Show them on the cards`}</label></p>
        ${isRevising ? "" : this.deck()}
      </form>`,
    );
  }

  /** Whether the lines say what becomes of the passage, or what happens in its place. */
  kinds() {
    const kind = (/** @type {boolean} */ isFilling, /** @type {string} */ words) =>
      html`<label><input type="radio" name="directions-kind" .checked=${live(isFilling === this.isFilling)}
        @change=${() => this.choose(isFilling)} /> ${words}</label>`;
    return html`<fieldset class="buttons"><legend class="hidden-words">${msg`How`}</legend>
      ${kind(false, msg`Revise the passage`)} ${kind(true, msg`Fill the gap`)}</fieldset>`;
  }

  askButton() {
    const title = msg`Its own ideas for the empty lines; those of a small model are much alike`;
    return html`<button type="button" title=${title} ?disabled=${this.asking !== null} @click=${() => this.ask()}>
      ${this.asking ? msg`The model is asked …` : msg`Ask the model`}</button>`;
  }

  /** @param {Line} line @param {number} place */
  row(line, place) {
    const number = place + 1;
    return html`<li>
      <span class="number" aria-hidden="true">${number}</span>
      <input dir="auto" maxlength=${LONGEST} aria-label=${msg`Card ${number}`} placeholder=${this.isRevising ? msg`in other words` : msg`whatever the model likes`}
        .value=${live(line.text)} @paste=${(/** @type {ClipboardEvent} */ event) => this.paste(event, place)}
        @input=${(/** @type {any} */ event) => this.change(line, { text: event.target.value, isDealt: false })} />
      ${this.passage ? "" : this.pin(line, number)}
    </li>`;
  }

  /** @param {Line} line @param {number} number */
  pin(line, number) {
    const keep = line.isKept ? msg`Kept for every round` : msg`Keep for every round`;
    return html`<button type="button" class="quiet" aria-pressed=${line.isKept} aria-label=${msg`${keep}: card ${number}`} title=${keep}
      ?disabled=${!line.text.trim()} @click=${() => this.change(line, { isKept: !line.isKept })}>${icon("pin")}</button>`;
  }
}

/** @param {string} [text] @param {boolean} [isKept] @returns {Line} */
function lineOf(text = "", isKept = text !== "") {
  return { text, isDealt: false, isKept };
}

/** Whether a line is empty. @param {Line} line */
const isOpen = ({ text }) => text.trim() === "";

customElements.define("srb-directions", DirectionsPart);
