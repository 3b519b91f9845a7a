// Anthropic's own SDK for Node, of the package that SDK names, against the gateway at BASE_URL: a message whole and
// streamed, a tool, a count of tokens, the models, and a batch of its own kind. Prints what it saw as JSON.
const { default: Anthropic } = require(process.env.SDK);

const client = new Anthropic({ apiKey: process.env.API_KEY, baseURL: process.env.BASE_URL, maxRetries: 0 });
const asked = { model: process.env.MODEL, max_tokens: 50, messages: [{ role: "user", content: "Hello" }] };
const tools = [{ name: "weather", description: "Tells it", input_schema: { type: "object", properties: {} } }];

const textOf = (message) => message.content.map((block) => block.text ?? "").join("");

async function refusal(call) {
  try {
    await call();
  } catch (error) {
    return { status: error.status, type: error.error.error.type };
  }
  return null;
}

async function calledTool() {
  const asking = { ...asked, model: process.env.TOOL_MODEL, tools, messages: [{ role: "user", content: "And Oslo?" }] };
  const isCall = (block) => block.type === "tool_use";
  const first = await client.messages.create(asking);
  const call = first.content.find(isCall);
  const result = { type: "tool_result", tool_use_id: call.id, content: "mild" };
  const turns = [{ role: "assistant", content: first.content }, { role: "user", content: [result] }];
  const last = await client.messages.create({ ...asking, messages: [...asking.messages, ...turns] });
  const streamed = await client.messages.stream(asking).finalMessage();
  const again = streamed.content.find(isCall);
  return {
    stop: [first.stop_reason, streamed.stop_reason],
    calls: [call, again].map((one) => [one.name, one.input]),
    text: textOf(last),
  };
}

async function batch() {
  let made;
  const refused = await refusal(async () => {
    made = await client.messages.batches.create({ requests: ["a", "b"].map((id) => ({ custom_id: id, params: asked })) });
  });
  if (refused !== null) return { refused };
  while (made.processing_status !== "ended") {
    await new Promise((resolve) => setTimeout(resolve, 50));
    made = await client.messages.batches.retrieve(made.id);
  }
  const results = {};
  for await (const one of await client.messages.batches.results(made.id)) results[one.custom_id] = one.result.type;
  const listed = [];
  for await (const one of client.messages.batches.list({ limit: 1 })) listed.push(one.id);
  const deleted = await client.messages.batches.delete(made.id);
  return { results, listed: listed.includes(made.id), deleted: deleted.type };
}

async function main() {
  const whole = await client.messages.create(asked);
  const stream = client.messages.stream(asked);
  const kinds = [];
  stream.on("streamEvent", (event) => kinds.push(event.type));
  const final = await stream.finalMessage();
  const counted = await client.messages.countTokens({ model: asked.model, messages: asked.messages });
  const models = [];
  for await (const one of client.models.list({ limit: 1 })) models.push(one.id);
  console.log(
    JSON.stringify({
      whole: { text: textOf(whole), stop: whole.stop_reason, usage: whole.usage },
      streamed: { text: textOf(final), usage: final.usage, kinds },
      tool: (await client.messages.create({ ...asked, tools, tool_choice: { type: "auto" } })).stop_reason,
      called: process.env.TOOL_MODEL ? await calledTool() : null,
      counted: counted.input_tokens,
      missing: await refusal(() => client.messages.create({ ...asked, model: "none" })),
      models,
      batch: await batch(),
    }),
  );
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
