// Drives the real client of LibreChat against a service, as LibreChat does: the
// tools that a model gets, and the node that keeps a conversation's files from
// one call to the next. Exits with an error at the first surprise.
//
//   CODE_URL=http://host:port/librechat/v1 CODE_KEY=... node client.mjs

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

// The packages are installed elsewhere.
const require = createRequire(process.env.CLIENT_FOLDER + '/package.json');
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const agents = await load('@librechat/agents');
const { AIMessage } = await load('@langchain/core/messages');
const { tool } = await load('@langchain/core/tools');
const fetch = require('node-fetch');

const baseUrl = process.env.CODE_URL;
const headers = process.env.CODE_KEY ? { 'X-API-Key': process.env.CODE_KEY } : {};
const authHeaders = async () => headers;
process.env.LIBRECHAT_CODE_BASEURL = baseUrl;

let step = 0;
const say = (what) => console.log(`ok ${++step} - ${what}`);

// A conversation: one map of sessions, and the node through which tools are called.
class Conversation {
  constructor(tools) {
    this.sessions = new Map();
    this.node = new agents.ToolNode({ tools, sessions: this.sessions, toolMap: new Map(tools.map((t) => [t.name, t])) });
    this.calls = 0;
  }
  async call(name, args) {
    const id = `call_${++this.calls}`;
    const message = new AIMessage({ content: '', tool_calls: [{ id, name, args, type: 'tool_call' }] });
    const { messages } = await this.node.invoke({ messages: [message] }, { configurable: { thread_id: 't' } });
    return messages.find((m) => m.tool_call_id === id);
  }
  files() {
    const [context] = this.sessions.values();
    return Object.fromEntries((context?.files ?? []).map((f) => [f.name, f]));
  }
}

const code = agents.createCodeExecutionTool({ baseUrl, authHeaders, user_id: 'u1' });
const bash = agents.createBashExecutionTool({ baseUrl, authHeaders, user_id: 'u1' });

// Files over turns, with nothing but what the client remembers.
{
  const c = new Conversation([code, bash]);
  let m = await c.call(code.name, { lang: 'py', code: "import os\nos.makedirs('out')\nopen('out/a.csv','w').write('x\\n1\\n')\nopen('b.txt','w').write('b')\nprint('made')" });
  assert.match(m.content, /made/);
  assert.deepEqual(Object.keys(c.files()).sort(), ['b.txt', 'out/a.csv']);
  const first = c.files()['out/a.csv'];
  assert.match(first.id, /^[A-Za-z0-9_-]{21}$/);

  m = await c.call(bash.name, { command: "cat out/a.csv && echo 2 >> out/a.csv && echo done" });
  assert.match(m.content, /x\n1\ndone/);
  const second = c.files()['out/a.csv'];
  assert.notEqual(second.id, first.id, 'a changed file has a new id');
  assert.ok(c.files()['b.txt'], 'an unchanged file stays');

  m = await c.call(code.name, { lang: 'py', code: "import os; os.remove('b.txt'); print(open('out/a.csv').read())", args: ['one', 'two'] });
  assert.match(m.content, /x\n1\n2/);
  assert.equal(c.files()['b.txt'], undefined, 'a deleted file goes');
  assert.equal(c.files()['out/a.csv'].id, second.id);

  m = await c.call(code.name, { lang: 'js', code: "console.log(require('fs').readdirSync('.').filter((n) => n === 'out' || n === 'b.txt'))" });
  assert.match(m.content, /\[ 'out' \]/);
  m = await c.call(code.name, { lang: 'py', code: 'raise SystemExit(3)' });
  assert.ok(c.files()['out/a.csv'], 'a program that fails loses no files');
  say('files over turns');

  // What another process of LibreChat does with the same files.
  const context = [...c.sessions.values()][0];
  const stored = c.files()['out/a.csv'];
  const sid = stored.storage_session_id ?? context.session_id;
  const listed = await agents.fetchSessionFiles(baseUrl, sid, { kind: 'user', id: 'u1' }, authHeaders);
  assert.ok(listed.some((f) => f.name === 'out/a.csv' && f.id === stored.id), JSON.stringify(listed));
  const object = await fetch(`${baseUrl}/sessions/${sid}/objects/${stored.id}?kind=user&id=u1`, { headers });
  const { lastModified, originalFilename } = await object.json();
  assert.ok(Date.now() - new Date(lastModified) < 23 * 3600e3);
  assert.equal(originalFilename, 'out/a.csv');
  const bytes = await fetch(`${baseUrl}/download/${sid}/${stored.id}?kind=user&id=u1`, { headers });
  assert.equal(await bytes.text(), 'x\n1\n2\n');
  say('session files, liveness, download');
}

// A conversation that begins with files that were uploaded before it.
{
  const FormData = require('form-data');
  const form = new FormData();
  form.append('kind', 'skill');
  form.append('id', 'skill1');
  form.append('version', '3');
  form.append('read_only', 'true');
  form.append('file', '# Skill ü', { filepath: 'skills/größe/SKILL.md' });
  form.append('file', 'print(6*7)', { filepath: 'skills/größe/run.py' });
  const reply = await fetch(`${baseUrl}/upload/batch`, { method: 'POST', body: form, headers: { ...headers, ...form.getHeaders() } });
  const batch = await reply.json();
  assert.equal(batch.message, 'success', JSON.stringify(batch));
  assert.deepEqual(batch.files.map((f) => f.filename), ['skills/größe/SKILL.md', 'skills/größe/run.py']);
  const c = new Conversation([bash]);
  c.sessions.set('execute_code', {
    session_id: batch.storage_session_id,
    lastUpdated: Date.now(),
    files: batch.files.map((f) => ({ id: f.fileId, resource_id: 'skill1', storage_session_id: batch.storage_session_id, name: f.filename, kind: 'skill', version: 3 })),
  });
  const m = await c.call(bash.name, { command: 'cat skills/*/SKILL.md; python3 skills/*/run.py; echo x 2>/dev/null >> skills/größe/run.py || echo locked' });
  assert.match(m.content, /# Skill ü/);
  assert.match(m.content, /42/);
  const files = c.files();
  assert.equal(files['skills/größe/run.py'].kind, 'skill');
  assert.equal(files['skills/größe/run.py'].version, 3);
  assert.equal(files['skills/größe/run.py'].resource_id, 'skill1');
  say('priming with uploaded files');
}

// Tools that a program calls.
const made = [];
const add = tool(async ({ a, b }) => { made.push(['add', a, b]); return JSON.stringify({ sum: a + b }); }, {
  name: 'add-two', description: 'Adds', schema: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
});
const fails = tool(async () => { throw new Error('no luck today'); }, { name: 'fails', description: 'Fails', schema: { type: 'object', properties: {} } });
const definitions = [add, fails].map((t) => ({ name: t.name, description: t.description, parameters: t.schema, allowed_callers: ['code_execution'] }));
const toolMap = new Map([add, fails].map((t) => [t.name, t]));

async function programmatic(create, source) {
  const ptc = create({ baseUrl, authHeaders });
  const result = await ptc.invoke({ id: 'c', name: ptc.name, type: 'tool_call', args: { code: source }, toolMap, toolDefs: definitions },
    { toolCall: { id: 'c', name: ptc.name, type: 'tool_call', args: { code: source }, toolMap, toolDefs: definitions } });
  return typeof result === 'string' ? result : result.content ?? result[0];
}

{
  const out = await programmatic(agents.createProgrammaticToolCallingTool, `
text = """first
  second"""
runs = 0
runs += 1
one = await add_two(a=1, b=2)
pair = await asyncio.gather(add_two(a=3, b=4), add_two(a=5, b=6))
try:
    await fails()
except Exception as e:
    print("caught", e)
print(runs, repr(text), one, pair)
open("sum.txt", "w").write("1")
`);
  assert.match(out, /caught no luck today/);
  assert.match(out, /1 'first\\n {2}second'/);
  assert.equal(made.length, 3, 'each call was made once');
  say('programmatic tool calling in Python');
}
{
  made.length = 0;
  const out = await programmatic(agents.createBashProgrammaticToolCallingTool, `
set -eu
x=$(add_two '{"a": 1, "b": 2}')
echo "$x" | jq -c .
add_two '{"a": 3, "b": 4}' > one.txt &
add_two '{"a": 5, "b": 6}' > two.txt &
wait
cat one.txt two.txt
`);
  assert.match(out, /sum/);
  assert.match(out, /7[^]*11/);
  assert.equal(made.length, 3, 'each call was made once');
  // A tool that fails ends the program, as with the official server.
  await assert.rejects(programmatic(agents.createBashProgrammaticToolCallingTool, `
fails '{}' || echo on
add_two '{"a": 1, "b": 2}'
`), /no luck today/);
  assert.equal(made.length, 3, 'nothing runs after a tool that failed');
  say('programmatic tool calling in bash');
}

// The search for tools sends no credentials, whatever it is configured with.
if (!process.env.CODE_KEY) {
  const registry = new Map([['weather_mcp_x', { name: 'weather_mcp_x', description: 'Tells the weather of a city', defer_loading: true }], ['mail', { name: 'mail', description: 'Sends mail', defer_loading: true }]]);
  const search = agents.createToolSearch({ toolRegistry: registry, baseUrl });
  const result = await search.invoke({ query: 'weather', fields: ['name', 'description'] });
  assert.match(typeof result === 'string' ? result : JSON.stringify(result), /weather_mcp_x/);
  say('tool search');
}

// What a client makes of errors.
{
  await assert.rejects(code.invoke({ lang: 'cobol', code: 'x' }), /./);
  const other = agents.createCodeExecutionTool({ baseUrl, authHeaders, files: [{ id: 'x'.repeat(21), storage_session_id: 'y'.repeat(21), resource_id: 'u', name: 'a', kind: 'user' }] });
  await assert.rejects(other.invoke({ lang: 'py', code: '1' }), /not authorized/);
  say('errors');
}
console.log(`1..${step}`);
process.exit(0);
