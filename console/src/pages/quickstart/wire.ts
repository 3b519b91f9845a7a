/** Ready-to-run snippets, filled with this gateway's address and a model. The key stays in the environment. */

export type Task = 'ask' | 'batch';

export interface Snippet {
  name: string;
  text: string;
}

export interface Filled {
  url: string;
  model: string;
}

const EXPORTS = (filled: Filled) => `export EBBTIDE_URL=${filled.url}\nexport EBBTIDE_API_KEY=ebb-…   # from the page API keys\n\n`;

const GOOGLE = (url: string) => `# pip install google-genai
import os

from google import genai
from google.genai import types

client = genai.Client(api_key=os.environ["EBBTIDE_API_KEY"], http_options=types.HttpOptions(base_url="${url}"))`;

export function snippetsFor(task: Task, filled: Filled): Snippet[] {
  return task === 'ask' ? askSnippets(filled) : batchSnippets(filled);
}

function askSnippets(filled: Filled): Snippet[] {
  const { url, model } = filled;
  return [
    {
      name: 'curl',
      text: `${EXPORTS(filled)}curl -s $EBBTIDE_URL/v1/chat/completions \\
  -H "Authorization: Bearer $EBBTIDE_API_KEY" \\
  -H 'Content-Type: application/json' \\
  -d '{"model": "${model}", "messages": [{"role": "user", "content": "Name a river."}]}'`,
    },
    {
      name: 'OpenAI SDK',
      text: `# pip install openai
import os

from openai import OpenAI

client = OpenAI(base_url="${url}/v1", api_key=os.environ["EBBTIDE_API_KEY"])
answer = client.chat.completions.create(
    model="${model}",
    messages=[{"role": "user", "content": "Name a river."}],
)
print(answer.choices[0].message.content)`,
    },
    {
      name: 'Anthropic SDK',
      text: `# pip install anthropic
import os

from anthropic import Anthropic

client = Anthropic(base_url="${url}", api_key=os.environ["EBBTIDE_API_KEY"])
answer = client.messages.create(
    model="${model}",
    max_tokens=200,
    messages=[{"role": "user", "content": "Name a river."}],
)
print(answer.content[0].text)`,
    },
    {
      name: 'Google SDK',
      text: `${GOOGLE(url)}
answer = client.models.generate_content(model="${model}", contents="Name a river.")
print(answer.text)`,
    },
    {
      name: 'Command line',
      text: `${EXPORTS(filled)}ebbtide models list`,
    },
  ];
}

function batchSnippets(filled: Filled): Snippet[] {
  const { url, model } = filled;
  const line = (id: string, text: string) =>
    `{"custom_id": "${id}", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "${model}", "messages": [{"role": "user", "content": "${text}"}]}}`;
  const file = `cat > requests.jsonl <<'END'\n${line('a', 'Name a river.')}\n${line('b', 'Name a lake.')}\nEND\n`;
  return [
    {
      name: 'curl',
      text: `${EXPORTS(filled)}curl -s $EBBTIDE_URL/v1/batches \\
  -H "Authorization: Bearer $EBBTIDE_API_KEY" \\
  -H 'Content-Type: application/json' \\
  -d '{
    "requests": [
      {"custom_id": "a", "body": {"model": "${model}", "messages": [{"role": "user", "content": "Name a river."}]}},
      {"custom_id": "b", "body": {"model": "${model}", "messages": [{"role": "user", "content": "Name a lake."}]}}
    ],
    "metadata": {"name": "My first batch"}
  }'`,
    },
    {
      name: 'OpenAI SDK',
      text: `# pip install openai
import json
import os

from openai import OpenAI

client = OpenAI(base_url="${url}/v1", api_key=os.environ["EBBTIDE_API_KEY"])
lines = [
    {
        "custom_id": str(number),
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "${model}", "messages": [{"role": "user", "content": f"Name river {number}."}]},
    }
    for number in range(100)
]
content = "\\n".join(json.dumps(line) for line in lines).encode()
file = client.files.create(file=("requests.jsonl", content), purpose="batch")
batch = client.batches.create(
    input_file_id=file.id,
    endpoint="/v1/chat/completions",
    completion_window="24h",
    metadata={"name": "Rivers"},
)
print("${url}/console/batches/" + batch.id)`,
    },
    {
      name: 'Google SDK',
      text: `${GOOGLE(url)}
job = client.batches.create(
    model="${model}",
    src=[types.InlinedRequest(contents=f"Name river {number}.") for number in range(100)],
    config={"display_name": "Rivers"},
)
print("${url}/console/batches/batch_" + job.name.removeprefix("batches/"))`,
    },
    {
      name: 'Command line',
      text: `${EXPORTS(filled)}${file}
ebbtide batch submit requests.jsonl`,
    },
  ];
}
