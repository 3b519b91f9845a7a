// OpenAI's own SDK for Node, of the package that SDK names, against the gateway at BASE_URL: chat whole and streamed,
// embeddings, a response, and a batch from a file for each endpoint. Prints what it saw as JSON.
const { default: OpenAI, toFile } = require(process.env.SDK);

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY, maxRetries: 0 });
const model = process.env.MODEL;
const embedder = process.env.EMBED_MODEL;
const messages = [{ role: "user", content: "Hello" }];
const chat = { model, messages, max_tokens: 50 };
const endpoints = {
  "/v1/chat/completions": chat,
  "/v1/embeddings": { model: embedder, input: "Hello" },
  "/v1/responses": { model, input: "Hello", max_output_tokens: 50 },
  "/v1/messages": chat,
};

async function streamed() {
  const seen = { text: "", finish: null, tokens: 0 };
  const asked = { ...chat, stream: true, stream_options: { include_usage: true } };
  for await (const chunk of await client.chat.completions.create(asked)) {
    seen.text += chunk.choices[0]?.delta?.content ?? "";
    seen.finish = chunk.choices[0]?.finish_reason ?? seen.finish;
    seen.tokens = chunk.usage?.completion_tokens ?? seen.tokens;
  }
  return seen;
}

async function batch(endpoint, body) {
  const lines = ["a", "b"].map((name) => JSON.stringify({ custom_id: name, method: "POST", url: endpoint, body }));
  const file = await client.files.create({ file: await toFile(Buffer.from(lines.join("\n")), "in.jsonl"), purpose: "batch" });
  const headers = endpoint === "/v1/messages" ? { "anthropic-version": "2023-06-01" } : {};
  let made = await client.batches.create({ input_file_id: file.id, endpoint, completion_window: "24h" }, { headers });
  while (!["completed", "failed", "expired", "cancelled"].includes(made.status)) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    made = await client.batches.retrieve(made.id);
  }
  const output = await (await client.files.content(made.output_file_id)).text();
  const listed = [];
  for await (const one of client.batches.list({ limit: 1 })) listed.push(one.id);
  const removed = await client.files[client.files.delete ? "delete" : "del"](file.id);
  const answers = output.trim().split("\n").map((line) => JSON.parse(line));
  return {
    status: made.status,
    version: made.anthropic_version,
    answers: answers.map((line) => [line.custom_id, line.response.status_code, line.response.body.object ?? line.response.body.type]),
    listed: listed.includes(made.id),
    deleted: removed.deleted,
  };
}

async function main() {
  const whole = await client.chat.completions.create(chat);
  const vectors = await client.embeddings.create({ model: embedder, input: ["a", "b"] });
  const response = await client.responses.create(endpoints["/v1/responses"]);
  const batches = {};
  for (const [endpoint, body] of Object.entries(endpoints)) batches[endpoint] = await batch(endpoint, body);
  const seen = {
    whole: { text: whole.choices[0].message.content, finish: whole.choices[0].finish_reason, tokens: whole.usage.completion_tokens },
    streamed: await streamed(),
    vectors: vectors.data.map((one) => one.embedding.length),
    response: response.output_text,
    batches,
  };
  console.log(JSON.stringify(seen));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
