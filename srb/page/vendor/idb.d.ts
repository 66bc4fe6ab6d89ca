export * from "../../../tools/page/vendor/idb.js"; // for the checker only; not in the wheel
