// Counts what the page does while it is watched: writes to cards by frame, frames, time from a key to its paint, and from
// Ctrl+Enter to the first word. Runs before the page's own modules; `watched` is read by bench/page/desk.py.

(() => {
  const CARD = "article";
  const TEXT = ".text"; // in a card: what the branch wrote
  const KEY_FLOOR = 16; // ms: shorter ones are not reported

  const visible = new WeakSet();
  const known = new WeakSet();
  const sight = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      visible[isIntersecting ? "add" : "delete"](target);
    }
  });

  const fresh = () => ({
    frames: [],
    batches: 0,
    writes: 0,
    most: 0,
    hidden: 0,
    keys: 0,
    slowKeys: [],
    firstWord: null,
  });
  let watched = fresh();
  let inFrame = new Map(); // the frame's writes, by card
  let started = null; // when Ctrl+Enter was pressed, until the first word is painted
  let last = null;
  let isFrame = false; // the callbacks of a frame are being called

  /** Return the element that a node is, or is in. */
  const elementOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node : node.parentElement);

  /** Return the card that a node is in, also from inside of a shadow root. */
  function cardOf(node) {
    const host = node.getRootNode().host;
    return elementOf(node)?.closest(CARD) ?? (host ? cardOf(host) : null);
  }

  function noteWrite(record) {
    const card = cardOf(record.target);
    if (card === null) {
      return;
    }
    if (!known.has(card)) {
      known.add(card);
      sight.observe(card);
    }
    inFrame.set(card, (inFrame.get(card) ?? 0) + 1);
    const text = elementOf(record.target)?.closest(TEXT);
    if (started !== null && text?.textContent.trim()) {
      notePaint(started);
      started = null;
    }
  }

  /** Do something after the tasks that are waiting: from inside of a frame, that is after its paint. */
  function afterThis(act) {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = act;
    port2.postMessage(null);
  }

  /** Note the time from `since` to the paint of what was written just now: this frame's, or else the next one's. */
  function notePaint(since) {
    const note = () => {
      watched.firstWord = performance.now() - since;
    };
    if (isFrame) afterThis(note);
    else request(() => afterThis(note));
  }

  const writes = new MutationObserver((records) => records.forEach(noteWrite));
  const everything = { characterData: true, childList: true, subtree: true };
  writes.observe(document, everything);

  const attachShadow = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (options) {
    const root = attachShadow.call(this, options);
    writes.observe(root, everything);
    return root;
  };

  // The page's own frames: one that is asked for only to be counted would take the place of the one that shows the first word.
  const request = globalThis.requestAnimationFrame.bind(globalThis);
  globalThis.requestAnimationFrame = (act) =>
    request((now) => {
      frame(now);
      act(now);
    });

  function frame(now) {
    if (now === last) {
      return; // another callback of the same frame
    }
    isFrame = true;
    afterThis(() => {
      isFrame = false;
    });
    if (last !== null) {
      watched.frames.push(now - last);
    }
    last = now;
    for (const [card, count] of inFrame) {
      watched.batches += 1;
      watched.writes += count;
      watched.most = Math.max(watched.most, count);
      watched.hidden += visible.has(card) ? 0 : count;
    }
    inFrame = new Map();
  }

  addEventListener(
    "keydown",
    (event) => {
      watched.keys += 1;
      if (event.ctrlKey && event.code === "Enter") {
        started = event.timeStamp;
      }
    },
    { capture: true },
  );
  new PerformanceObserver((list) => {
    watched.slowKeys.push(...list.getEntriesByName("keydown").map((entry) => entry.duration));
  }).observe({ type: "event", durationThreshold: KEY_FLOOR });

  globalThis.readWatch = () => {
    const read = { ...watched, elements: document.querySelectorAll("*").length };
    watched = fresh();
    return read;
  };
})();
