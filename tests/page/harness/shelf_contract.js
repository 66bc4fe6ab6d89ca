/** What every shelf keeps to: run by Node on the shelf in memory, and in a browser on IndexedDB. */

function check(isTrue, promise) {
  if (!isTrue) throw new Error(`a shelf broke its promise: ${promise}`);
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const put = (shelf, entries) => {
  const values = new Map(entries.map(([key, value]) => [JSON.stringify(key), value]));
  return shelf.change(
    entries.map(([key]) => key),
    (key) => values.get(JSON.stringify(key)),
  );
};

/** @type {Record<string, (shelf: import("../../../srb/page/keep/shelf.js").Shelf) => Promise<void>>} */
export const CONTRACT = {
  "values are read back by the first text of their keys, in the order of the keys": async (shelf) => {
    await put(shelf, [
      [["b", "nodes", "1"], { text: "x" }],
      [["a", "nodes", "2"], 2],
      [["a", "meta", "title"], 1],
      [["ab", "meta", "title"], 3],
    ]);
    const found = await shelf.read("a");
    check(
      same(found.sort(), [
        [["a", "meta", "title"], 1],
        [["a", "nodes", "2"], 2],
      ]),
      JSON.stringify(found),
    );
    check(same(await shelf.read("b"), [[["b", "nodes", "1"], { text: "x" }]]), "objects come back");
    check(same(await shelf.read("c"), []), "nothing is nothing");
    check(same(await shelf.firsts(), ["a", "ab", "b"]), JSON.stringify(await shelf.firsts()));
  },
  "values are got by their keys": async (shelf) => {
    await put(shelf, [
      [["a", "1"], "one"],
      [["a", "2"], "two"],
    ]);
    check(
      same(
        await shelf.get([
          ["a", "2"],
          ["a", "3"],
          ["a", "1"],
        ]),
        ["two", undefined, "one"],
      ),
      "in the order that was asked",
    );
  },
  "a change sees what is stored, and undefined removes": async (shelf) => {
    await put(shelf, [
      [["a", "1"], 1],
      [["a", "2"], 2],
    ]);
    await shelf.change(
      [
        ["a", "1"],
        ["a", "2"],
        ["a", "3"],
      ],
      (_key, stored) => (stored === 2 ? undefined : (stored ?? 10) + 1),
    );
    check(
      same((await shelf.read("a")).sort(), [
        [["a", "1"], 2],
        [["a", "3"], 11],
      ]),
      "changed, removed and made",
    );
  },
  "changes that begin together are made one after the other": async (shelf) => {
    await Promise.all(
      Array.from({ length: 20 }, () => shelf.change([["a", "count"]], (_key, stored) => (stored ?? 0) + 1)),
    );
    check(same(await shelf.get([["a", "count"]]), [20]), "none is lost");
  },
  "what is stored does not change with the object that it came from": async (shelf) => {
    const value = { text: "before" };
    await put(shelf, [[["a", "1"], value]]);
    value.text = "after";
    check(same(await shelf.get([["a", "1"]]), [{ text: "before" }]), "a copy is stored");
  },
  "the first keys of a story are found without its values": async (shelf) => {
    await put(shelf, [
      [["a", "nodes", "1"], 1],
      [["a", "about"], 2],
      [["a", "meta", "x"], 3],
      [["b", "about"], 4],
    ]);
    check(
      same(await shelf.keys("a", 2), [
        ["a", "about"],
        ["a", "meta", "x"],
      ]),
      "in their order",
    );
    check(same(await shelf.keys("c", 2), []), "none");
  },
  "many values are changed at once as few are": async (shelf) => {
    const keys = Array.from({ length: 800 }, (_, n) => ["a", "nodes", `n${n}`]);
    await shelf.change(keys.slice(0, 700), (key) => key[2]);
    await shelf.change(keys, (key, stored) => (stored === undefined ? 1 : stored === key[2] ? undefined : "another's"));
    check((await shelf.read("a")).length === 100, "those that were there are gone, the others are made");
  },
  "a story is removed whole, and no other one": async (shelf) => {
    await put(shelf, [
      [["a", "nodes", "1"], 1],
      [["a", "marks", "1", "star"], 2],
      [["aa", "nodes", "1"], 3],
      [["b", "nodes", "1"], 4],
    ]);
    await shelf.remove("a");
    check(same(await shelf.firsts(), ["aa", "b"]), "the others stay");
  },
  "any text is a key": async (shelf) => {
    await put(shelf, [
      [["__proto__", "constructor", "é🦊"], 1],
      [["", "", ""], 2],
    ]);
    check(same(await shelf.firsts(), ["", "__proto__"]), "odd names are names");
    check(same(await shelf.get([["__proto__", "constructor", "é🦊"]]), [1]), "odd names are found");
  },
};
