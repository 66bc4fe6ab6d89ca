export * from "../../../tools/page/vendor/zip.js"; // for the checker only; not in the wheel
