// vendor/idb.js: IndexedDB with promises.
export { deleteDB, openDB } from "idb";

export type { DBSchema, IDBPDatabase, IDBPObjectStore, IDBPTransaction } from "idb";
