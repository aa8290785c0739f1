// Calls most of E2B's TypeScript SDK, one call at a time; see exchanges.py.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const require = createRequire(process.env.AIRLOCK_SDK + '/package.json')
const { Sandbox } = await import(pathToFileURL(require.resolve('@e2b/code-interpreter')))

const s = await Sandbox.create({ envs: { ONE: "it's" }, metadata: { 'a b': 'c&d=ü' }, timeoutMs: 600_000 })
await s.runCode('1 + 1')
await s.runCode("print('ü\\u2028')")
await s.runCode('1 / 0')
const c = await s.createCodeContext({ language: 'javascript' })
await s.runCode('const q = 20; q + 1', { context: c })
await s.removeCodeContext(c)
await assert.rejects(s.runCode('1', { context: c }))
await s.commands.run('echo $ONE')
await assert.rejects(s.commands.run('exit 3'))
await s.commands.kill(99999)
await s.files.write('d/x.txt', 'hällo')
await s.files.read('/home/user/d/x.txt')
await s.files.write([{ path: 'd/1', data: '1' }])
await s.files.list('d')
await s.files.exists('none')
await s.files.makeDir('d')
await s.files.rename('d/1', 'o/1')
await s.files.remove('o')
await assert.rejects(s.files.read('none'))
await s.isRunning()
await s.setTimeout(1_000_000)
await s.getInfo()
await Sandbox.list({ query: { metadata: { 'a b': 'c&d=ü' } } }).nextItems()
await Sandbox.connect(s.sandboxId)
await assert.rejects(s.pause())
await s.kill()
await Sandbox.kill(s.sandboxId)
await s.isRunning()
process.exit(0) // its connections are kept for more
