// Does with OpenAI's SDK of TypeScript what applications do with it: see client.py.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const [folder, baseURL, apiKey] = process.argv.slice(2)
const require = createRequire(folder + '/package.json')
const { default: OpenAI, toFile } = await import(pathToFileURL(require.resolve('openai')))
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 })

const upload = await client.files.create({ file: await toFile(Buffer.from('1,2\n'), 'data.csv'), purpose: 'user_data' })
const code = "```python\nimport glob\nprint(open(glob.glob('/mnt/data/*data.csv')[0]).read())\nopen('/mnt/data/ü.txt', 'w').write('made')\n```\nLINK ü.txt"
const tools = [{ type: 'code_interpreter', container: { type: 'auto', file_ids: [upload.id] } }]
const got = await client.responses.create({ model: 'tiny', input: code, tools, include: ['code_interpreter_call.outputs'] })
const call = got.output.find((item) => item.type === 'code_interpreter_call')
assert.match(call.outputs[0].logs, /^1,2\n/)
const [note] = got.output.at(-1).content[0].annotations
assert.equal(note.filename, 'ü.txt')
const made = await client.containers.files.content.retrieve(note.file_id, { container_id: note.container_id })
assert.equal(await made.text(), 'made')

const kinds = new Set()
const stream = client.responses.stream({ model: 'tiny', input: '```python\n40 + 2\n```', tools: [{ type: 'code_interpreter', container: call.container_id }] })
for await (const e of stream) kinds.add(e.type)
assert.equal((await stream.finalResponse()).output_text, '42\n')
for (const kind of ['response.created', 'response.code_interpreter_call_code.delta', 'response.code_interpreter_call.completed', 'response.output_text.delta', 'response.completed'])
  assert(kinds.has(kind), kind)

const files = []
for await (const f of client.containers.files.list(call.container_id, { limit: 1 })) files.push(f.source)
assert.deepEqual(files.sort(), ['assistant', 'user'])
await client.containers.delete(call.container_id)
await assert.rejects(client.containers.retrieve(call.container_id), OpenAI.NotFoundError)
await assert.rejects(client.responses.create({ model: 'tiny', input: 'x', background: true }), (e) => e.status === 400 && e.param === 'background')

const whole = await client.uploads.create({ filename: 'parts.txt', bytes: 4, mime_type: 'text/plain', purpose: 'user_data' })
const parts = []
for (const text of ['ab', 'cd']) parts.push((await client.uploads.parts.create(whole.id, { data: await toFile(Buffer.from(text)) })).id)
const joined = await client.uploads.complete(whole.id, { part_ids: parts })
assert.equal(await (await client.files.content(joined.file.id)).text(), 'abcd')
await assert.rejects(client.uploads.cancel(whole.id), OpenAI.NotFoundError)
