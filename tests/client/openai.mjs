// The real OpenAI client against a running forelay: what people's programs do. Arguments: port of a daemon whose model
// knows no tools, port of one whose template does. Ends with a line per check; exit 1 when one failed.
import OpenAI from "openai";

const [plainPort, toolsPort] = process.argv.slice(2);
const plain = new OpenAI({ apiKey: "none", baseURL: `http://127.0.0.1:${plainPort}/v1`, maxRetries: 0 });
const withTools = new OpenAI({ apiKey: "none", baseURL: `http://127.0.0.1:${toolsPort}/v1`, maxRetries: 0 });
const messages = [{ role: "user", content: "Name two fruits." }];
const base = { model: "any", messages, temperature: 0, max_tokens: 16 };
let failed = 0;

async function check(name, body) {
  try {
    await body();
    console.log(`ok   ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL ${name}: ${error.stack ?? error}`);
  }
}
function expect(condition, text) {
  if (!condition) throw new Error(text);
}

await check("models are listed", async () => {
  const list = await plain.models.list();
  expect(list.data.length === 1, `expected one model, got ${list.data.length}`);
});

await check("an answer and its usage", async () => {
  const answer = await plain.chat.completions.create(base);
  expect(answer.choices[0].message.role === "assistant", "no assistant message");
  expect(answer.choices[0].message.content.length > 0, "empty answer");
  expect(answer.usage.total_tokens === answer.usage.prompt_tokens + answer.usage.completion_tokens, "usage does not add up");
  const again = await plain.chat.completions.create(base);
  expect(again.usage.prompt_tokens_details.cached_tokens === again.usage.prompt_tokens - 1, "the second time is not cached");
});

await check("a stream gives the same text, with usage at its end", async () => {
  const whole = await plain.chat.completions.create(base);
  const stream = await plain.chat.completions.create({ ...base, stream: true, stream_options: { include_usage: true } });
  let text = "", usage = null, finish = null;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  expect(text === whole.choices[0].message.content, `${JSON.stringify(text)} is not ${JSON.stringify(whole.choices[0].message.content)}`);
  expect(usage && usage.completion_tokens === whole.usage.completion_tokens, "usage differs");
  expect(finish === whole.choices[0].finish_reason, "finish reason differs");
});

await check("logprobs", async () => {
  const answer = await plain.chat.completions.create({ ...base, max_tokens: 3, logprobs: true, top_logprobs: 2 });
  const content = answer.choices[0].logprobs.content;
  expect(content.length === answer.usage.completion_tokens, "one entry a token");
  for (const token of content) {
    expect(token.logprob <= 0 && token.top_logprobs.length === 2, "two alternatives, none above 0");
    expect(token.top_logprobs[0].logprob >= token.top_logprobs[1].logprob, "best first");
  }
});

await check("errors have the client's types", async () => {
  const error = await plain.chat.completions.create({ ...base, temperature: 9 }).then(() => null, (e) => e);
  expect(error instanceof OpenAI.BadRequestError, `got ${error}`);
  expect(error.param === "temperature", `param is ${error.param}`);
  const long = await plain.chat.completions.create({ ...base, messages: [{ role: "user", content: "word ".repeat(4000) }] }).then(() => null, (e) => e);
  expect(long instanceof OpenAI.BadRequestError && long.code === "context_length_exceeded", `got ${long}`);
});

const tool = { type: "function", function: { name: "get_weather", description: "Weather of a city", parameters: {
  type: "object", properties: { city: { type: "string", enum: ["Paris", "Rome"] } }, required: ["city"], additionalProperties: false } } };

// So small a model calls a tool when it has seen how: three rounds come before the question.
const rounds = [["Paris", "sunny"], ["Rome", "rain"], ["Paris", "wind"]].flatMap(([city, weather], i) => [
  { role: "user", content: `Weather in ${city}?` },
  { role: "assistant", content: "", tool_calls: [{ id: `call_${i}`, type: "function", function: { name: "get_weather", arguments: JSON.stringify({ city }) } }] },
  { role: "tool", tool_call_id: `call_${i}`, content: weather },
  { role: "assistant", content: weather },
]);
const asking = { ...base, messages: [...rounds, { role: "user", content: "Weather in Rome?" }], max_tokens: 60, tools: [tool], tool_choice: "required" };

await check("tools need a template that knows them", async () => {
  const error = await plain.chat.completions.create({ ...base, tools: [tool] }).then(() => null, (e) => e);
  expect(error instanceof OpenAI.BadRequestError && error.param === "tools", `got ${error}`);
});

await check("a tool is called with arguments of its schema", async () => {
  const answer = await withTools.chat.completions.create(asking);
  const call = answer.choices[0].message.tool_calls?.[0];
  expect(answer.choices[0].finish_reason === "tool_calls", `finish reason is ${answer.choices[0].finish_reason}`);
  expect(call?.function.name === "get_weather", `got ${JSON.stringify(answer.choices[0].message)}`);
  expect(["Paris", "Rome"].includes(JSON.parse(call.function.arguments).city), call.function.arguments);
});

await check("a streamed tool call adds up to the whole one", async () => {
  const body = asking;
  const whole = (await withTools.chat.completions.create(body)).choices[0].message.tool_calls[0];
  let name = "", text = "", id = "";
  for await (const chunk of await withTools.chat.completions.create({ ...body, stream: true })) {
    for (const call of chunk.choices[0]?.delta?.tool_calls ?? []) {
      id += call.id ?? "";
      name += call.function?.name ?? "";
      text += call.function?.arguments ?? "";
    }
  }
  expect(name === whole.function.name && text === whole.function.arguments && id.length > 0, `${name} ${text} ${id}`);
});

await check("an aborted stream frees the server", async () => {
  const controller = new AbortController();
  const stream = await plain.chat.completions.create({ ...base, max_tokens: 400, stream: true }, { signal: controller.signal });
  for await (const chunk of stream) {
    if (chunk.choices[0]?.delta?.content) break;
  }
  controller.abort();
  const started = Date.now();
  await plain.chat.completions.create({ ...base, max_tokens: 1 });
  expect(Date.now() - started < 5000, "the next request waited");
});

process.exit(failed === 0 ? 0 : 1);
