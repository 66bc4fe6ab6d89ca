import { IdbShelf } from "../page/keep/shelf.js";
import { CONTRACT } from "./shelf_contract.js";

let number = 0;

/** Run one promise of the contract on a database of its own; return what broke, or "". */
async function run(promise) {
  number += 1;
  try {
    await CONTRACT[promise](new IdbShelf(`test ${number}`));
    return "";
  } catch (error) {
    return error.message;
  }
}

/** Delete a database as a browser does that clears its data, while a shelf has it open. */
async function deleteUnder(name) {
  const shelf = new IdbShelf(name);
  await shelf.change([["a", "1"]], () => 1);
  await new Promise((resolve, reject) => {
    const request = indexedDB.deleteDatabase(name);
    request.onsuccess = resolve;
    request.onerror = reject;
  });
  await shelf.change([["a", "2"]], () => 2);
  return shelf.read("a");
}

Object.assign(window, { IdbShelf, promises: Object.keys(CONTRACT), run, deleteUnder, ready: true });
