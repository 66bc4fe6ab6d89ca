// A dialogue as a client of 2023 holds it: each chunk of an answer's body is taken for one event.
// node chat.mjs <server URL> <question>…   Writes the answers as JSON.
// node chat.mjs <server URL> --infill <prefix> <suffix>   An infill, whose events are read one by one.

const [url, ...words] = process.argv.slice(2);

async function post(path, body) {
  const response = await fetch(url + path, { method: "POST", body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  return response;
}

// Collect the text of a stream whose chunks are `data: {"content": …}`; JSON.parse throws at two events in one.
async function read(response) {
  let answer = "";
  for await (const chunk of response.body) {
    const text = Buffer.from(chunk).toString("utf8");
    if (!text.startsWith("data: ")) continue;
    const message = JSON.parse(text.substring(6));
    answer += message.content;
    if (message.stop) return { answer, truncated: message.truncated };
  }
  throw new Error("the stream ended before its last event");
}

// Read streams without parsing them: Node compiles its own code at the first ones, for longer than some tokens take.
async function warmUp() {
  for (let i = 0; i < 3; i++) {
    const response = await post("/completion", { prompt: "Once", n_predict: 2, stream: true });
    for await (const chunk of response.body) Buffer.from(chunk).toString("utf8");
  }
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

// An infill streams though it is not asked to; its model is fast, so several events may come in one chunk.
async function infill(prefix, suffix) {
  const body = await (await post("/infill", { input_prefix: prefix, input_suffix: suffix, n_predict: 24 })).text();
  const events = body.split("\n\n").filter((event) => event.startsWith("data: "));
  return [events.map((event) => JSON.parse(event.substring(6)).content).join("")];
}

const answers = words[0] === "--infill" ? await infill(words[1], words[2]) : await warmUp().then(() => dialogue(words));
console.log(JSON.stringify(answers));
