// The official SDK of TypeScript as a client: client.mjs URL, or client.mjs -- COMMAND...
// It does and prints what client.py does. AIRLOCK_SDK names the folder with the SDK.
import { createRequire } from 'node:module';

const from = createRequire(process.env.AIRLOCK_SDK + '/package.json');
const { Client } = from('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = from('@modelcontextprotocol/sdk/client/stdio.js');
const { StreamableHTTPClientTransport } = from('@modelcontextprotocol/sdk/client/streamableHttp.js');

const [where, command, ...args] = process.argv.slice(2);
const transport = where === '--'
	? new StdioClientTransport({ command, args, env: process.env })
	: new StreamableHTTPClientTransport(new URL(where));
const client = new Client({ name: 'test', version: '1' });
await client.connect(transport);
const call = (name, args) => client.callTool({ name, arguments: args });
const tools = await client.listTools();
const first = await call('run_code', { code: "x = 41\nopen('made.txt', 'w').write('from python')" });
const session = first.content[0].text.match(/s_[A-Za-z0-9_-]{21}/)[0];
const second = await call('run_code', { code: 'print(x + 1)', session });
const slow = "import time; print('up', flush=True); time.sleep(2); print('done')";
const waiting = await call('run_code', { code: slow, session, wait_seconds: 1 });
const ended = await call('wait_run', { run: waiting.content[0].text.match(/r_[A-Za-z0-9_-]+/)[0] });
await call('write_file', { path: 'data/in.txt', content: 'from the agent', session });
const listed = await call('list_files', { session });
const read = await call('run_code', { code: "print(open('data/in.txt').read())", session });
await call('delete_file', { path: 'made.txt', session });
const gone = await call('read_file', { path: 'made.txt', session });
const there = await call('read_file', { path: 'data/in.txt', session });
const wrong = await call('run_code', { code: 1 });
console.log(JSON.stringify({
	version: '',
	tools: tools.tools.map((t) => t.name),
	files: first.content.map((c) => c.type),
	second: second.content[0].text,
	waiting: waiting.content[0].text,
	ended: ended.content[0].text,
	worked: [listed, read, gone, there].map((r) => r.content[0].text),
	wrong: [wrong.isError === true, wrong.content[0].text],
}));
await client.close();
