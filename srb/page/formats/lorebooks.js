/**
 * Lorebooks of other programs as entries of ours: SillyTavern's world info, `character_book` in cards (JSON, or in a PNG's text), NovelAI's
 * .lorebook, world info of KoboldAI and KoboldAI Lite, mikupad's, and SRB's own. What one has and ours has not is said, not dropped in
 * silence.
 *
 * @typedef {Omit<import("../lore/entries.js").Entry, "id">} Bare
 * @typedef {{format: string, entries: Bare[], remarks: string[]}} Lorebook
 */
import { msg, NUMBER } from "../languages.js";
import { entryOf, faultOfEntry, MOST, ORDER } from "../lore/entries.js";
import { isRecord } from "../story/check.js";
import { StoryError } from "../story/read.js";
import { stretches } from "../story/text.js";
import { listOf, objectOf, optionalText, takeRemarks } from "./file.js";

const PATTERN = /^\/.+\/[a-z]*$/s; // a regular expression: it could keep the page busy without end
/** SillyTavern's `selectiveLogic`. @type {import("../lore/entries.js").Rule[]} */
const LOGIC = ["any", "not all", "none", "all"];

/** Entries as they are gathered from a file. */
class Gathered {
  /** @type {Bare[]} */
  entries = [];
  patterns = 0;
  chances = 0;
  cut = 0; // texts and keywords that were too long or too many

  /**
   * @param {{[name in keyof Bare]?: unknown}} given  as the file has it
   * @param {string} where  names the entry, as the beginning of a sentence
   */
  add(given, where) {
    const text = optionalText(given.text, msg`${where}: its text`).trim();
    const name = optionalText(given.name, msg`${where}: its name`).trim();
    const { keys, others } = { keys: this.#keys(given.keys, where), others: this.#keys(given.others, where) };
    if (text === "" && name === "" && keys.length === 0) return; // an entry that nobody has filled
    if (this.entries.length === MOST.entries)
      throw new StoryError(msg`The lorebook has more than ${NUMBER.format(MOST.entries)} entries.`);
    if (text.length > MOST.text) this.cut += 1;
    const { always, off, cased } = { always: flag(given.always), off: flag(given.off), cased: flag(given.cased) };
    const order = numberOf(given.order);
    const words = { text: stretches(text, MOST.text)[0] ?? "", name: stretches(name, MOST.name)[0] ?? "" };
    const entry = { ...given, ...words, keys, others, always, off, cased, order };
    const fault = faultOfEntry(entry, where);
    if (fault !== "") throw new StoryError(fault);
    this.entries.push(entryOf(/** @type {any} */ (entry)));
  }

  /**
   * @param {unknown} given  a list, or a text with commas
   * @param {string} where
   */
  #keys(given, where) {
    const list = typeof given === "string" ? given.split(",") : listOf(given, msg`${where}: its list of keywords`);
    const keys = list.map((each) => optionalText(each, msg`${where}: a keyword`).trim()).filter((each) => each !== "");
    this.patterns += keys.filter((key) => PATTERN.test(key)).length;
    const unique = [...new Set(keys)];
    const kept = unique.filter((key) => key.length <= MOST.key).slice(0, MOST.keys);
    this.cut += unique.length - kept.length;
    return kept;
  }

  /** @param {string} format @returns {Lorebook} */
  lorebook(format) {
    const { entries, patterns, chances, cut } = this;
    const remarks = takeRemarks();
    if (cut > 0) remarks.push(msg`Texts and keywords that were too long or too many (${NUMBER.format(cut)}) were cut.`);
    if (patterns === 1) remarks.push(msg`1 keyword is a pattern (/…/) and is compared as it is written.`);
    if (patterns > 1)
      remarks.push(msg`${NUMBER.format(patterns)} keywords are patterns (/…/) and are compared as they are written.`);
    if (chances === 1) remarks.push(msg`1 entry comes by chance there, and whenever a keyword does here.`);
    if (chances > 1)
      remarks.push(msg`${NUMBER.format(chances)} entries come by chance there, and whenever a keyword does here.`);
    return { format, entries, remarks };
  }
}

/**
 * Return the lorebook of a file's JSON; null if it is none.
 * @param {unknown} value
 * @returns {Lorebook | null}
 */
export function lorebookOf(value) {
  if (Array.isArray(value)) return isKobold(value) ? ofKobold(value) : null;
  if (!isRecord(value)) return null;
  const { entries, data, format, lorebookVersion, mikuPediaVersion } = value;
  if (format === "srb-lorebook") return ofSrb(value);
  if (lorebookVersion !== undefined) return ofNovelAi(value);
  if (mikuPediaVersion !== undefined) return ofMikupad(value);
  if (value.spec === "lorebook_v3") return ofCharacterBook(objectOf(data, msg`The lorebook's “data”`), new Gathered());
  if (isCard(value)) return ofCard(value);
  if (value.type === "risu" && Array.isArray(data)) return ofRisu(data);
  if (value.kind === "memory" && Array.isArray(entries)) return ofAgnai(entries);
  if (isRecord(entries)) return ofWorldInfo(Object.values(entries));
  if (Array.isArray(entries) && entries.some((each) => isRecord(each) && Array.isArray(each.keys) && "content" in each))
    return ofCharacterBook(value, new Gathered());
  if (Array.isArray(entries) && isKobold(entries)) return ofWorldInfo(entries);
  return null;
}

/** Risu's lorebook. @param {unknown[]} list */
function ofRisu(list) {
  const gathered = new Gathered();
  for (const [index, each] of list.entries()) {
    const where = entryNumber(index);
    const { key, secondkey, comment, content, alwaysActive, selective, insertorder, mode } = objectOf(each, where);
    if (mode === "folder") continue;
    gathered.add(
      {
        name: comment,
        keys: key,
        others: flag(selective) ? secondkey : [],
        text: content,
        always: alwaysActive,
        order: insertorder,
      },
      where,
    );
  }
  return gathered.lorebook("Risu");
}

/** Agnai's memory book. @param {unknown[]} list */
function ofAgnai(list) {
  const gathered = new Gathered();
  for (const [index, each] of list.entries()) {
    const where = entryNumber(index);
    const { name, keywords, entry, priority, enabled } = objectOf(each, where);
    gathered.add({ name, keys: keywords, text: entry, order: priority, off: !flag(enabled ?? true) }, where);
  }
  return gathered.lorebook("Agnai");
}

/** @param {Record<string, unknown>} value */
function ofSrb({ version, entries }) {
  if (version !== 1)
    throw new StoryError(
      msg`The lorebook is of version ${JSON.stringify(version) ?? msg`none`}; this page reads version 1.`,
    );
  const gathered = new Gathered();
  for (const [index, each] of listOf(entries, msg`The list of entries`).entries()) {
    const where = entryNumber(index);
    gathered.add(objectOf(each, where), where);
  }
  return gathered.lorebook("SRB");
}

/** SillyTavern's world info. @param {unknown[]} entries */
function ofWorldInfo(entries) {
  const gathered = new Gathered();
  for (const [index, each] of entries.entries()) {
    const where = entryNumber(index);
    const {
      key,
      keysecondary,
      comment,
      content,
      constant,
      disable,
      order,
      caseSensitive,
      selective,
      selectiveLogic,
      useProbability,
      probability,
    } = objectOf(each, where);
    gathered.chances += Number(useProbability === true && typeof probability === "number" && probability < 100);
    gathered.add(
      {
        name: comment,
        keys: key,
        others: selective === false ? [] : keysecondary,
        text: content,
        always: constant,
        off: disable,
        cased: caseSensitive,
        order,
        rule: LOGIC[Number(selectiveLogic ?? 0)] ?? "any",
      },
      where,
    );
  }
  return gathered.lorebook("SillyTavern");
}

/** A lorebook as the specifications of cards have it. @param {Record<string, unknown>} book @param {Gathered} gathered */
function ofCharacterBook(book, gathered) {
  for (const [index, each] of listOf(book.entries, msg`The list of the card's entries`).entries()) {
    const where = entryNumber(index);
    const {
      keys,
      secondary_keys,
      name,
      comment,
      content,
      constant,
      enabled,
      insertion_order,
      case_sensitive,
      selective,
      extensions,
    } = objectOf(each, where);
    const { selectiveLogic, probability, useProbability } = isRecord(extensions) ? extensions : /** @type {any} */ ({});
    gathered.chances += Number(useProbability !== false && typeof probability === "number" && probability < 100);
    gathered.add(
      {
        name: name || comment,
        keys,
        others: selective === true ? secondary_keys : [],
        text: content,
        always: constant,
        off: !flag(enabled ?? true),
        cased: case_sensitive,
        order: insertion_order,
        rule: LOGIC[Number(selectiveLogic ?? 0)] ?? "any",
      },
      where,
    );
  }
  return gathered.lorebook("SillyTavern");
}

/** @param {Record<string, unknown>} value  of which the first version had its fields at the top */
function isCard(value) {
  return (
    /^chara_card_v\d/.test(String(value.spec)) ||
    ["name", "description", "first_mes"].every((name) => typeof value[name] === "string")
  );
}

/** A character's card: what it says of the character is an entry, and its book's entries follow. @param {Record<string, unknown>} value */
function ofCard(value) {
  const card = isRecord(value.data) ? value.data : value;
  const name = optionalText(card.name, msg`The card's name`).trim();
  const about = ["description", "personality", "scenario"].map((each) =>
    optionalText(card[each], msg`The card's “${each}”`).trim(),
  );
  const text = about
    .filter((each) => each !== "")
    .join("\n")
    .replace(/\{\{char\}\}/gi, () => name);
  const gathered = new Gathered();
  gathered.add({ name, keys: [name], text }, msg`The character`);
  const book = card.character_book ?? {};
  const { remarks, ...lorebook } = ofCharacterBook(objectOf(book, msg`The card's “character_book”`), gathered);
  const isSaid = ["first_mes", "mes_example"].some(
    (each) => optionalText(card[each], msg`The card's “${each}”`).trim() !== "",
  );
  return {
    ...lorebook,
    remarks: isSaid ? [...remarks, msg`The card's greeting and examples were left out.`] : remarks,
  };
}

/** @param {Record<string, unknown>} book */
export function ofNovelAi(book) {
  const categories = listOf(book.categories, msg`The list of categories`);
  const off = new Set(
    categories.filter((each) => isRecord(each) && each.enabled === false).map((each) => /** @type {any} */ (each).id),
  );
  const gathered = new Gathered();
  for (const [index, each] of listOf(book.entries, msg`The lorebook's list of entries`).entries()) {
    const where = entryNumber(index);
    const { displayName, keys, text, enabled, forceActivation, contextConfig, category } = objectOf(each, where);
    const { prefix, suffix, budgetPriority } = objectOf(contextConfig ?? {}, msg`${where}: “contextConfig”`);
    gathered.add(
      {
        name: displayName,
        keys,
        text: [prefix, text, suffix].map((part) => optionalText(part, msg`${where}: its text`)).join(""),
        always: forceActivation,
        off: !flag(enabled ?? true) || off.has(category),
        order: budgetPriority,
      },
      where,
    );
  }
  return gathered.lorebook("NovelAI");
}

/** @param {unknown[]} list */
function isKobold(list) {
  return list.length > 0 && list.every((each) => isRecord(each) && "key" in each && "content" in each);
}

/** World info of KoboldAI's clients, whose new interface has lists of keywords where the others have texts. @param {unknown[]} list */
export function ofKobold(list) {
  const gathered = new Gathered();
  for (const [index, each] of list.entries()) {
    const where = entryNumber(index);
    const {
      key,
      keysecondary,
      keyanti,
      title,
      comment,
      content,
      manual_text,
      constant,
      selective,
      widisabled,
      probability,
    } = objectOf(each, where);
    const isAnti = selective !== true && typeof keyanti === "string" && keyanti.trim() !== "";
    gathered.chances += Number(probability !== undefined && probability !== "" && Number(probability) < 100);
    gathered.add(
      {
        name: title || comment,
        keys: key,
        others: selective === true ? keysecondary : isAnti ? keyanti : [],
        rule: isAnti ? "none" : "any",
        text: content || manual_text,
        always: constant,
        off: widisabled,
      },
      where,
    );
  }
  return gathered.lorebook("KoboldAI");
}

/** @param {Record<string, unknown>} world */
export function ofMikupad(world) {
  const gathered = new Gathered();
  for (const [index, each] of listOf(world.entries, msg`The list of world info`).entries()) {
    const where = entryNumber(index);
    const { displayName, keys, text } = objectOf(each, where);
    gathered.add({ name: displayName, keys, text }, where);
  }
  return gathered.lorebook("mikupad");
}

/** @param {number} index */
const entryNumber = (index) => msg`Entry ${index + 1} of the lorebook`;

/** What programs write for true and false. @param {unknown} value @returns {boolean} */
const flag = (value) => (typeof value === "string" ? !/^\s*(|0|false|no|off|null)\s*$/i.test(value) : Boolean(value));

/** @param {unknown} value  perhaps in a text @returns {number} */
function numberOf(value) {
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  if (typeof number !== "number" || !Number.isFinite(number)) return ORDER;
  return Math.max(-MOST.order, Math.min(number, MOST.order));
}
