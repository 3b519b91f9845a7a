// Google's own SDK for Node, of the package that SDK names, against the gateway at BASE_URL: content whole and streamed,
// a function, embeddings, the models, a batch of inline requests and one from a file. Prints what it saw as JSON.
const { readFile } = require("node:fs/promises");
const { GoogleGenAI } = require(process.env.SDK);

const client = new GoogleGenAI({ apiKey: process.env.API_KEY, httpOptions: { baseUrl: process.env.BASE_URL } });
const model = process.env.MODEL;

async function ended(name) {
  let job = await client.batches.get({ name });
  while (["JOB_STATE_PENDING", "JOB_STATE_RUNNING"].includes(job.state)) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    job = await client.batches.get({ name });
  }
  return job;
}

async function calledFunction() {
  const tools = [{ functionDeclarations: [{ name: "weather", description: "Tells it" }] }];
  const chat = client.chats.create({ model: process.env.TOOL_MODEL, config: { tools } });
  const [call] = (await chat.sendMessage({ message: "And Oslo?" })).functionCalls;
  const response = { id: call.id, name: call.name, response: { output: "mild" } };
  const answer = await chat.sendMessage({ message: { functionResponse: response } });
  return { name: call.name, args: call.args, text: answer.text };
}

async function main() {
  const seen = {};
  const whole = await client.models.generateContent({ model, contents: "Hello" });
  seen.whole = { text: whole.text, usage: whole.usageMetadata.totalTokenCount, finish: whole.candidates[0].finishReason };
  seen.streamed = "";
  for await (const chunk of await client.models.generateContentStream({ model, contents: "Hello" })) {
    seen.streamed += chunk.text ?? "";
  }
  const embedded = await client.models.embedContent({ model: process.env.EMBED_MODEL, contents: ["a", "b"] });
  seen.vectors = embedded.embeddings.length;
  seen.called = await calledFunction();
  seen.models = [];
  for await (const one of await client.models.list({ config: { pageSize: 1 } })) seen.models.push(one.name);
  try {
    await client.models.generateContent({ model: "none", contents: "Hello" });
  } catch (error) {
    seen.missing = error.status;
  }

  const inline = await client.batches.create({
    model,
    src: [{ contents: [{ role: "user", parts: [{ text: "one" }] }], metadata: { key: "k" } }],
    config: { displayName: "node" },
  });
  const job = await ended(inline.name);
  const [answer] = job.dest.inlinedResponses;
  seen.inline = { state: job.state, name: job.displayName, metadata: answer.metadata, text: answer.response.candidates[0].content.parts[0].text };

  const contents = ["a", "b"];
  const embedding = await client.batches.createEmbeddings({ model: process.env.EMBED_MODEL, src: { inlinedRequests: { contents } } });
  const vectors = (await ended(embedding.name)).dest.inlinedEmbedContentResponses;
  seen.embedded = vectors.filter((one) => one.response.embedding.values.length > 0).length;
  await client.batches.delete({ name: embedding.name });
  const waiting = await client.batches.create({ model: process.env.PAUSED_MODEL, src: [{ contents: "one" }] });
  await client.batches.cancel({ name: waiting.name });
  seen.cancelled = (await ended(waiting.name)).state;
  await client.batches.delete({ name: waiting.name });

  const line = JSON.stringify({ key: "x", request: { contents: [{ parts: [{ text: "two" }] }] } });
  const file = await client.files.upload({ file: new Blob([line]), config: { mimeType: "jsonl", displayName: "in" } });
  const made = await client.batches.create({ model, src: file.name, config: { displayName: "file" } });
  const filed = await ended(made.name);
  await client.files.download({ file: filed.dest.fileName, downloadPath: process.env.DOWNLOAD });
  seen.file = { state: filed.state, line: JSON.parse(await readFile(process.env.DOWNLOAD, "utf8")) };
  seen.listed = [];
  for await (const one of await client.batches.list({ config: { pageSize: 1 } })) seen.listed.push(one.displayName);
  await client.batches.delete({ name: made.name });
  try {
    await client.batches.get({ name: made.name });
  } catch (error) {
    seen.deleted = error.status;
  }
  await client.files.delete({ name: file.name });
  seen.files = [];
  for await (const one of await client.files.list()) seen.files.push(one.name);
  console.log(JSON.stringify(seen));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
