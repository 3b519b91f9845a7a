// OpenAI's own SDK for Node against the gateway at BASE_URL: responses whole, streamed and parsed, tools, errors, and a
// batch of them from a file. Prints what it saw as JSON.
const { default: OpenAI, toFile } = require("openai");

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY });
const model = process.env.MODEL;

async function main() {
  const seen = { version: require("openai/version").VERSION };
  const whole = await client.responses.create({ model, input: "Hello" });
  seen.whole = { text: whole.output_text, status: whole.status, model: whole.model, usage: whole.usage };

  const stream = await client.responses.create({ model, input: "Hello", stream: true });
  seen.deltas = "";
  seen.kinds = [];
  for await (const event of stream) {
    if (event.type === "response.output_text.delta") seen.deltas += event.delta;
    else seen.kinds.push(event.type);
    if (event.type === "response.completed") seen.streamed = event.response.output_text ?? event.response.output[0].content[0].text;
  }

  const runner = client.responses.stream({ model, input: "Hello" });
  seen.helper = (await runner.finalResponse()).output_text;

  try {
    await client.responses.create({ model, input: "Hello", previous_response_id: "resp_1" });
  } catch (error) {
    seen.refused = { status: error.status, param: error.param, code: error.code };
  }
  try {
    await client.responses.retrieve("resp_1");
  } catch (error) {
    seen.missing = { status: error.status, message: error.message };
  }

  const lines = ["a", "b"].map((name) =>
    JSON.stringify({ custom_id: name, method: "POST", url: "/v1/responses", body: { model, input: name } }),
  );
  const file = await client.files.create({ file: await toFile(Buffer.from(lines.join("\n")), "in.jsonl"), purpose: "batch" });
  let batch = await client.batches.create({
    input_file_id: file.id,
    endpoint: "/v1/responses",
    completion_window: "24h",
  });
  while (!["completed", "failed", "expired", "cancelled"].includes(batch.status)) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    batch = await client.batches.retrieve(batch.id);
  }
  const output = await (await client.files.content(batch.output_file_id)).text();
  seen.batch = {
    status: batch.status,
    endpoint: batch.endpoint,
    lines: output.trim().split("\n").map((line) => JSON.parse(line)),
  };
  console.log(JSON.stringify(seen));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
