/** Files that a person gives as pictures or sounds: read, checked by their first bytes, and made small enough to be sent. */

import { msg } from "../languages.js";
import { typeOf } from "../media.js";
import { isTurned } from "../picture_header.js";

const LARGEST_READ = 64 * 2 ** 20; // bytes of a file that is looked at
const LARGEST_SOUND = 8 * 2 ** 20; // bytes that the server keeps of one
const LARGE = 2 ** 20; // bytes of a picture beyond which it is made smaller: it is sent with each round
const SIDE = 2048; // pixels of a smaller one; models see no more
const QUALITY = 0.9;

/** Whether a file says that it is a picture or sound. @param {{type: string}} file */
export const isMedium = ({ type }) => /^(image|audio)\//.test(type);

/**
 * Return the bytes of a picture or sound as the server takes them.
 * @param {File} file @returns {Promise<{bytes: Uint8Array<ArrayBuffer>, type: string}>}
 * @throws {Error} with the end of a sentence that begins with the file's name
 */
export async function readMedium(file) {
  if (file.size > LARGEST_READ) throw new Error(msg`has ${megabytes(file.size)}; at most 64 MB are read`);
  const bytes = new Uint8Array(await file.arrayBuffer());
  const type = typeOf(bytes);
  if (type.startsWith("audio/")) {
    if (bytes.length > LARGEST_SOUND) throw new Error(msg`has ${megabytes(bytes.length)}; a sound may have 8 MB`);
    return { bytes, type };
  }
  const isFit = type !== "" && bytes.length <= LARGE && !isTurned(bytes); // models see a picture as its pixels are stored
  if (isFit) return { bytes, type };
  return { bytes: await encoded(new Blob([bytes], { type: type || file.type }), "image/jpeg"), type: "image/jpeg" };
}

/** Return a picture as PNG. @param {Uint8Array<ArrayBuffer>} bytes of a picture that the browser reads */
export const asPng = (bytes) => encoded(new Blob([bytes]), "image/png");

/** Draw a picture upright, no larger than models see, and return it in another format. @param {Blob} file @param {string} type */
async function encoded(file, type) {
  const picture = await decoded(file);
  const scale = Math.min(1, SIDE / Math.max(picture.width, picture.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(scale * picture.width));
  canvas.height = Math.max(1, Math.round(scale * picture.height));
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.fillStyle = "white"; // JPEG has no transparent pixels
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  picture.close();
  /** @type {Blob | null} */
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, type, QUALITY));
  if (!blob) throw new Error(msg`is too large for this browser to make it smaller`);
  return new Uint8Array(await blob.arrayBuffer());
}

/** @param {Blob} file */
async function decoded(file) {
  try {
    return await createImageBitmap(file, { imageOrientation: "from-image" });
  } catch {
    throw new Error(
      msg`cannot be read: it is damaged, or no picture (PNG, JPEG, GIF, BMP, WebP) or sound (WAV, MP3, FLAC)`,
    );
  }
}

/** @param {number} bytes */
const megabytes = (bytes) => `${Math.ceil(bytes / 2 ** 20)} MB`;
