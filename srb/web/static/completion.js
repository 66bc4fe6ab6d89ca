// Continue prompts from a web page: `import { llama } from "/completion.js"`.
//
//   for await (const chunk of llama("Once upon a time,")) document.write(chunk.data.content);
//
// `params` are the fields of POST /completion, and `api_key`. `config` may have `controller` (an AbortController, to stop
// early), `api_url` (of another server) and `endpoint` (another path). A chunk's `data` is the event's JSON.

export async function* llama(prompt, params = {}, config = {}) {
  const { api_key: key, ...fields } = params;
  const controller = config.controller ?? new AbortController();
  const response = await fetch((config.api_url ?? "").replace(/\/+$/, "") + (config.endpoint ?? "/completion"), {
    method: "POST",
    body: JSON.stringify({ n_predict: 500, ...fields, prompt, stream: true }),
    headers: { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) },
    signal: controller.signal,
  });
  if (!response.ok) {
    throw new Error((await response.json()).error.message);
  }
  let content = "";
  try {
    for await (const data of events(response.body)) {
      if (data.error) {
        throw new Error(data.error.message);
      }
      content += data.content ?? "";
      yield { data };
    }
  } finally {
    controller.abort(); // also after a break out of the loop: the server cancels the rest
  }
  return content;
}

// Return the whole text once it is complete.
export async function llamaPromise(prompt, params = {}, config = {}) {
  let content = "";
  for await (const chunk of llama(prompt, params, config)) {
    content += chunk.data.content;
  }
  return content;
}

// Call `callback` with each chunk; `params` has the prompt.
export async function llamaComplete(params, controller, callback) {
  for await (const chunk of llama(params.prompt, params, { controller })) {
    callback(chunk);
  }
}

// An EventTarget with a "message" event for each chunk, and "done" with the text at the end or "error".
export function llamaEventTarget(prompt, params = {}, config = {}) {
  const target = new EventTarget();
  const tell = (kind, detail) => target.dispatchEvent(new CustomEvent(kind, { detail }));
  (async () => {
    let content = "";
    for await (const chunk of llama(prompt, params, config)) {
      content += chunk.data.content;
      tell("message", chunk.data);
    }
    tell("done", { content });
  })().catch((error) => tell("error", error));
  return target;
}

async function* events(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    const lines = (rest + decoder.decode(value, { stream: !done })).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith("data: ") && line !== "data: [DONE]") {
        yield JSON.parse(line.slice("data: ".length));
      }
    }
    if (done) {
      return;
    }
  }
}
