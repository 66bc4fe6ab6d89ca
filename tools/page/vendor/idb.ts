// vendor/idb.js: IndexedDB with promises.

export type { DBSchema, IDBPDatabase, IDBPObjectStore, IDBPTransaction } from "idb";
export { deleteDB, openDB } from "idb";
