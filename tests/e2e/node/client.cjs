// One call with OpenAI's package for Node: node client.cjs <base URL> <completions|chat> <parameters as JSON>
// Writes what it got as JSON: the answer, the list of a stream's chunks, or the error that was thrown.
const OpenAI = require("openai");

async function main([baseURL, kind, parameters]) {
  const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
  const resource = kind === "chat" ? client.chat.completions : client.completions;
  const answer = await resource.create(JSON.parse(parameters));
  if (!answer[Symbol.asyncIterator]) return answer;
  const chunks = [];
  for await (const chunk of answer) chunks.push(chunk);
  return chunks;
}

main(process.argv.slice(2))
  .catch((error) => ({ thrown: error.constructor.name, status: error.status, param: error.param, type: error.type }))
  .then((result) => console.log(JSON.stringify(result)));
