/**
 * The types of a story, as it is kept, sent and exported. Times are milliseconds since 1970, offsets UTF-16 units.
 *
 * A node is one splice of its parent's text: the first `keep` units, then `text`, then the parent's text from `tail` on
 * (without `tail`, nothing). A place is the first `at` units of a node's text; the empty story is the place {node: "", at: 0}.
 *
 * @typedef {{node: string, at: number}} Place
 * @typedef {"person" | "model" | "import"} Author
 * @typedef {{reason: string, word?: string, message?: string}} End
 * @typedef {object} Node
 * @property {string} id
 * @property {string} [parent]  absent in a root, which then has no keep and no tail either
 * @property {number} [keep]
 * @property {number} [tail]
 * @property {string} text
 * @property {Author} by
 * @property {number} made
 * @property {boolean} [open]  the node still grows (by: model), or is being typed (by: person)
 * @property {string} [who]  the person's name, where people have names
 * @property {number} [changed]  the time of this version of an open node of a person
 * @property {string} [run]
 * @property {number} [index]
 * @property {number} [slot]
 * @property {string} [request]  the request that wrote it, if another one than its run's
 * @property {number} [seed]
 * @property {string} [direction]  what was to happen in it
 * @property {Record<string, unknown>} [asked]  the fields of a branch that was added to its request, and the place that it is a fork of
 * @property {{node: string, at: number}} [of]  its text is a copy of another node's, from `at` on
 * @property {string} [act]  nodes of one act, each the next one's parent, are one step of the text
 * @property {Place} [joined]  another text that was joined with its parent's, in this one
 * @property {End} [end]
 * @property {number} [logprob]
 *
 * @typedef {object} Run  one request to the server; one with a `round` has joined the round of that run
 * @property {string} id
 * @property {string} node
 * @property {number} at
 * @property {number} made
 * @property {string} model
 * @property {string} request_id
 * @property {number[]} seeds
 * @property {object} request
 * @property {string} [round]
 * @property {AskedPiece[][]} [asked]  the request as it was sent: asked.js
 *
 * @typedef {string | [number, number] | [string, number, number]} AskedPiece  words, a stretch, or pieces of another run
 *
 * @typedef {Omit<Node, "id">} BareNode
 * @typedef {Omit<Run, "id">} BareRun
 * @typedef {{value: unknown, changed: number}} Stamped  a value of which the last writer wins
 *
 * @typedef {object} Wire  a part of a story, or a whole one, as sent to the server and to other tabs
 * @property {Record<string, Stamped>} [meta]
 * @property {Record<string, BareNode>} [nodes]
 * @property {Record<string, Partial<BareRun>>} [runs]
 * @property {Record<string, Record<string, Stamped>>} [marks]
 *
 * @typedef {{nodes: Set<string>, marks: Set<string>, meta: Set<string>}} News  what a merge has changed
 *
 * @typedef {{from: number, to: number, node: string, start: number, by: Author}} Piece  a stretch of a text: the node that brought
 *   it, and where in the node's own `text` it begins
 * @typedef {{text: string, by: Author, run?: string, of?: {node: string, at: number}, act?: string}} Stretch  what a graft brings
 *
 * @typedef {object} Marks
 * @property {boolean} [star]
 * @property {string} [name]
 * @property {string} [note]
 * @property {boolean} [folded]
 * @property {boolean} [pruned]
 * @property {boolean} [seen]
 */

export {};
