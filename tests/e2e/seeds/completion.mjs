// Use a server's /completion.js as a page does: print what a prompt becomes, by each of its functions.

const url = process.argv[2];
const source = await (await fetch(`${url}/completion.js`)).text();
const { llama, llamaComplete, llamaEventTarget, llamaPromise } = await import(
  `data:text/javascript,${encodeURIComponent(source)}`
);
const prompt = "Write dad jokes, each one paragraph.\nResponse: \u{1f600}";
const params = { n_predict: 12, seed: 7, api_key: process.argv[3] };
const config = { api_url: `${url}/` };

const looped = [];
for await (const chunk of llama(prompt, params, config)) {
  looped.push(chunk.data.content);
}
let refused = "";
try {
  await llamaPromise(prompt, { ...params, n_predict: -7 }, config);
} catch (error) {
  refused = error.message;
}
const target = llamaEventTarget(prompt, params, config);
const told = await new Promise((resolve) => target.addEventListener("done", (event) => resolve(event.detail.content)));
for await (const chunk of llama(prompt, { ...params, n_predict: -1, ignore_eos: true }, config)) {
  break; // the server is to notice
}
console.log(
  JSON.stringify({
    looped,
    whole: await llamaPromise(prompt, params, config),
    told,
    refused,
    complete: typeof llamaComplete,
  }),
);
