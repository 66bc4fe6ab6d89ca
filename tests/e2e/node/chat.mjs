// A dialogue as a client of 2023 holds it.
// node chat.mjs <server URL> <question>…   Writes the answers as JSON.
// node chat.mjs <server URL> --infill <prefix> <suffix>   An infill, whose events are read one by one.

const [url, ...words] = process.argv.slice(2);

async function post(path, body) {
  const response = await fetch(url + path, { method: "POST", body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  return response;
}

// The events of a text. Each has a chunk of its own on the wire, but Node gives a slow reader several chunks in one.
function eventsOf(text) {
  const events = text.split("\n\n").filter((event) => event.startsWith("data: "));
  return events.map((event) => JSON.parse(event.substring(6)));
}

// Collect the text of a stream, whose reads are whole events: `data: {"content": …}`.
async function read(response) {
  let answer = "";
  for await (const chunk of response.body) {
    for (const message of eventsOf(Buffer.from(chunk).toString("utf8"))) {
      answer += message.content;
      if (message.stop) return { answer, truncated: message.truncated };
    }
  }
  throw new Error("the stream ended before its last event");
}

async function dialogue(questions) {
  const instruction = "A chat between a curious human and a helpful assistant.\n";
  const { tokens } = await (await post("/tokenize", { content: instruction })).json();
  const turns = [];
  for (const question of questions) {
    const past = turns.map(([human, assistant]) => `### Human: ${human}\n### Assistant: ${assistant}\n`).join("");
    const { answer } = await read(
      await post("/completion", {
        prompt: `${instruction}${past}### Human: ${question}\n### Assistant:`,
        temperature: 0.2,
        top_k: 40,
        top_p: 0.9,
        n_keep: tokens.length,
        n_predict: 6,
        cache_prompt: true,
        slot_id: -1,
        stop: ["\n### Human:"],
        grammar: undefined,
        stream: true,
      }),
    );
    turns.push([question, answer.trimStart()]);
  }
  return turns.map(([, answer]) => answer);
}

// An infill streams though it is not asked to.
async function infill(prefix, suffix) {
  const response = await post("/infill", { input_prefix: prefix, input_suffix: suffix, n_predict: 24 });
  const events = eventsOf(await response.text());
  return [events.map((event) => event.content).join("")];
}

const answers = words[0] === "--infill" ? await infill(words[1], words[2]) : await dialogue(words);
console.log(JSON.stringify(answers));
